"""Many images at once: unreadable files, folders in folders, sorted copies, the contact sheet and HEIC."""

import csv
import io
import json
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gaussproto as gp
from gaussproto.classifier.profile import Profile, warn_at_the_end, warn_if_unlike, warn_of_blank
from gaussproto.cli import console
from gaussproto.cli.bulk import copy_sorted
from gaussproto.data.look import Look, traits_of
from gaussproto.errors import IN_PYTHON
from gaussproto.files import folder_name


@pytest.fixture
def root(characters, tmp_path):
    """Three classes of three examples, and new images, some in a folder inside, one of them broken."""
    for c in range(3):
        (tmp_path / "examples" / f"c{c}").mkdir(parents=True)
        (tmp_path / "new" / "inside").mkdir(parents=True, exist_ok=True)
        for i in range(6):
            place = f"examples/c{c}/{i}.png" if i < 3 else f"new/{'inside/' if i > 4 else ''}c{c}-{i}.png"
            Image.fromarray(255 - characters.images[20 * c + i, 0].numpy()).resize((60, 60)).save(tmp_path / place)
    (tmp_path / "new" / "broken.png").write_bytes(b"nothing")
    return tmp_path


def classify(gaussproto, root, *options):
    return gaussproto("classify", root / "new", "--support", root / "examples", *options)


def test_one_broken_file_costs_one_row(root, gaussproto):
    code, out, err = classify(gaussproto, root, "--csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    (bad,) = [row for row in rows if row["problem"]]
    assert bad["image"].endswith("broken.png")
    assert "its format is unknown" in bad["problem"]
    assert len({row["image"] for row in rows}) == 7
    assert "1 of 7 images could not be read" in err
    code, out, _ = classify(gaussproto, root, "--json")
    assert [("problem" in answer) for answer in json.loads(out)["images"]] == [True] + [False] * 6


def test_strict_stops_at_it(root, gaussproto):
    code, out, err = classify(gaussproto, root, "--strict")
    assert code == 2
    assert not out
    assert "broken.png is not a readable image" in err


def test_folders_inside_are_searched_if_asked(root, gaussproto):
    flat, deep = (json.loads(classify(gaussproto, root, "--json", *more)[1]) for more in ((), ("--recursive",)))
    assert (len(flat["images"]), len(deep["images"])) == (7, 10)


def test_a_broken_example_is_left_out(root, gaussproto):
    (root / "examples" / "c1" / "bad.jpg").write_bytes(b"\xff\xd8 nothing")
    code, _, err = classify(gaussproto, root)
    assert code == 0
    assert "left out 1 example" in err
    gallery = root / "my.gallery"
    code, out, err = gaussproto("enroll", gallery, root / "examples", "--json")
    assert code == 0, err
    counts = json.loads(out)
    assert (counts["added"], counts["known"], counts["unreadable"]) == (9, 0, 1)
    assert gaussproto("enroll", root / "strict.gallery", root / "examples", "--strict")[0] == 2
    for file in (root / "examples" / "c1").glob("*.png"):
        file.write_bytes(b"nothing")
    code, _, err = classify(gaussproto, root)
    assert code == 2
    assert "no example of the class 'c1' can be read" in err


@pytest.mark.parametrize(
    ("options", "answer"),
    [((), "a blank image has no meaningful class"), (("--reject", "0.3"), "a blank image counts as unknown")],
)
def test_one_warning_counts_the_blank_images_of_all_chunks(root, gaussproto, monkeypatch, options, answer):
    monkeypatch.setattr(import_module("gaussproto.cli.classify"), "CHUNK", 3)
    for i in range(4):
        Image.new("L", (60, 60), 255).save(root / "new" / f"c{i}-9.png")
    with pytest.warns(gp.ImageWarning) as caught:
        code, _, err = classify(gaussproto, root, *options, "--encoder", "drawings-small")
    assert code == 0, err
    (said,) = [str(each.message) for each in caught if "no ink" in str(each.message)]
    assert said == f"found no ink in 4 of 10 images, for example {root / 'new' / 'c0-9.png'}: {answer}"


def test_a_command_does_not_say_what_holds_in_python(monkeypatch):
    said = []
    monkeypatch.setattr(console, "say", said.append)
    with warnings.catch_warnings():
        console.show_warnings()
        warnings.simplefilter("always")
        warn_of_blank(np.array([False, True]), ["a.png", "b.png"])
    assert said == ["warning: found no ink in 1 of 2 images, for example b.png"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["pen", "marker", "blank"]), min_size=1, max_size=20), st.integers(1, 20))
def test_gathered_warnings_are_those_of_all_images_at_once(kinds, size):
    pictures = {kind: Image.new("L", (60, 60), 255) for kind in ("pen", "marker", "blank")}
    pictures["pen"].paste(0, (10, 10, 50, 13))
    pictures["marker"].paste(0, (10, 10, 50, 50))
    look, traits = Look(), {kind: traits_of(picture) for kind, picture in pictures.items()}
    examples = Profile.of([traits["pen"]])
    blank, names = np.array([kind == "blank" for kind in kinds]), [str(i) for i in range(len(kinds))]

    def warn(part):
        warn_if_unlike(examples, [traits[kind] for kind in kinds[part]], look)
        warn_of_blank(blank[part], names[part])

    said = []
    for together in (True, False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if together:
                warn(slice(None))
            else:
                with warn_at_the_end("gathered"):
                    for start in range(0, len(kinds), size):
                        warn(slice(start, start + size))
        said.append([str(each.message).removesuffix(IN_PYTHON).removesuffix(": gathered") for each in caught])
    assert said[0] == said[1]


def test_copies_are_sorted_by_class(root, gaussproto):
    code, out, err = classify(gaussproto, root, "--recursive", "--copy-to", root / "sorted", "--json")
    assert code == 0, err
    for answer in json.loads(out)["images"]:
        name = answer["image"].rsplit("/", 1)[-1]
        place = "unreadable" if "problem" in answer else answer["top"][0]["label"]
        assert (root / "sorted" / place / name).read_bytes() == Path(answer["image"]).read_bytes()
    before = sorted((root / "sorted").rglob("*"))
    classify(gaussproto, root, "--recursive", "--copy-to", root / "sorted")
    assert sorted((root / "sorted").rglob("*")) == before  # again: nothing more


def test_no_copy_replaces_another_file(tmp_path):
    for folder, content in (("a", "1"), ("b", "2"), ("c", "1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "it.png").write_text(content)
    files = [(tmp_path / folder / "it.png", "x") for folder in "abc"]
    copies = list(copy_sorted(files, tmp_path / "out"))
    assert [copy.name for copy in copies] == ["it.png", "it-2.png", "it.png"]
    assert [copy.read_text() for copy in copies] == ["1", "2", "1"]


@pytest.mark.parametrize("label", ["../../evil", "a/b", ".", "..", "", "x" * 300, "con:", 3, ("a", 1), "\x00"])
def test_a_label_never_leaves_the_folder(label, tmp_path):
    name = folder_name(label)
    assert 0 < len(name) <= 100
    assert (tmp_path / name).resolve().parent == tmp_path.resolve()


def test_the_contact_sheet_shows_every_image_and_escapes_names(root, gaussproto):
    (root / "examples" / "c2").rename(root / "examples" / "<b>c2")
    page = root / "sheet.html"
    code, _, err = classify(gaussproto, root, "--sheet", page, "--recursive")
    assert code == 0, err
    text = page.read_text()
    assert text.count("data:image/webp") == 9
    assert "&lt;b&gt;c2" in text
    assert "<b>c2" not in text
    assert "Cannot be read" in text
    assert classify(gaussproto, root, "--sheet", root / "sheet.pdf")[0] == 2


def test_heic_is_read_if_the_package_is_there(root, gaussproto):
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif")
    pixels = np.asarray(Image.open(root / "new" / "c1-3.png").resize((64, 64)).convert("RGB"))
    heif.from_pillow(Image.fromarray(pixels)).save(root / "new" / "phone.heic", quality=95)
    _, out, _ = classify(gaussproto, root, "--json")
    answers = {answer["image"].rsplit("/", 1)[-1]: answer for answer in json.loads(out)["images"]}
    assert answers["phone.heic"]["top"][0]["label"] == answers["c1-3.png"]["top"][0]["label"]


def test_heic_without_the_package_gets_a_hint(root, gaussproto, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)
    (root / "new" / "phone.heic").write_bytes(b"nothing")
    _, out, _ = classify(gaussproto, root, "--json")
    (answer,) = [answer for answer in json.loads(out)["images"] if answer["image"].endswith("heic")]
    assert "pip install 'gaussproto[heic]'" in answer["problem"]


def test_a_class_folder_of_folders_is_explained(root, gaussproto):
    inner = root / "examples" / "c0" / "inner"
    inner.mkdir()
    for file in (root / "examples" / "c0").glob("*.png"):
        file.rename(inner / file.name)
    code, _, err = classify(gaussproto, root)
    assert code == 2
    assert "the class 'c0' of" in err
    assert "only folders, for example 'inner'" in err


def test_classes_of_similar_names_get_their_own_folders(tmp_path):
    (tmp_path / "it.png").write_text("1")
    copies = list(copy_sorted([(tmp_path / "it.png", name) for name in ("A?", "A*", "a_")], tmp_path / "out"))
    assert len({copy.parent for copy in copies}) == 3


def test_what_is_no_file_is_not_copied(tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere")
    pairs = [(tmp_path / name, "unreadable") for name in ("folder.png", "link.png")]
    assert list(copy_sorted(pairs, tmp_path / "out")) == []
