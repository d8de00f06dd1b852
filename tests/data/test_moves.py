"""Moving files loses none, replaces none, stays in the folder, and can be undone."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto.data import moves as m
from gaussproto.errors import InputError

CLASSES, NAMES = ["a", "b", "=1+1", "ü x", ".removed/a"], ["0.png", "1.png", "-2.png", "no ending"]
PLACES = [f"{name}/{file}" for name in CLASSES for file in NAMES]


def silent(n):
    pass


def tree(root):
    """Every file and folder, with the bytes of the files."""
    return {str(path.relative_to(root)): path.is_file() and path.read_bytes() for path in sorted(root.rglob("*"))}


def filled(root, files):
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"content of {name}".encode())
    return root


@settings(deadline=None, max_examples=60)
@given(st.permutations(PLACES), st.integers(1, 10), st.integers(0, 8), st.integers(0, 2))
def test_undo_restores_the_folder_bit_for_bit(order, exist, wanted, clashes):
    """Files move to free places, and perhaps one to a place that is taken, which refuses the whole list."""
    files, free = order[:exist], order[exist:]
    pairs = [*zip(files, free, strict=False)][:wanted] + [(name, files[0]) for name in files[1:2] * (clashes == 2)]
    with TemporaryDirectory() as folder:
        root = filled(Path(folder, "mine"), files)
        listed, undo = Path(folder, "moves.csv"), Path(folder, "moves.undo.csv")
        before = tree(root)
        m.write_moves(listed, [m.Move(*pair) for pair in pairs])
        assert m.read_moves(listed) == [m.Move(*pair) for pair in pairs]
        try:
            todo = m.plan_moves(root, m.read_moves(listed))
        except InputError:
            assert tree(root) == before
            return
        m.apply_moves(root, todo, undo, silent)
        after = tree(root)
        assert sorted(content for content in after.values() if content) == sorted(filter(None, before.values()))
        assert all(move.to in after and move.file not in after for move in todo)
        m.apply_moves(root, m.read_moves(undo), m.undo_file(undo), silent)
        assert tree(root) == before
        assert m.plan_moves(root, m.read_moves(undo)) == []  # it was done before


def test_a_stopped_run_can_be_continued_and_undone(tmp_path, monkeypatch):
    root = filled(tmp_path / "mine", ["a/0.png", "a/1.png", "b/0.png"])
    before, todo = tree(root), [m.Move("a/0.png", "b/2.png"), m.Move("a/1.png", "b/3.png")]
    real = m._move

    def fail_at_second(file, to):
        if file.name == "1.png":
            raise OSError(28, "No space left on device")
        real(file, to)

    monkeypatch.setattr(m, "_move", fail_at_second)
    with pytest.raises(InputError, match=r"No space left.*the 1 moves before it are done"):
        m.apply_moves(root, todo, tmp_path / "undo.csv", silent)
    monkeypatch.setattr(m, "_move", real)
    stopped = shutil.copytree(root, tmp_path / "other")
    m.apply_moves(root, m.read_moves(tmp_path / "undo.csv"), tmp_path / "redo.csv", silent)
    assert tree(root) == before
    m.apply_moves(stopped, todo, tmp_path / "undo2.csv", silent)
    assert set(tree(stopped)) == {"b", "b/0.png", "b/2.png", "b/3.png"}


def test_no_file_is_replaced(tmp_path):
    root = filled(tmp_path / "mine", ["a/0.png", "b/0.png"])
    before = tree(root)
    twice, chain = [("a/0.png", "c/0.png"), ("b/0.png", "c/0.png")], [("a/0.png", "c/0.png"), ("c/0.png", "d/0.png")]
    for moves in ([("a/0.png", "b/0.png")], [("a/0.png", "a/0.png")], twice, chain, [("c/1.png", "d/1.png")]):
        with pytest.raises(InputError, match="cannot move"):
            m.apply_moves(root, [m.Move(*move) for move in moves], tmp_path / "undo.csv", silent)
    with pytest.raises(FileExistsError):  # it appeared after the plan
        m._move(root / "a" / "0.png", root / "b" / "0.png")
    with pytest.raises(InputError, match="exists already"):
        m.apply_moves(root, [], filled(tmp_path, ["undo.csv"]) / "undo.csv", silent)
    assert tree(root) == before


def test_without_hard_links_files_are_renamed_and_none_is_replaced(tmp_path, monkeypatch):
    def no_links(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    root = filled(tmp_path, ["a/0.png", "b/0.png"])
    m._move(root / "a" / "0.png", root / "c" / "0.png")
    assert (root / "c" / "0.png").read_bytes() == b"content of a/0.png"
    with pytest.raises(FileExistsError):
        m._move(root / "c" / "0.png", root / "b" / "0.png")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x/1.png", "a/../../1.png", "1.png", "a\0/1.png"])
def test_paths_that_lead_out_of_the_folder_are_refused(tmp_path, path):
    for line in (f"{path},a/1.png", f"a/1.png,{path}"):
        (tmp_path / "moves.csv").write_text(f"file,to\n{line}\n")
        with pytest.raises(InputError, match=r"leads out of the folder|has no class|not a readable list"):
            m.read_moves(tmp_path / "moves.csv")


def test_links_are_not_followed(tmp_path):
    outside = filled(tmp_path / "outside", ["0.png"])
    root = filled(tmp_path / "mine", ["a/0.png"])
    (root / "b").symlink_to(outside)
    (root / "a" / "link.png").symlink_to(outside / "0.png")
    for move in (("a/0.png", "b/1.png"), ("b/0.png", "a/1.png"), ("a/link.png", "c/1.png"), ("a/0.png", "a/0.png/x")):
        with pytest.raises(InputError, match="cannot move"):
            m.plan_moves(root, [m.Move(*move)])


@pytest.mark.parametrize("text", ["", "image,label\n", "file,to\na/1.png\n", 'file,to\n"a/1.png,b\n'])
def test_other_files_are_no_lists_of_moves(tmp_path, text):
    (tmp_path / "moves.csv").write_text(text)
    with pytest.raises(InputError, match=r"moves\.csv"):
        m.read_moves(tmp_path / "moves.csv")


def test_a_line_without_a_goal_is_skipped(tmp_path):
    (tmp_path / "moves.csv").write_text("\ufefffile,to,why\r\na/1.png,,\r\n./a/2.png,./b/2.png,looks like b\r\n")
    assert m.read_moves(tmp_path / "moves.csv") == [m.Move("a/2.png", "b/2.png")]
