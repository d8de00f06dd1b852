"""The tables say what the runs measured, and nothing is done twice."""

import json
import shutil
from typing import get_args

import pytest

from gaussproto.config import RunConfig
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS, preset
from gaussproto.report.figures import FIGURES
from gaussproto.reproduce.answer import answer
from gaussproto.reproduce.figures import write_figures
from gaussproto.reproduce.paper import FIGURE_RUNS, TABLES, WHAT, Budget, rows_of
from gaussproto.reproduce.tables import read_runs, score, tables, words
from gaussproto.training.run_folder import RunFolder
from tests.conftest import uneven

EVERY = {row.run: row for rows in TABLES.values() for row in rows}


@pytest.fixture(scope="module")
def split(characters):
    return Split(characters.select(range(60)), characters.select(range(60, 84)))


@pytest.fixture(scope="module")
def answered(split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answered") / "small-radius"
    assert answer(tiny(), split, folder) is None
    return folder


def tiny() -> RunConfig:
    small = {"filters": "8,8,8", "embedding_dim": 8, "way": 12, "episodes": 30, "checkpoint_every": 5, "snapshots": 3}
    return preset("standard-small-radius", data="strokes", **small)


def test_a_run_is_measured_in_full(answered, split):
    metrics = json.loads((answered / "metrics.json").read_text())
    assert set(metrics["evaluation"]) == {"strokes running top", "strokes running last", "strokes batch top"}
    assert {(s["way"], s["shot"]) for s in metrics["evaluation"]["strokes running top"]["scores"]} == {
        (way, shot) for way in (5, 20) for shot in range(1, 20)
    }
    assert [point["episode"] for point in metrics["curve"]] == [10, 20, 30]
    assert len(metrics["damage"]["accuracy"]) == 6
    assert {"seed", "command", "commits", "seconds"} <= metrics["training"].keys()


def test_of_one_run_among_many_only_the_last_checkpoint_is_measured(split, tmp_path):
    assert answer(tiny().override(episodes=5), split, tmp_path / "run", whole=False) is None
    metrics = RunFolder(tmp_path / "run").read_metrics()
    assert set(metrics["evaluation"]) == {"strokes running last"}
    assert "damage" in metrics
    assert "curve" not in metrics


def test_data_of_few_images_is_answered_as_far_as_it_goes(split, tmp_path):
    few = uneven(split.test, [4] * split.test.way)
    assert answer(tiny().override(episodes=5), Split(split.train, few), tmp_path / "small-radius") is None
    metrics = RunFolder(tmp_path / "small-radius").read_metrics()
    assert {score["shot"] for score in metrics["evaluation"]["strokes batch top"]["scores"]} == {1, 3}
    assert len(metrics["damage"]["accuracy"]) == 4
    bad = next(table for table in tables("all", read_runs(tmp_path)) if table.name == "ours")
    assert bad.rows[0][-6:] == ("-",) * 6


def test_what_is_done_is_skipped_and_what_is_missing_is_measured(answered, split, monkeypatch):
    path = answered / "metrics.json"
    whole = json.loads(path.read_text())

    def must_not(*args, **kwargs):
        raise AssertionError("done already")

    with monkeypatch.context() as patch:
        for name in ("train", "evaluate", "damage_study"):
            patch.setattr(f"gaussproto.reproduce.answer.{name}", must_not)
        assert answer(tiny(), split, answered) is None
    assert json.loads(path.read_text()) == whole

    part = json.loads(path.read_text())
    del part["evaluation"]["strokes batch top"], part["damage"]
    part["evaluation"]["strokes running last"] |= {"rounds": 3, "scores": []}  # as --rounds 3 leaves it
    part["curve"].pop(1)
    path.write_text(json.dumps(part))
    answer(tiny(), split, answered)
    again = json.loads(path.read_text())
    assert again["damage"] == whole["damage"]
    assert again["curve"] == whole["curve"]
    assert again["evaluation"] == whole["evaluation"]


def test_another_recipe_in_the_same_folder_is_refused(answered, split):
    with pytest.raises(InputError, match="other settings"):
        answer(tiny().override(learning_rate=0.1), split, answered)


def test_tables_hold_the_scores(answered):
    runs = read_runs(answered.parent)
    (table,) = tables("verification", runs)
    by_run = {row[0].strip("`"): row for row in table.rows}
    assert by_run["small-none"][3] == "-"  # not run
    row = by_run["small-radius"]
    found = score(runs["small-radius"], (20, 1))
    assert row[2] == "95.99 ± 0.28"
    assert row[3] == f"{100 * found['accuracy']:.2f} ± {100 * found['std']:.2f} [± {100 * found['interval']:.2f}]"
    assert row[4] == words(score(runs["small-radius"], (20, 1), "batch"), interval=True)
    assert all(len(line) == len(table.columns) for table in tables("all", runs) for line in table.rows)


def test_scores_on_other_data_are_not_in_the_tables(answered, tmp_path):
    shutil.copytree(answered, tmp_path / "small-radius")
    path = tmp_path / "small-radius" / "metrics.json"
    metrics = json.loads(path.read_text())
    other = metrics["evaluation"]["strokes running top"] | {"data": "omniglot"}
    path.write_text(json.dumps(metrics | {"evaluation": {"omniglot running top": other} | metrics["evaluation"]}))
    assert read_runs(tmp_path)["small-radius"]["evaluation"].keys() == metrics["evaluation"].keys()


def test_figures_are_drawn_where_their_runs_are(answered, tmp_path, monkeypatch):
    monkeypatch.setattr("gaussproto.reproduce.figures.FIGURE_RUNS", {7: {"network": "small-radius"}, 8: {"a": "none"}})
    files, left_out = write_figures(answered.parent, tmp_path)
    assert [path.name for path in files] == ["figure-07.svg", "figure-07.png"]
    assert left_out == ["figure 8, which needs none"]


def test_a_figure_that_cannot_be_drawn_does_not_take_the_others_with_it(answered, tmp_path, monkeypatch):
    shutil.copytree(answered, tmp_path / "small-radius")
    run = RunFolder(tmp_path / "small-radius")
    run.write_metrics(curve=[])
    figures = {number: {"network": "small-radius"} for number in (7, 6)}
    monkeypatch.setattr("gaussproto.reproduce.figures.FIGURE_RUNS", figures)
    files, (reason,) = write_figures(tmp_path, tmp_path / "figures")
    assert [path.name for path in files] == ["figure-06.svg", "figure-06.png"]
    assert reason.startswith("figure 7 (")
    run.write_metrics(training={"episodes": 10})  # as if it had been stopped
    assert write_figures(tmp_path, tmp_path / "figures")[0] == []


def test_every_figure_gets_the_runs_that_it_takes():
    for number, runs in FIGURE_RUNS.items():
        assert len(runs) in FIGURES[number].runs
        for budget in get_args(Budget):
            configs = [EVERY[run].config(budget) for run in runs.values()]
            if number == 7:
                assert all(config.training.snapshots for config in configs)
            if number == 9:
                assert all(config.network.covariance != "none" for config in configs)


def test_the_command(gaussproto, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gaussproto.reproduce.paper.QUICK_EPISODES", {"small": 10})
    monkeypatch.setattr("gaussproto.reproduce.answer.QUICK_CLASSES", 22)
    asked = ("--only", "small-radius", "--budget", "quick", "--data", "strokes")
    code, out, err = gaussproto("reproduce", "verification", *asked)
    assert code == 0, err
    assert "95.99 ± 0.28" in out
    assert "The paper's numbers are of Omniglot, ours of strokes." in err
    folder = tmp_path / "runs" / "reproduce-quick-strokes"
    metrics = (folder / "small-radius" / "metrics.json").read_text()
    page = (folder / "tables.md").read_text()
    assert all(title in page for title in ("Small encoder", "Big encoder", "Distances", "Bad supports", "literature"))
    assert "the numbers mean nothing" in page

    code, out, err = gaussproto("reproduce", "figures", *asked, "--json")
    found = json.loads(out)
    assert code == 0, err
    assert (folder / "small-radius" / "metrics.json").read_text() == metrics  # nothing is done twice
    assert found["figures"] == []
    assert "figure 3, which needs small-none" in found["left_out"]
    assert (folder / "tables.md").read_text() == page


def test_every_row_has_its_runs():
    for run, row in EVERY.items():
        standard = row.config("standard")
        if not row.of:
            assert standard == PRESETS[f"standard-{run}"]
        assert row.config("quick").network == standard.network
        assert row.config("quick").training.episodes < 300
        if f"paper-{run}" in PRESETS:
            paper = row.config("paper")
            assert paper.network == standard.network
            assert [stage.damage for stage in paper.training.stages] == [s.damage for s in standard.training.stages]
            assert (paper.training.schedule, paper.training.learning_rate) == ("halving", 2e-3)
    assert {run for runs in FIGURE_RUNS.values() for run in runs.values()} <= EVERY.keys()
    assert all(rows_of(what) for what in WHAT)
    assert [row.run for row in rows_of("results", "big-radius-learned, big-none")] == ["big-radius-learned", "big-none"]


@pytest.mark.parametrize(
    ("what", "only", "message"),
    [
        ("tables", None, "nothing to reproduce called 'tables': it is one of verification, results"),
        ("seeds", "big-none", "rows of seeds, which are small-none, small-radius, small-several, small-weighted "),
        ("verification", "big-none", "rows of verification, which are small-none-5shot, small-none, small-radius"),
    ],
)
def test_unknown_names(what, only, message):
    with pytest.raises(InputError, match=message):
        rows_of(what, only)


def test_stopped_while_it_is_scored(gaussproto, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gaussproto.reproduce.answer.answer", interrupted)
    code, _, err = gaussproto("reproduce", "verification", "--budget", "quick", "--data", "strokes")
    assert code == 130
    assert "stopped in small-none-5shot; the same command goes on" in err
