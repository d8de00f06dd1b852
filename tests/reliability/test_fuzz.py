"""Damage every kind of file at random: each damage is detected, made good with a warning, or without effect."""

import pytest

from benchmarks.fuzz import DAMAGES, trials


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return list(trials(tmp_path_factory.mktemp("fuzz"), count=25, seed=7))


def test_no_damage_is_silent_and_none_crashes(results):
    assert [one for one in results if one.outcome in ("silent", "crash")] == []


def test_every_kind_of_file_is_damaged_in_every_way(results):
    assert len({one.kind for one in results}) == 11
    for kind in {one.kind for one in results}:
        assert {one.damage for one in results if one.kind == kind} == set(DAMAGES)


def test_most_damage_is_noticed(results):
    """Otherwise the comparison above would have nothing to compare."""
    hurt = [one for one in results if one.damage in ("flip", "header", "cut", "zeros")]
    assert sum(one.outcome in ("detected", "warning") for one in hurt) > 0.9 * len(hurt)
