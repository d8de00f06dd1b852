"""What the benchmark measures and how it tells; never how fast it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gaussproto.bench import measure, show, work
from gaussproto.bench.cases import Case, Work, all_cases, chosen_cases
from gaussproto.bench.plain import plain_loss, plain_network
from gaussproto.data.images import silent
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.presets import preset

TINY = Work("step", way=4, query=8)


def told(seconds, memory=measure.GIB, multiplications=None):
    found = {"times": [9.0, seconds, seconds], "memory": memory, "gemm": 1e9, "machine": MACHINE}
    return found | ({} if multiplications is None else {"multiplications": multiplications})


MACHINE = {"processor": "a processor", "threads": 2, "system": "Linux", "python": "3.11", "torch": "2.6"}


def test_names_are_unique_and_chosen_by_words():
    for quick in (False, True):
        names = [(case.group, case.name) for case in all_cases(quick)]
        assert len(set(names)) == len(names)
    assert chosen_cases(None) == list(all_cases())
    assert {case.group for case in chosen_cases("growth")} == {"growth images", "growth classes", "growth D"}
    with pytest.raises(InputError, match="'slow': choose words such as step"):
        chosen_cases("slow")


def test_sides_differ_in_nothing_but_how():
    for case in all_cases():
        if case.group in ("step", "episode", "embedding"):
            assert case.against == Work(**{**vars(case.ours), "plain": True})


@pytest.mark.parametrize("encoder", ["small", "big"])
def test_multiplications_are_those_of_the_convolutions(encoder):
    """As PyTorch itself counts them, a multiplication with its addition being two operations."""
    asked = Work("step", encoder, D=32, way=2, query=1)
    network = plain_network(encoder, asked.D)
    with FlopCounterMode(display=False) as counter:
        plain_loss(network, torch.rand(asked.batch, 1, 28, 28), asked.way, asked.shot).backward()
    counted = counter.get_flop_counts()["Global"]
    convolutions = sum(count for name, count in counted.items() if "convolution" in str(name))
    assert 2 * work.multiplications(asked) == convolutions


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "asked", [TINY, Work("embedding", images=40), Work("protocol", images=20 * 20)], ids=lambda asked: asked.kind
)
def test_work_can_be_repeated(asked, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "keep_freed_memory", lambda: True)  # would hold for all other tests
    do = work.prepare(Work(**{**vars(asked), "plain": plain}), tmp_path)
    assert len(work.timed(do, seconds=0, least=2)) == 2


def test_processes_tell():
    report = measure.measure(
        [Case("step", "tiny", TINY, Work(**{**vars(TINY), "plain": True}))], measure.Effort(1, 0.0, 1), silent
    )
    (result,) = report.results
    assert result.images == 36
    assert result.ratio == pytest.approx(result.against_seconds / result.seconds)
    assert 0.05 < result.memory < 4
    assert result.of_gemm > 0
    assert measure.read_report(json.loads(json.dumps(report.as_dict()))) == report


pytestmark = pytest.mark.filterwarnings("ignore:other programs are running")


def test_learning_curve(characters):
    tiny = preset("fast-small-none", way=10, episodes=30, snapshots=3, filters=(8, 8, 8), embedding_dim=8)
    curve = work.learning_curve(tiny, Split(characters, characters))
    seconds, accuracy = zip(*curve, strict=True)
    assert sorted(set(seconds)) == list(seconds)
    assert len(curve) == 3
    assert all(0.05 < share <= 1 for share in accuracy)


def test_what_fails_is_left_out():
    impossible = Case("step", "impossible", Work("step", way=0))
    with pytest.warns(UserWarning, match="step impossible is left out"):
        report = measure.measure([impossible], measure.Effort(1, 0.0, 1), silent)
    assert report.results == ()


def test_medians_and_spread():
    case = Case("step", "small", TINY, TINY)
    ours, others = (
        [told(1.0, multiplications=5e8), told(2.0, multiplications=5e8), told(4.0, multiplications=5e8)],
        [
            told(3.0),
            told(4.0),
            told(20.0, 2 * measure.GIB),
        ],
    )
    result = measure.summarise(case, ours, others)
    assert (result.seconds, result.against_seconds) == (2.0, 4.0)
    assert (result.ratio_low, result.ratio, result.ratio_high) == (2.0, 3.0, 5.0)  # of each round
    assert (result.memory, result.against_memory) == (1.0, 1.0)
    assert result.of_gemm == 0.25


@pytest.fixture
def report():
    results = [
        measure.Result("step", "small 60-way 1+19", 1200, 0.5, 2.0, 1.5, 3.0, 3.0, 2.9, 3.1, 0.7),
        measure.Result("embedding", "small", 4096, 0.5, 0.5, 1.5, 0.5, 3.0, 2.9, 3.1),
        measure.Result("protocol", "small", 52_720, 6.0, 1.0, 5.0, 1.0, 5 / 6, 0.8, 0.9),
        *(measure.Result("growth images", str(n), n, n / 1000, 1.0) for n in (60, 300, 2400)),
    ]
    return measure.Report(MACHINE, measure.Effort(), 6e10, tuple(results), ((50.0, 0.94), (90.0, 0.955)))


def test_tables(report):
    tables = {table.name: table for table in show.report_tables(report)}
    assert set(tables) == {"plain", "protocol", "growth images", "accuracy"}
    step, embedding = tables["plain"].rows
    assert step[1:6] == ("0.500 s", "1.500 s", "3.00", "2.90 - 3.10", "70 %")
    assert embedding[1] == "8,192 images/s"
    assert tables["protocol"].rows[0][-2:] == ("1.20", "1.11 - 1.25")
    assert "power of 1.00" in tables["growth images"].title
    assert tables["accuracy"].rows == (("95 %", "90 s"), ("96 %", "not reached (best 95.50 %)"))
    assert "120 GFLOP/s" in show.machine_words(report)
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)


def test_picture(report):
    figure = show.draw(report)
    ratios, growth = figure.axes
    assert [bar.get_width() for bar in ratios.patches] == [3.0, 3.0]
    assert growth.lines[0].get_ydata().tolist() == pytest.approx([1000.0] * 3)


def test_command():
    command = [sys.executable, "-c", "from gaussproto.cli import main; main()", "bench", "--json", "--quick"]
    result = subprocess.run([*command, "--only", "growth images 60"], capture_output=True, text=True, env=os.environ)
    assert result.returncode == 0, result.stderr
    (only,) = json.loads(result.stdout)["results"]
    assert (only["group"], only["name"], only["images"]) == ("growth images", "60", 60)
    result = subprocess.run([*command, "--only", "slow"], capture_output=True, text=True, env=os.environ)
    assert result.returncode == 2
    assert result.stderr.startswith("gaussproto: nothing is measured that is called 'slow'")


def test_page_is_filled_and_filled_again(report, tmp_path):
    root = Path(__file__).resolve().parents[2]
    (tmp_path / "performance.md").write_text((root / "docs" / "performance.md").read_text())
    (tmp_path / "images").mkdir()
    (tmp_path / "results.json").write_text(json.dumps(report.as_dict()))
    command = [sys.executable, root / "benchmarks" / "publish.py", tmp_path / "results.json", "--docs", tmp_path]
    pages = []
    for _ in range(2):
        subprocess.run(command, check=True, env=os.environ)
        pages.append((tmp_path / "performance.md").read_text())
    assert pages[0] == pages[1]
    assert "| training step, small 60-way 1+19 | 0.500 s | 1.500 s | 3.00 |" in pages[0]
    assert "What did not pay" in pages[0]
    assert (tmp_path / "images" / "performance.svg").exists()
