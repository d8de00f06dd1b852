"""The scoring of the bundled weights finds every number of their cards."""

import re

import pytest

from benchmarks import bundled
from gaussproto import pretrained
from gaussproto.errors import InputError
from gaussproto.progress import silent


@pytest.mark.parametrize("name", pretrained.bundled_names())
def test_cards_can_be_read(name):
    card = pretrained.bundled(name).with_suffix(".md").read_text()
    assert [int(shot) for shot, *_ in bundled.ACCURACY.findall(card)] == [1, 2, 3, 5, 10]
    assert len(bundled.DAMAGE.findall(card)[0].split(" | ")) == 6
    assert len(bundled.PRECISION.findall(card)[0]) == 3
    assert [tuple(map(int, row[:2])) for row in bundled.CONFIDENCE.findall(card)] == [(5, 1), (5, 5), (20, 1), (20, 5)]


def test_scores_are_compared_with_the_card(characters):
    card = pretrained.bundled("drawings-small").with_suffix(".md").read_text()
    test = characters.sample_of_classes(50)
    scores = list(bundled.score_bundled("drawings-small", test, card, silent))
    assert len({score.name for score in scores}) == len(scores) == 10 + 6 + 3 + 20
    first = scores[0]
    in_card = re.search(r"\| 1 \| ([0-9.]+) ±", card)
    assert in_card
    assert (first.name, first.card) == ("5-way 1-shot accuracy, %", in_card[1])
    assert 80 < first.measured < 100
    with pytest.raises(InputError, match="the card of drawings-small has no text"):
        list(bundled.score_bundled("drawings-small", test, "", silent))


@pytest.mark.parametrize(("card", "measured", "agrees"), [("99.22", 99.2299, True), ("0.0019", 0.0021, False)])
def test_one_unit_of_the_last_digit_is_allowed(card, measured, agrees):
    assert bundled.CardScore("a score", card, measured).agrees is agrees
