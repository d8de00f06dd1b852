"""`gaussproto classify --out`: the answers of the classifier in one file, however often the work was stopped."""

import os
import signal

import pytest

import gaussproto as gp
from gaussproto.bulk.sources import list_sources
from tests.bulk.conftest import csv_of, rows_of

TEXTS, NUMBERS = ("image", "rank", "label", "unknown", "problem"), ("probability", "distance")


@pytest.mark.filterwarnings("ignore::gaussproto.ImageWarning")
def test_the_answers_are_those_of_the_command_without_out(drawings, clf, tmp_path, small, gaussproto):
    gallery = tmp_path / "my.gallery"
    clf.save(gallery)
    command = "classify", drawings, "--gallery", gallery, "--recursive", "--top", 2
    code, out, _ = gaussproto(*command, "--csv")
    assert code == 0
    for ending in ("csv", "parquet"):
        code, _, err = gaussproto(*command, "--out", tmp_path / f"answers.{ending}")
        assert code == 0, err
        assert "42 new images" in err
    (tmp_path / "printed.csv").write_text(out)
    printed, written = csv_of(tmp_path / "printed.csv"), csv_of(tmp_path / "answers.csv")
    by_image = [sorted(rows, key=lambda row: (row["image"], row["rank"])) for rows in (printed, written)]
    for a, b in zip(*by_image, strict=True):
        assert [a[name] for name in TEXTS] == [b[name] for name in TEXTS]
        assert all(
            a[name] == b[name] or float(a[name]) == pytest.approx(float(b[name]), rel=1e-3, abs=1e-5)
            for name in NUMBERS
        )
    for a, b in zip(written, rows_of(tmp_path / "answers.parquet"), strict=True):
        assert a["image"].replace("'", "") == b["image"]
        assert a["label"] == (b["label"] or "")
        assert a["problem"] == (b["problem"] or "")
        if b["rank"]:
            assert float(a["probability"]) == pytest.approx(b["probability"], abs=1e-5)
    assert not list(tmp_path.glob("*.parts"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_stopped_work_continues(ending, drawings, clf, tmp_path, small):
    out = tmp_path / f"answers.{ending}"

    def stop(what, done, total):
        if done == 15:
            os.kill(os.getpid(), signal.SIGTERM)

    folder = os.path.relpath(drawings)  # a formula is the name of a file, not of a path
    first = gp.classify_files(clf, folder, out, processes=1, progress=stop)
    assert first.stopped_by == signal.SIGTERM
    assert not out.exists()
    with pytest.raises(gp.InputError, match=r"answers\..*\.parts was begun with top 3 \(found 2\)"):
        gp.classify_files(clf, folder, out, top=2)
    second = gp.classify_files(clf, folder, out, processes=1)
    assert first.new + second.new == second.images == 42
    rows = csv_of(out) if ending == "csv" else rows_of(out)
    assert len(rows) == 3 * 41 + 1
    assert {row["image"] for row in rows} == set(list_sources(folder))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", "a.txt"], "must end in .csv or .parquet (found a.txt)"),
        (["--out", "a.csv", "--csv"], "--out writes only one file: leave out --server, --csv"),
        (["--on", "ray"], "--on and --processes are for many images: add --out FILE"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(options, sentence, drawings, gaussproto):
    code, out, err = gaussproto("classify", drawings / "c0", "--support", drawings, *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
