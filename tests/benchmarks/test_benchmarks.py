"""What the benchmark measures and how it is shown; never how fast it is."""

import doctest
import json
import re
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import cases, measure, picture, tables, timer, worker
from benchmarks.cases import Case, Work, all_cases, select_cases
from benchmarks.plain import plain_loss, plain_network
from benchmarks.results import CaseResult, Cost, Curve, CurvePoint, Effort, Ratio, Report, WorkerResult, read_report
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.files import write_json
from gaussproto.presets import preset
from gaussproto.progress import silent

TINY = Work(kind="step", way=4, query=8)
LEAST = Effort(rounds=1, seconds=0.0, repetitions=1)
MACHINE = {"processor": "a processor", "threads": 2, "system": "Linux", "python": "3.11", "torch": "2.6"}

pytestmark = pytest.mark.filterwarnings("ignore:other programs are running")


def worker_result(seconds, memory=measure.GIB, multiplications=None):
    times = (9.0, seconds, seconds)
    return WorkerResult(machine=MACHINE, times=times, memory=memory, gemm_rate=1e9, multiplications=multiplications)


def run_command(module, *options):
    command = [sys.executable, "-m", module, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, cwd=measure.ROOT)


@pytest.mark.parametrize("module", [cases, tables, timer], ids=lambda module: module.__name__)
def test_examples(module):
    tried = doctest.testmod(module)
    assert tried.attempted > 0
    assert tried.failed == 0


def test_names_are_unique_and_selected_by_words():
    for quick in (False, True):
        names = [case.title for case in all_cases(quick)]
        assert len(set(names)) == len(names)
    assert select_cases(None) == list(all_cases())
    assert {case.group for case in select_cases("growth")} == {"growth images", "growth classes", "growth D"}
    with pytest.raises(InputError, match="'slow': choose among the words step"):
        select_cases("slow")


def test_the_sides_of_a_case_differ_in_one_thing():
    for case in all_cases():
        if case.group in tables.AGAINST_PLAIN:
            assert case.other == case.ours.but(plain=True, keep_memory=False)
        elif case.group == "predict":
            assert case.ours.keep_memory
            assert case.other == case.ours.but(keep_memory=False)
        elif case.group == "protocol":
            assert case.other == case.ours.but(kind="embedding")
        else:
            assert case.other is None


@pytest.mark.parametrize("encoder", ["small", "big"])
def test_multiplications_are_those_of_the_convolutions(encoder):
    """As PyTorch itself counts them; a multiplication with its addition is two operations."""
    work = Work(kind="step", encoder=encoder, D=32, way=2, query=1)
    network = plain_network(encoder, work.D)
    with FlopCounterMode(display=False) as counter:
        plain_loss(network, torch.rand(work.batch, 1, 28, 28), work.way, work.shot).backward()
    counts = counter.get_flop_counts()["Global"]
    convolutions = sum(count for name, count in counts.items() if "convolution" in str(name))
    assert 2 * worker.multiplications(work) == convolutions


@pytest.mark.parametrize(
    "work",
    [
        TINY,
        TINY.as_plain(),
        Work(kind="episode", way=4, query=2),
        Work(kind="embedding", images=40),
        Work(kind="embedding", images=40).as_plain(),
        Work(kind="protocol", images=20 * 20),
        Work(kind="predict", images=40),
    ],
    ids=lambda work: f"{work.kind}{' plain' if work.plain else ''}",
)
def test_work_can_be_repeated(work, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "keep_freed_memory", lambda: True)  # would hold for all other tests
    assert len(timer.measure_times(worker.prepare(work, tmp_path), repetitions=2)) == 2


@pytest.mark.parametrize("keep_memory", [True, False])
def test_freed_memory_is_kept_only_where_the_work_says_so(keep_memory, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(worker, "keep_freed_memory", lambda: calls.append(True))
    worker.prepare(TINY.but(keep_memory=keep_memory), tmp_path)
    assert calls == [True] * keep_memory


def test_the_timer_warms_up_and_repeats():
    calls = []
    assert len(timer.measure_times(lambda: calls.append(0), repetitions=3, warm_up=2)) == 3
    assert len(calls) == 5
    times = timer.measure_times(lambda: None, seconds=0.001)
    assert sum(times) >= 0.001
    assert sum(times[:-1]) < 0.001


def test_sides_take_turns():
    calls = []
    sides = [lambda name=name: calls.append(name) or len(calls) for name in "ab"]
    assert timer.take_turns(2, *sides) == [[1, 3], [2, 4]]
    assert calls == ["a", "b", "a", "b"]


def test_worker_processes(tmp_path):
    report = measure.measure([Case(group="step", name="tiny", ours=TINY, other=TINY.as_plain())], LEAST, silent)
    (case,) = report.cases
    assert case.images == 36
    assert case.speedup.median == pytest.approx(case.other.seconds / case.ours.seconds)
    assert 0.05 < case.ours.memory < 4
    assert case.gemm_share > 0
    write_json(tmp_path / "results.json", report.model_dump(mode="json"))
    assert read_report(tmp_path / "results.json") == report


def test_a_case_that_fails_is_left_out():
    impossible = Case(group="step", name="impossible", ours=Work(kind="step", way=0))
    with pytest.warns(UserWarning, match="step impossible is skipped"):
        report = measure.measure([impossible], LEAST, silent)
    assert report.cases == ()
    assert report.machine is None


def test_learning_curve(characters):
    tiny = preset("fast-small-none", way=10, episodes=30, snapshots=3, filters=(8, 8, 8), embedding_dim=8)
    curve = worker.learning_curve(tiny, Split(characters, characters))
    seconds = [point.seconds for point in curve]
    assert sorted(set(seconds)) == seconds
    assert len(curve) == 3
    assert all(0.05 < point.accuracy <= 1 for point in curve)


def test_medians_and_range():
    ours = [worker_result(seconds, multiplications=500_000_000) for seconds in (1.0, 2.0, 4.0)]
    other = [worker_result(3.0), worker_result(4.0), worker_result(20.0, 2 * measure.GIB)]
    result = measure.summarise(Case(group="step", name="small", ours=TINY, other=TINY), ours, other)
    assert result.ours == Cost(seconds=2.0, memory=1.0)
    assert result.other == Cost(seconds=4.0, memory=1.0)
    assert result.speedup == Ratio(median=3.0, low=2.0, high=5.0)  # of each round
    assert result.speedup.inverse == Ratio(median=1 / 3, low=0.2, high=0.5)
    assert result.gemm_share == 0.25


@pytest.fixture
def report():
    half, longer = Cost(seconds=0.5, memory=2.0), Cost(seconds=1.5, memory=3.0)
    thrice = {"ours": half, "other": longer, "speedup": Ratio(median=3.0, low=2.9, high=3.1)}
    protocol = {
        "ours": Cost(seconds=6.0, memory=1.0),
        "other": Cost(seconds=5.0, memory=1.0),
        "speedup": Ratio(median=5 / 6, low=0.8, high=0.9),
    }
    results = [
        CaseResult(group="step", name="small 60-way 1+19", images=1200, gemm_share=0.7, **thrice),
        CaseResult(group="embedding", name="small", images=4096, **thrice),
        CaseResult(group="protocol", name="small", images=52_720, **protocol),
        CaseResult(group="predict", name="small", images=1000, **thrice),
        *(
            CaseResult(group="growth images", name=str(n), images=n, ours=Cost(seconds=n / 1000, memory=1.0))
            for n in (60, 300, 2400)
        ),
    ]
    points = (CurvePoint(seconds=50.0, accuracy=0.94), CurvePoint(seconds=90.0, accuracy=0.955))
    better = (CurvePoint(seconds=60.0, accuracy=0.952), CurvePoint(seconds=80.0, accuracy=0.971))
    curves = (Curve(preset="plain", points=points), Curve(preset="prepared", load=20.0, points=better))
    return Report(machine=MACHINE, effort=Effort(), gemm_rate=6e10, cases=tuple(results), curves=curves)


def test_tables(report):
    made = {table.name: table for table in tables.report_tables(report)}
    assert set(made) == {"plain", "protocol", "predict", "growth images", "accuracy"}
    step, embedding = made["plain"].rows
    assert step[1:] == ("0.500 s", "1.500 s", "3.00", "2.90 - 3.10", "70 %", "2.00", "3.00")
    assert embedding[1] == "8,192 images/s"
    assert made["protocol"].rows[0][-2:] == ("1.20", "1.11 - 1.25")
    assert made["predict"].rows == (("small", "1,000", "0.500 s", "1.500 s", "3.00", "2.90 - 3.10"),)
    assert "power of 1.00" in made["growth images"].title
    assert made["accuracy"].rows == (
        ("95 %", "90 s", "60 s"),
        ("96 %", "not reached (best 95.50 %)", "80 s"),
        ("97 %", "not reached (best 95.50 %)", "80 s"),
        ("before, once: read and prepare the drawings", "", "20 s"),
    )
    assert "120 GFLOP/s" in tables.machine_text(report)
    assert all(len(row) == len(table.columns) for table in made.values() for row in table.rows)


def test_picture(report):
    speedups, growth = picture.draw(report).axes
    assert [bar.get_width() for bar in speedups.patches] == [3.0, 3.0]
    assert growth.lines[0].get_ydata().tolist() == pytest.approx([1000.0] * 3)


def test_command():
    result = run_command("benchmarks", "--json", "--quick", "--only", "growth images 60")
    assert result.returncode == 0, result.stderr
    report = Report.model_validate_json(result.stdout)
    (case,) = report.cases
    assert (report.version, case.group, case.name, case.images) == (1, "growth images", "60", 60)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--only", "slow"), "benchmarks: no case matches 'slow'"),
        (("--fast",), "benchmarks: unrecognized arguments: --fast"),
    ],
)
def test_errors_are_one_sentence(options, sentence):
    result = run_command("benchmarks", *options)
    assert result.returncode == 2
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_page_is_filled_and_filled_again(report, tmp_path):
    (tmp_path / "performance.md").write_text((measure.ROOT / "docs" / "performance.md").read_text())
    (tmp_path / "images").mkdir()
    write_json(tmp_path / "results.json", report.model_dump(mode="json"))
    pages = []
    for _ in range(2):
        result = run_command("benchmarks.publish", tmp_path / "results.json", "--docs", tmp_path)
        assert result.returncode == 0, result.stderr
        pages.append((tmp_path / "performance.md").read_text())
    assert pages[0] == pages[1]
    assert "| training step, small 60-way 1+19 | 0.500 s | 1.500 s | 3.00 |" in pages[0]
    assert "What did not pay" in pages[0]
    assert (tmp_path / "images" / "performance.svg").exists()


def test_the_page_shows_the_published_results():
    shown = re.search(
        r"<!-- measured -->\n(.*)\n<!-- end -->", (measure.ROOT / "docs" / "performance.md").read_text(), re.S
    )
    for table in tables.report_tables(read_report(measure.ROOT / "benchmarks" / "results.json")):
        assert table.markdown() in shown[1]


@pytest.mark.parametrize(("version", "sentence"), [(None, "found none"), (2, "found 2")], ids=["older", "unknown"])
def test_other_versions_are_refused(report, version, sentence, tmp_path):
    content = report.model_dump(mode="json") | {"version": version}
    (tmp_path / "results.json").write_text(json.dumps({key: value for key, value in content.items() if value}))
    with pytest.raises(InputError, match=sentence):
        read_report(tmp_path / "results.json")
