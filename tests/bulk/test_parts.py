"""The parts of stopped work: any name survives, and whatever the moment of a kill, continuing gives the same rows."""

import csv
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaussproto.bulk.answers import COLUMNS, csv_lines
from gaussproto.bulk.parts import CsvFormat, Parts
from gaussproto.bulk.read import as_text
from gaussproto.errors import InputError
from gaussproto.table import no_formula

SPECIAL = "\r\n\t\"',;=+-@\x00\x0b\x1c\x85\u2028\ufeff\udcff é"
NAMES = st.text(st.sampled_from(SPECIAL) | st.characters(), min_size=1)


@given(st.lists(NAMES, min_size=1, unique=True))
@example(["a\r.png", "=1+1", "'=1+1", "''=1+1"])
def test_any_name_survives_a_csv_part(tmp_path_factory, names):
    path, format_ = tmp_path_factory.getbasetemp() / "part.csv", CsvFormat(COLUMNS)
    answers = [{"image": as_text(name), "problem": f"why: {name!r}"} for name in names]
    format_.write(path, [list(csv_lines(answers[:1])), list(csv_lines(answers[1:]))])
    assert list(format_.images(path)) == [format_.text(name) for name in names]
    with path.open(newline="", encoding="utf-8") as file:
        assert [row[-1] for row in csv.reader(file)][1:] == [answer["problem"] for answer in answers]


@given(NAMES, NAMES)
@example("=1+1", "'=1+1")
def test_different_names_stay_different_without_formulas(one, other):
    assert (no_formula(one) == no_formula(other)) == (one == other)


def test_a_part_that_is_not_csv_is_damaged(tmp_path):
    for content in ("", "nothing\n", f"{','.join(COLUMNS)}\n" + "x" * 200_000 + ",\n"):
        (tmp_path / "part-000000.csv").write_text(content)
        parts = SimpleNamespace(finished=[tmp_path / "part-000000.csv"], format=CsvFormat(COLUMNS))
        with pytest.raises(InputError, match=r"part-000000.csv is damaged .*: remove it"):
            list(Parts.done(parts))
