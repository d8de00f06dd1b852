"""Vanilla and Gaussian networks are compared seed by seed, and differ in the network alone."""

import re
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from gaussproto.paper.row import SEED_EPISODES, SEEDS
from gaussproto.paper.rows import PAIRS, REPEATED, TABLES
from gaussproto.paper.tables import make_tables
from gaussproto.runs.metrics import DamageStudy, Metrics, RunEvaluation, Score


def test_networks_that_are_compared_over_seeds_differ_in_the_network_alone():
    assert len({row.config("standard").name for row in TABLES["seeds"]}) == 2 * len(PAIRS) * SEEDS
    for vanilla, gaussian in PAIRS:
        pairs = zip(REPEATED[vanilla.name], REPEATED[gaussian.name], strict=True)
        for seed, (one_row, other_row) in enumerate(pairs):
            one, other = one_row.config("standard"), other_row.config("standard")
            assert (one_row.repeats, other_row.repeats) == (vanilla.name, gaussian.name)
            assert (one.network.covariance, other.network.covariance) == ("none", "radius")
            assert (one.data, one.episode, one.training) == (other.data, other.episode, other.training)
            assert (one.training.seed, one.training.episodes, one.training.snapshots) == (seed, SEED_EPISODES, 0)
            assert one.episode == vanilla.config("standard").episode


def of_a_seed(columns, damage: bool = True) -> Metrics:
    """The metrics of a run with these accuracies: 1-shot, 5-shot, two to five of five supports bad."""
    one, five, *bad = columns
    scores = [Score(way=20, shot=shot, accuracy=each, interval=0.01) for shot, each in ((1, one), (5, five))]
    how = {"classes": 2636, "rounds": 10, "seed": 0, "checkpoints": 1}
    evaluation = RunEvaluation(
        norm="running", checkpoint="last", target="x", data="omniglot", scores=tuple(scores), **how
    )
    study = DamageStudy(size=7, way=20, shot=5, rounds=10, seed=0, accuracy=(five, 0.0, *bad))
    return Metrics(evaluations=(evaluation,), damage=study if damage else None)


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+]?\d+\.\d\d", cell)]


def rounded(*exact: float):
    return pytest.approx(exact, abs=0.00501)


a_run = st.lists(st.integers(5000, 10000).map(lambda n: n / 10000), min_size=6, max_size=6)


@given(st.lists(st.tuples(a_run, a_run), min_size=2, max_size=SEEDS), a_run, st.randoms())
def test_the_difference_is_that_of_the_runs_of_one_seed(accuracies, alone, random):
    seeds = random.sample(range(SEEDS), len(accuracies))
    runs = {f"small-none-seed-{seed}": of_a_seed(alone) for seed in range(SEEDS)}  # some of them without a partner
    for seed, (vanilla, gaussian) in zip(seeds, accuracies, strict=True):
        runs[f"small-none-seed-{seed}"] = of_a_seed(vanilla)
        runs[f"small-radius-seed-{seed}"] = of_a_seed(gaussian)
    (table,) = make_tables("seeds", runs)
    for column in range(6):
        one, other = 100 * np.array([[run[column] for run in pair] for pair in accuracies]).T
        assert numbers(table.rows[0][3 + column]) == rounded(one.mean(), statistics.stdev(one))
        assert numbers(table.rows[1][3 + column]) == rounded(other.mean(), statistics.stdev(other))
        varies = (other - one).std() > 1e-9
        low, high = scipy.stats.ttest_rel(other, one).confidence_interval() if varies else (0, 0)
        assert numbers(table.rows[2][3 + column]) == rounded((other - one).mean(), (high - low) / 2)
    assert [row[1] for row in table.rows[:3]] == ["vanilla", "Gaussian, radius (a)", "difference"]
    assert [row[2] for row in table.rows] == [str(len(accuracies))] * 3
    assert table.missing == ("`small-several`", "`small-weighted`")


def test_one_seed_has_no_interval_and_what_was_not_measured_is_left_open():
    runs = {f"small-none-seed-{seed}": of_a_seed([0.9 + seed / 100] * 6) for seed in range(SEEDS)}
    few = of_a_seed([0.75] * 6, damage=False)  # as data with too few images leaves it
    (table,) = make_tables("seeds", runs | {"small-radius-seed-2": few})
    assert [row[2:6] for row in table.rows[:3]] == [
        ("1", "92.00", "92.00", "92.00"),
        ("1", "75.00", "75.00", "-"),
        ("1", "-", "-", "-"),
    ]


def test_of_the_runs_of_many_seeds_only_a_part_is_measured(gaussproto, tmp_path, monkeypatch):
    made = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "gaussproto.paper.run.train_and_score",
        lambda config, split, folder, *, in_full, **_: made.append((folder.name, in_full)),
    )
    some = ("--budget", "quick", "--data", "strokes")
    code, _, err = gaussproto("reproduce", "all", "--only", "small-radius-seed-1,small-none", *some)
    assert code == 0, err
    assert made == [("small-radius-seed-1", False), ("small-none", True)]
    made.clear()
    assert gaussproto("reproduce", "seeds", "--only", "small-none", *some)[0] == 0
    assert made == [(f"small-none-seed-{seed}", False) for seed in range(SEEDS)]
