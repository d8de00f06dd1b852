"""`gaussproto embed`: the rows, the sources, and stopping and starting again."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import gaussproto as gp
from gaussproto.bulk.sources import list_sources
from gaussproto.files import locked
from tests.bulk.conftest import rows_of


def test_the_rows_are_those_of_the_classifier(drawings, clf, tmp_path, small):
    result = gp.embed_files(drawings, tmp_path / "out", "drawings-small", processes=2)
    rows = rows_of(tmp_path / "out")
    assert (result.images, result.new, result.blank, result.unreadable) == (42, 42, 1, 1)
    assert [row["path"] for row in rows] == list(list_sources(drawings))
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) == 5
    good = [row for row in rows if row["problem"] is None]
    with pytest.warns(gp.ImageWarning, match="no ink"):
        x = clf.transform([row["path"] for row in good])
    assert np.allclose([row["embedding"] for row in good], x, atol=1e-4)
    assert [row["path"] for row in good if row["blank"]] == [str(drawings / "c0" / "blank.png")]
    (bad,) = [row for row in rows if row["problem"]]
    assert "its format is unknown" in bad["problem"]
    assert bad["embedding"] is bad["precision"] is bad["blank"] is None
    assert all(row["label"] == row["path"].split("/")[-2] for row in rows)
    schema = pq.read_schema(next((tmp_path / "out").glob("*.parquet")))
    assert schema.field("embedding").type == pa.list_(pa.float32(), x.shape[1])
    assert schema.field("precision").type == pa.list_(pa.float32(), 1)


def test_more_images_are_added_and_nothing_is_computed_twice(drawings, tmp_path, small, monkeypatch):
    out = tmp_path / "out"
    first = gp.embed_files([drawings / "c0", drawings / "c0"], out, "drawings-small")
    second = gp.embed_files([drawings / "c0", drawings / "c1"], out)  # the encoder of the first call
    assert (first.images, first.new, second.images, second.new) == (11, 11, 22, 11)
    before = {path: path.read_bytes() for path in out.glob("*.parquet")}
    third = gp.embed_files([drawings / "c1"], out)
    assert (third.images, third.new) == (11, 0)
    assert before == {path: path.read_bytes() for path in out.glob("*.parquet")}
    paths = [row["path"] for row in rows_of(out)]
    assert len(paths) == len(set(paths)) == 22
    part = sorted(out.glob("*.parquet"))[1]
    part.write_bytes(before[part][:-20])
    with pytest.raises(gp.InputError, match=f"{part.name} is damaged .*: remove it, and its images are computed again"):
        gp.embed_files(drawings / "c0", out)
    part.unlink()
    assert gp.embed_files([drawings / "c0", drawings / "c1"], out).images == 22
    assert sorted(row["path"] for row in rows_of(out)) == sorted(paths)


def test_a_stopped_embedding_continues(drawings, tmp_path, small):
    """The first signal ends it after a chunk; what was computed is kept."""

    def stop(what, done, total):
        if done == 15:
            os.kill(os.getpid(), signal.SIGINT)

    first = gp.embed_files(drawings, tmp_path / "out", "drawings-small", processes=1, progress=stop)
    assert first.stopped_by == signal.SIGINT
    assert 15 <= first.new < 42
    second = gp.embed_files(drawings, tmp_path / "out")
    assert first.new + second.new == second.images == 42
    assert sorted(row["path"] for row in rows_of(tmp_path / "out")) == sorted(list_sources(drawings))


SLOW = """
import os, sys, time
import gaussproto as gp
from gaussproto.bulk import parts, pipeline
pipeline.chunk_size, parts.ROWS = lambda look: 5, 10
gp.embed_files(sys.argv[1], sys.argv[2], "drawings-small", processes=2, progress=lambda *_: time.sleep(0.3))
"""


def test_a_killed_embedding_continues_and_leaves_no_process(drawings, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", SLOW, drawings, out])
    deadline = time.monotonic() + 120
    while len(list(out.glob("part-*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = _children(process.pid)
    process.kill()
    process.wait()
    (out / ".part-000009.parquet.0123abcd.part").write_bytes(b"half a part")
    finished = len(rows_of(out))
    assert 20 <= finished < 42
    result = gp.embed_files(drawings, out)
    assert (result.images, result.new) == (42, 42 - finished)
    assert sorted(row["path"] for row in rows_of(out)) == sorted(list_sources(drawings))
    assert not list(out.glob(".part-*"))
    assert workers
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(map(_runs, workers))


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return file.read().split()


def _runs(pid):
    return os.path.exists(f"/proc/{pid}/cmdline")  # noqa: PTH110


def test_sources(drawings, tmp_path, monkeypatch):
    """Lists, links and names that are not UTF-8."""
    files = sorted(str(path) for path in (drawings / "c2").iterdir())
    (tmp_path / "list.txt").write_text("\n".join(files[:3]) + "\n\n")
    (tmp_path / "list.csv").write_text("label,path\n" + "".join(f'"a, b",{file}\n' for file in files[2:5]))
    pq.write_table(pa.table({"path": files[5:], "label": [7] * len(files[5:])}), tmp_path / "list.parquet")
    found = list_sources([tmp_path / f"list.{ending}" for ending in ("txt", "csv", "parquet")])
    assert list(found) == files
    assert list(found.values()) == [None] * 3 + ["a, b"] * 2 + ["7"] * 5
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b" / "up").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "a" / "c2").symlink_to(drawings / "c2")
    (tmp_path / "root" / ".hidden").mkdir()
    for folder in ("root", "root/a", "root/a/b", "root/.hidden"):
        Image.new("L", (9, 9)).save(tmp_path / folder / "it.png")
    labels = list_sources(tmp_path / "root")
    assert sorted(set(map(str, labels.values()))) == ["None", "a", "a/b", "a/c2"]
    assert len(labels) == 13
    assert list(list_sources(tmp_path / "root", recursive=False).values()) == [None]


def test_a_name_that_is_not_utf_8_is_a_problem_once(drawings, tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    place = os.fsencode(folder) + b"/\xff.png"
    with open(place, "wb") as file:  # noqa: PTH123
        file.write((drawings / "c0" / "0.png").read_bytes())
    (folder / "good.png").write_bytes((drawings / "c0" / "0.png").read_bytes())
    assert gp.embed_files(folder, tmp_path / "out", "drawings-small").unreadable == 1
    assert gp.embed_files(folder, tmp_path / "out", "drawings-small").new == 0
    assert [row["problem"] is None for row in rows_of(tmp_path / "out")] == [True, False]


def test_the_command(drawings, tmp_path, gaussproto):
    out = tmp_path / "out"
    code, said, err = gaussproto("embed", drawings, "--out", out, "--json")
    assert code == 0, err
    result = json.loads(said)
    assert (result["images"], result["new"], result["unreadable"], result["path"]) == (42, 42, 1, str(out))
    assert "broken.png is not a readable image" in err
    assert "1 image without ink" in err
    code, said, err = gaussproto("embed", drawings, "--out", out)
    assert (code, said) == (0, "")
    assert "0 new images" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "the image file nowhere does not exist"),
        (["empty"], "the sources contain no images"),
        (["a.csv"], "must have the column 'path' (found 'name')"),
        (["a.parquet"], "is not a readable Parquet file"),
        (["broken.png"], "none of the images can be read, for example: broken.png is not"),
        (["good.png", "--out", "broken.png"], "broken.png is a file, not a folder"),
        (["good.png", "--out", "other"], "other contains other files, for example 'it'"),
        (["good.png", "--out", "begun", "--prepare", "none"], "begun was begun with prepare ink (found none)"),
        (["good.png", "--out", "begun", "--encoder", "omniglot-big"], "begun was begun with weights"),
        (["good.png", "--encoder", "identity"], "takes vectors, not images"),
        (["good.png", "--on", "ray", "--processes", "2"], "with ray, which decides itself"),
        (["good.png", "broken.png", "--encoder", "drawings-small", "--strict"], "broken.png is not a readable image"),
        (["good.png", "--out", "busy"], "another process is using busy: wait until it has finished"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(drawings, tmp_path, monkeypatch, gaussproto, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("empty", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "it").write_text("mine")
    (tmp_path / "a.csv").write_text("name\nx.png\n")
    for name in ("a.parquet", "broken.png"):
        (tmp_path / name).write_bytes(b"nothing")
    (tmp_path / "good.png").write_bytes((drawings / "c0" / "0.png").read_bytes())
    if "begun" in arguments:
        gp.embed_files("good.png", "begun", "drawings-small")
    if "--out" not in arguments:
        arguments = [*arguments, "--out", "out"]
    with locked(tmp_path / "busy" / ".lock", tmp_path / "busy", ""):
        code, out, err = gaussproto("embed", *arguments)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.glob("out/part*"))
