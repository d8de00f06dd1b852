"""The tables hold what the runs measured, and nothing is done twice."""

import json
import shutil
import signal
from typing import get_args

import pytest

from gaussproto.config import RunConfig
from gaussproto.data.load import Split
from gaussproto.errors import InputError
from gaussproto.files import read_json, write_json
from gaussproto.paper.figures import FIGURES, PaperFigure, write_figures
from gaussproto.paper.row import Budget, Row
from gaussproto.paper.rows import LITERATURE, ROWS, SMALL_RADIUS, TABLES, TARGETS
from gaussproto.paper.run import reproduce, select_rows, train_and_score
from gaussproto.paper.tables import find_score, make_tables, read_run, read_runs
from gaussproto.presets import PRESETS, preset
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import score_text
from gaussproto.training.train import RunResult
from tests.conftest import as_strokes, uneven


@pytest.fixture(scope="module")
def split(characters):
    return Split(as_strokes(characters.select(range(60))), characters.select(range(60, 84)))


@pytest.fixture(scope="module")
def scored(split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored") / "small-radius"
    assert train_and_score(tiny(), split, folder) is None
    return folder


@pytest.fixture
def ten_episodes(tmp_path, monkeypatch):
    """Quick runs are quicker, and land in a folder of the test."""
    config = Row.config
    monkeypatch.chdir(tmp_path)
    smaller = {"episodes": 10, "filters": "8,8,8", "embedding_dim": 8, "way": 12}
    monkeypatch.setattr(Row, "config", lambda row, budget: config(row, budget).override(**smaller))
    monkeypatch.setattr("gaussproto.paper.run.QUICK_CLASSES", 22)
    return tmp_path / "runs" / "reproduce-quick-strokes"


def tiny() -> RunConfig:
    small = {"filters": "8,8,8", "embedding_dim": 8, "way": 12, "episodes": 30, "checkpoint_every": 5, "snapshots": 3}
    return preset("standard-small-radius", data="strokes", **small)


def kinds(folder):
    return {evaluation.key for evaluation in RunFolder(folder).read_metrics().evaluations}


def test_a_run_is_measured_in_full(scored):
    metrics = RunFolder(scored).read_metrics()
    running_top = ("strokes", None, "running", "top", False, 1)
    others = ("strokes", None, "running", "last", False, 1), ("strokes", None, "batch", "top", False, 1)
    assert kinds(scored) == {running_top, *others}
    (top,) = [evaluation for evaluation in metrics.evaluations if evaluation.key == running_top]
    assert {(s.way, s.shot) for s in top.scores} == {(way, shot) for way in (5, 20) for shot in range(1, 20)}
    assert [point.episode for point in metrics.curve] == [10, 20, 30]
    assert len(metrics.damage.accuracy) == 6
    assert metrics.training.commits
    assert metrics.training.command


def test_of_one_run_among_many_only_the_last_checkpoint_is_measured(split, tmp_path):
    assert train_and_score(tiny().override(episodes=5), split, tmp_path / "run", in_full=False) is None
    metrics = RunFolder(tmp_path / "run").read_metrics()
    assert kinds(tmp_path / "run") == {("strokes", None, "running", "last", False, 1)}
    assert metrics.damage
    assert not metrics.curve


def test_data_of_few_images_is_scored_as_far_as_it_goes(split, tmp_path):
    few = uneven(split.test, [4] * split.test.way)
    assert train_and_score(tiny().override(episodes=5), Split(split.train, few), tmp_path / "small-radius") is None
    metrics = RunFolder(tmp_path / "small-radius").read_metrics()
    assert metrics.evaluation("strokes", "batch", "top").shots == [1, 3]
    assert len(metrics.damage.accuracy) == 4
    (damaged,) = make_tables("ours", read_runs(tmp_path))
    assert damaged.rows[0][-6:] == ("-",) * 6


def test_what_is_done_is_skipped_and_what_is_missing_is_measured(scored, split, monkeypatch):
    path = scored / "metrics.json"
    whole = read_json(path)

    def must_not(*args, **kwargs):
        raise AssertionError("done already")

    with monkeypatch.context() as patch:
        for name in ("train", "evaluate", "damage_study"):
            patch.setattr(f"gaussproto.paper.run.{name}", must_not)
        assert train_and_score(tiny(), split, scored) is None
    assert read_json(path) == whole

    part = read_json(path)
    part["damage"] = None
    part["evaluations"] = [each for each in part["evaluations"] if each["norm"] != "batch"]
    (last,) = [each for each in part["evaluations"] if each["checkpoint"] == "last"]
    last |= {"rounds": 3, "scores": []}  # as --rounds 3 leaves it
    part["curve"].pop(1)
    write_json(path, part)
    train_and_score(tiny(), split, scored)
    assert read_json(path) == whole


def test_another_recipe_in_the_same_folder_is_refused(scored, split):
    with pytest.raises(InputError, match="other settings"):
        train_and_score(tiny().override(learning_rate=0.1), split, scored)


def test_a_quick_run_does_not_pass_for_a_longer_one(scored, split):
    with pytest.raises(InputError, match="stages was 30 episodes and is now 60 episodes"):
        train_and_score(tiny().override(episodes=60), split, scored)


def test_tables_hold_the_scores(scored):
    runs = read_runs(scored.parent)
    (table,) = make_tables("verification", runs)
    by_run = {row[0].strip("`"): row for row in table.rows}
    assert set(by_run) == {"small-radius"}
    assert table.missing == ("`small-none-5shot`", "`small-none`")
    assert table.missing_text == "Not run yet: `small-none-5shot`, `small-none`."
    row = by_run["small-radius"]
    score = find_score(runs["small-radius"], (20, 1))
    assert row[2] == "95.99 (std 0.28)"
    assert row[3] == score_text(100 * score.accuracy, 100 * score.interval, 100 * score.std)
    assert row[4] == find_score(runs["small-radius"], (20, 1), "batch").text()
    assert all(len(line) == len(table.columns) for table in make_tables("all", runs) for line in table.rows)


def test_a_plus_or_minus_is_never_a_standard_deviation(scored):
    """The deviations are named as such: in all tables, ours and the paper's."""
    quoted = {cell for cells in LITERATURE.values() for cell in cells}
    runs = read_runs(scored.parent)
    intervals = {
        f"± {100 * score.interval:.2f}"
        for evaluation in runs["small-radius"].evaluations
        for score in evaluation.scores
    }
    cells = {cell for table in make_tables("all", runs) for row in table.rows for cell in row} - quoted
    assert all(any(interval in cell for interval in intervals) for cell in cells if "±" in cell)
    assert any("(std " in cell for cell in cells)


def test_scores_on_other_data_are_not_in_the_tables(scored, tmp_path):
    shutil.copytree(scored, tmp_path / "small-radius")
    run = RunFolder(tmp_path / "small-radius")
    metrics = run.read_metrics()
    other = metrics.evaluations[0].model_copy(update={"data": "omniglot"})
    run.write_metrics(evaluations=(other, *metrics.evaluations))
    assert read_run(run.path) == metrics


def figure(*names: str) -> dict[str, Row]:
    return {name: Row(name, name, {}) for name in names}


def test_figures_are_drawn_where_their_runs_are(scored, tmp_path, monkeypatch):
    draw = FIGURES[7].draw
    needed = {7: PaperFigure("it", "", draw, figure("small-radius")), 8: PaperFigure("it", "", draw, figure("none"))}
    monkeypatch.setattr("gaussproto.paper.figures.FIGURES", needed)
    files, left_out = write_figures(scored.parent, tmp_path)
    assert [path.name for path in files] == ["figure-07.svg", "figure-07.png"]
    assert left_out == ["figure 8 (it needs the run none)"]


def test_a_figure_that_cannot_be_drawn_does_not_take_the_others_with_it(scored, tmp_path, monkeypatch):
    shutil.copytree(scored, tmp_path / "small-radius")
    run = RunFolder(tmp_path / "small-radius")
    run.write_metrics(curve=())
    needed = {n: PaperFigure("it", "", FIGURES[n].draw, figure("small-radius")) for n in (7, 6)}
    monkeypatch.setattr("gaussproto.paper.figures.FIGURES", needed)
    files, (reason,) = write_figures(tmp_path, tmp_path / "figures")
    assert [path.name for path in files] == ["figure-06.svg", "figure-06.png"]
    assert reason.startswith("figure 7 (")
    stopped = run.read_metrics().training.model_copy(update={"episodes": 10})
    run.write_metrics(training=stopped)
    assert write_figures(tmp_path, tmp_path / "figures")[0] == []


def test_every_figure_gets_the_runs_that_it_takes():
    for number, paper_figure in FIGURES.items():
        assert len(paper_figure.rows) in paper_figure.run_counts
        for budget in get_args(Budget):
            configs = [row.config(budget) for row in paper_figure.rows.values()]
            if number == 7:
                assert all(config.training.snapshots for config in configs)
            if number == 9:
                assert all(config.network.covariance != "none" for config in configs)


def test_the_paper_is_reproduced_from_python(ten_episodes):
    logged = []
    result = reproduce(
        "verification",
        budget="quick",
        only="small-radius",
        data="strokes",
        on_log=lambda row, record: logged.append((row, record.episode)),
    )
    assert logged == [(SMALL_RADIUS, 10)]
    assert result.stopped is None
    assert result.folder.resolve() == ten_episodes
    assert result.page.read_text().startswith("# The paper's tables, budget quick, on strokes")
    (table,) = result.tables
    assert table.rows[-1][3] == find_score(read_run(ten_episodes / "small-radius"), (20, 1)).text()
    assert result.hardware
    assert "The paper's numbers are for Omniglot, ours for strokes." in result.notes
    with pytest.raises(InputError, match=r"budget must be one of quick, standard, paper \(found 'slow'\)"):
        reproduce("verification", budget="slow")


def test_the_command(gaussproto, ten_episodes):
    options = ("--only", "small-radius", "--budget", "quick", "--data", "strokes")
    code, out, err = gaussproto("reproduce", "verification", *options)
    assert code == 0, err
    assert "95.99 (std 0.28)" in out
    assert "The paper's numbers are for Omniglot, ours for strokes." in err
    metrics = (ten_episodes / "small-radius" / "metrics.json").read_text()
    page = (ten_episodes / "tables.md").read_text()
    assert "1 run in" in err
    assert "small-radius (1 of 1): 5-way 1-shot " in err
    assert "Not run yet: small-none-5shot, small-none." in err
    assert all(title in page for title in ("Small encoder", "Bad supports"))
    assert not any(title in page for title in ("Big encoder", "Distances", "literature"))  # nothing was run for these
    assert "Not run yet: `small-none-5shot`, `small-none`." in page
    assert "the numbers mean nothing" in page

    code, out, err = gaussproto("reproduce", "figures", *options, "--json")
    result = json.loads(out)
    assert code == 0, err
    assert (ten_episodes / "small-radius" / "metrics.json").read_text() == metrics  # nothing is done twice
    assert result["figures"] == []
    assert "figure 3 (it needs the run small-none)" in result["left_out"]
    assert (ten_episodes / "tables.md").read_text() == page


def test_every_row_has_its_runs():
    for name, row in ROWS.items():
        standard = row.config("standard")
        assert {config.network.encoder for config in row.configs.values()} == {standard.network.encoder}
        assert row.config("quick").network == standard.network
        assert row.config("quick").training.episodes < 300
        if not row.brief:
            assert standard == PRESETS[f"standard-{name}"]
        if "paper" in row.configs:
            paper = row.config("paper")
            assert paper == PRESETS[f"paper-{name}"]
            assert paper.network == standard.network
            assert [stage.damage for stage in paper.training.stages] == [s.damage for s in standard.training.stages]
            assert (paper.training.schedule, paper.training.learning_rate) == ("halving", 2e-3)
        else:
            assert row.config("paper") == standard
            assert not row.paper
    assert {row.name for figure in FIGURES.values() for row in figure.rows.values()} <= ROWS.keys()
    assert all(select_rows(target) for target in TARGETS)
    names = [row.name for row in select_rows("results", "big-radius-learned, big-none")]
    assert names == ["big-radius-learned", "big-none"]


def test_a_row_is_one_run_in_every_table():
    for rows in TABLES.values():
        assert all(row.configs == ROWS[row.name].configs for row in rows)


@pytest.mark.parametrize(
    ("target", "only", "message"),
    [
        ("tables", None, "the target must be one of verification, results"),
        ("seeds", "big-none", "rows of seeds .*: choose from small-none, small-radius, small-several, small-weighted$"),
        ("verification", "big-none", "rows of verification .*: choose from small-none-5shot, small-none, small-radius"),
    ],
)
def test_unknown_names(target, only, message):
    with pytest.raises(InputError, match=message):
        select_rows(target, only)


def test_stopped_while_it_is_scored(gaussproto, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gaussproto.paper.run.train_and_score", interrupted)
    code, _, err = gaussproto("reproduce", "verification", "--budget", "quick", "--data", "strokes")
    assert code == 130
    assert "stopped during small-none-5shot; run the same command again to continue" in err


def test_a_training_that_a_signal_stopped(gaussproto, tmp_path, monkeypatch):
    def stopped(config, split, folder, **_):
        return RunResult(folder, config, None, 3, 1.0, signal.SIGTERM)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gaussproto.paper.run.train_and_score", stopped)
    code, out, err = gaussproto("reproduce", "verification", "--budget", "quick", "--data", "strokes")
    assert code == 128 + signal.SIGTERM
    assert "stopped during small-none-5shot; run the same command again to continue" in err
    assert not out


def test_the_comparison_names_the_split_of_every_number(scored):
    runs = {"big-radius-learned": read_run(scored)}
    (table,) = make_tables("comparison", runs)
    column = table.columns.index("characters: train / test")
    splits = {row[0]: row[column] for row in table.rows}
    assert {splits[name] for name in LITERATURE} == {"1,200 / 423"}
    assert {split for name, split in splits.items() if name not in LITERATURE} == {"964 / 659"}
