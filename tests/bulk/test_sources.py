"""What users pass to `embed` and `classify`: lists of spreadsheets, folders without permission, unreadable files."""

import csv
import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gaussproto as gp
from gaussproto.bulk.read import as_text
from gaussproto.bulk.sources import list_sources, plain_path
from tests.bulk.conftest import csv_of, rows_of

LINES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00")).filter(str.strip)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


@settings(deadline=None)
@given(st.lists(LINES, min_size=1, unique_by=plain_path), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_text_file_gives_back_its_lines(tmp_path_factory, names, newline, mark):
    path = tmp_path_factory.getbasetemp() / "list.txt"
    path.write_bytes(newline.join(names).encode("utf-8-sig" if mark or names[0][0] == "\ufeff" else "utf-8"))
    assert list(list_sources(path)) == names


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, unique_by=lambda row: plain_path(row[0])), st.sampled_from(",;"))
def test_a_csv_file_gives_back_its_cells(tmp_path_factory, rows, between):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=between, quoting=csv.QUOTE_ALL).writerows([("path", "label"), *rows])
    path = tmp_path_factory.getbasetemp() / "list.csv"
    path.write_bytes(text.getvalue().encode("utf-8-sig"))
    assert list(list_sources(path).items()) == rows


def test_a_list_that_is_not_csv_is_one_sentence(tmp_path):
    (tmp_path / "list.csv").write_text("path\n" + "x" * 200_000)
    with pytest.raises(gp.InputError, match=r"list.csv is not readable as CSV after line 1 \(field larger"):
        list_sources(tmp_path / "list.csv")


def test_a_path_counts_once_however_it_is_written(drawings, tmp_path, monkeypatch):
    monkeypatch.chdir(drawings)
    (tmp_path / "list.txt").write_text("./c0/1.png\nc0//1.png\nc0/1.png\nc0/../c0/1.png\n")
    assert list(list_sources(tmp_path / "list.txt")) == ["./c0/1.png", "c0/../c0/1.png"]
    assert gp.embed_files("c0/1.png", tmp_path / "out", "drawings-small").new == 1
    assert gp.embed_files(tmp_path / "list.txt", tmp_path / "out", "drawings-small").new == 1


def test_a_folder_without_permission_is_an_unreadable_row(drawings, tmp_path, monkeypatch):
    def scandir(path, scan=os.scandir):
        if str(path).endswith("c1"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read every folder
    result = gp.embed_files(drawings, tmp_path / "out", "drawings-small", processes=1)
    assert (result.images, list(result.problems)) == (32, [str(drawings / "c1")])
    with pytest.raises(gp.InputError, match=r"cannot read the folder .*c1 \(Permission denied\): check"):
        list_sources(drawings / "c1")


def test_what_cannot_be_read_is_named_once(drawings, clf, tmp_path, monkeypatch):
    """A name is not part of the reason, because it stands before it."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.png")
    (tmp_path / "link.png").symlink_to("nowhere")
    (tmp_path / "empty.png").touch()
    (tmp_path / "line\r.png").write_bytes(b"nothing")
    (tmp_path / "good.png").write_bytes((drawings / "c0" / "0.png").read_bytes())
    expected = {
        "empty.png": "is not a readable image (it is empty): replace or remove it",
        "fifo.png": "must be a file (found a pipe): check the path",
        "line\r.png": "is not a readable image (its format is unknown): replace or remove it",
        "link.png": "does not exist: check the path",
    }
    sources = [*expected, "good.png"]
    assert gp.embed_files(sources, "out").problems == expected
    assert gp.classify_files(clf, sources, "answers.csv").problems == expected
    assert {row["image"]: row["problem"] for row in csv_of(tmp_path / "answers.csv") if not row["rank"]} == expected


def test_one_readable_image_among_many_is_enough(drawings, clf, tmp_path, gaussproto):
    folder = tmp_path / "mostly broken"
    folder.mkdir()
    for i in range(100):
        (folder / f"{i:03}.png").write_bytes(b"nothing")
    assert gp.classify_files(clf, folder, tmp_path / "answers.csv").unreadable == 100
    with pytest.raises(gp.InputError, match=r"none of the images can be read, for example: .*000.png is not"):
        gp.embed_files(folder, tmp_path / "embeddings")
    (folder / "007.png").write_bytes((drawings / "c0" / "0.png").read_bytes())
    code, _, err = gaussproto("embed", folder, "--out", tmp_path / "embeddings")
    assert code == 0
    assert "100 new images (99 unreadable)" in err
    assert "the rows of 100 images are in" in err
    (good,) = [row for row in rows_of(tmp_path / "embeddings") if row["problem"] is None]
    assert np.linalg.norm(good["embedding"]) > 0


def test_a_label_that_is_not_utf_8_is_escaped(drawings, tmp_path):
    folder = os.fsencode(tmp_path) + b"/in/\xff"
    os.makedirs(folder)  # noqa: PTH103
    Image.new("L", (9, 9)).save(os.fsdecode(folder) + "/it.png")
    gp.embed_files(tmp_path / "in", tmp_path / "out", "drawings-small")
    assert [row["label"] for row in rows_of(tmp_path / "out")] == [as_text("\udcff")]


def test_folders_inside_need_an_option(drawings, clf, tmp_path, gaussproto):
    clf.save(tmp_path / "my.gallery")
    for more, sentence in (
        ([], "only folders, for example 'c0': choose a folder with image files, or pass --recursive"),
        (["--out", tmp_path / "answers.csv"], "the sources contain no images: pass folders or lists"),
    ):
        code, _, err = gaussproto("classify", drawings, "--gallery", tmp_path / "my.gallery", *more)
        assert code == 2
        assert sentence in err
        assert "--recursive" in err
