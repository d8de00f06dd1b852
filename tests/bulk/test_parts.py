"""The parts of stopped work: any name survives, and whatever the moment of a kill, continuing gives the same rows."""

import csv
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaussproto.bulk.answers import COLUMNS, csv_lines
from gaussproto.bulk.parts import CsvFormat, Parts, open_parts
from gaussproto.bulk.pipeline import Done, run
from gaussproto.bulk.read import as_text
from gaussproto.data.look import Look
from gaussproto.errors import InputError
from gaussproto.table import no_formula

SPECIAL = "\r\n\t\"',;=+-@\x00\x0b\x1c\x85\u2028\ufeff\udcff é"
NAMES = st.text(st.sampled_from(SPECIAL) | st.characters(), min_size=1)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, unique=True))
@example(["a\r.png", "=1+1", "'=1+1", "''=1+1"])
def test_any_name_survives_a_csv_part(tmp_path_factory, names):
    path, format_ = tmp_path_factory.getbasetemp() / "part.csv", CsvFormat(COLUMNS)
    answers = [{"image": as_text(name), "problem": f"why: {name!r}"} for name in names]
    format_.write(path, [list(csv_lines(answers[:1])), list(csv_lines(answers[1:]))])
    assert list(format_.images(path)) == [format_.text(name) for name in names]
    with path.open(newline="", encoding="utf-8") as file:
        assert [row[-1] for row in csv.reader(file)][1:] == [answer["problem"] for answer in answers]


@settings(deadline=None)
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


IMAGES = [f"dir/{name}.png" for name in "abc"] + ["=1\r.png"]


def remove_in_order(folder: Path, ignore_errors: bool) -> None:
    """The manifest before the parts: shutil.rmtree takes the order of the file system."""
    for path in sorted(folder.iterdir()):
        path.unlink()
    folder.rmdir()


def answer_all(out: Path, moment: int | None = None) -> None:
    """Do what `classify --out` does, without a network, in parts of two images. Kill this process at a moment."""
    count = 0

    def kill_at(function):
        def counted(*arguments, **named):
            nonlocal count
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return counted

    def compute(images, work, on, processes):
        for name in images:
            yield Done(list(csv_lines([{"image": name, "problem": f"{name}?"}])), 1, 0, {name: "?"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gaussproto.bulk.pipeline._compute", compute)
        patch.setattr("gaussproto.bulk.parts.ROWS", 2)
        patch.setattr("gaussproto.bulk.parts.shutil.rmtree", remove_in_order)
        patch.setattr(os, "fsync", lambda file: None)  # slow, and a kill leaves what the system knows
        for name in ("replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, kill_at(getattr(os, name)))
        with open_parts(out.with_name("out.csv.parts"), CsvFormat(COLUMNS), {"top": 1}) as parts:
            work = SimpleNamespace(look=Look(), device="cpu")
            images = dict.fromkeys(IMAGES)
            run("x", images, work, parts, out, on="local", processes=1, strict=False, progress=lambda *_: None)
            parts.join(out)
    if moment is not None:
        os._exit(0)  # the moment never came


def test_work_killed_at_any_moment_continues_with_the_same_rows(tmp_path):
    """Before every change on the disk, a kill that nothing can catch."""
    answer_all(tmp_path / "out.csv")
    whole = (tmp_path / "out.csv").read_bytes()
    assert not (tmp_path / "out.csv.parts").exists()
    for moment in range(1, 200):
        out = tmp_path / f"{moment}" / "out.csv"
        child = os.fork()
        if child == 0:
            answer_all(out, moment)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if killed:
            answer_all(out)
        assert sorted(out.read_bytes().splitlines()) == sorted(whole.splitlines()), moment
        assert os.listdir(out.parent) == ["out.csv"], moment  # noqa: PTH208
        if not killed:
            break
    assert moment > 18
