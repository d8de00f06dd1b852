"""`gaussproto classify` and `gaussproto enroll` as a user runs them."""

import csv
import json
from io import StringIO

import pytest
from PIL import Image

from gaussproto import GaussianPrototypeClassifier, load
from gaussproto.files import lock_beside, locked
from tests.end_to_end.test_cli import run


@pytest.fixture(scope="module")
def place(tmp_path_factory, characters, weights):
    """`support` has five drawings of four classes, `more` two of a new one, `asked` two of each, in dark ink."""
    root = tmp_path_factory.mktemp("work")

    def draw(c, i, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((60, 50)).save(path)

    for c, name in enumerate(["ant", "bee", "[cow]", "dog, wild", "eel"]):
        for i in range(5):
            draw(c, i, root / ("more" if name == "eel" else "support") / name / f"{i}.png")
        for i in (10, 11):
            draw(c, i, root / "asked" / f"[{c}] {i}.png")
    (root / "weights.safetensors").write_bytes(weights.read_bytes())
    return root


ENCODER = ["--encoder", "weights.safetensors"]


def test_the_answers_are_those_of_the_classifier(place, weights):
    said = run("classify", "--support", "support", *ENCODER, "asked", "--json", "--top", 2, cwd=place).stdout
    found = json.loads(said)
    clf = GaussianPrototypeClassifier(weights).fit(place / "support")
    files = sorted((place / "asked").iterdir())
    probabilities = clf.predict_proba(files)
    assert [answer["image"] for answer in found["images"]] == [f"asked/{file.name}" for file in files]
    for answer, row in zip(found["images"], probabilities, strict=True):
        assert len(answer["top"]) == 2
        best, second = answer["top"]
        assert best["label"] == clf.classes_[row.argmax()]
        assert best["probability"] == pytest.approx(row.max(), rel=1e-4)
        assert second["probability"] == pytest.approx(sorted(row)[-2], rel=1e-4)

    table = run("classify", "--support", "support", *ENCODER, "asked", cwd=place).stdout
    assert all(f"[{c}] {i}.png" in table for c in range(5) for i in (10, 11))  # brackets are no markup
    lines = list(
        csv.DictReader(StringIO(run("classify", "--support", "support", *ENCODER, "asked", "--csv", cwd=place).stdout))
    )
    assert [line["rank"] for line in lines] == ["1", "2", "3"] * 10
    assert [line["label"] for line in lines[::3]] == [answer["top"][0]["label"] for answer in found["images"]]


def test_a_gallery_grows_without_training(place):
    first = json.loads(run("enroll", "my.gallery", "support", *ENCODER, "--json", cwd=place).stdout)
    assert (first["classes"], first["added"], first["known"]) == (4, 20, 0)
    by_class = {}
    for example in first["examples"]:
        by_class[example["label"]] = by_class.get(example["label"], 0) + example["weight"]
    assert by_class == {name: pytest.approx(1) for name in ("ant", "bee", "[cow]", "dog, wild")}

    from_gallery = json.loads(run("classify", "--gallery", "my.gallery", "asked", "--json", cwd=place).stdout)
    from_folder = json.loads(run("classify", "--support", "support", *ENCODER, "asked", "--json", cwd=place).stdout)
    assert from_gallery == from_folder

    again = json.loads(run("enroll", "my.gallery", "support", "--json", cwd=place).stdout)
    assert (again["classes"], again["added"], again["known"]) == (4, 0, 20)
    assert again["examples"] == first["examples"]

    result = run("enroll", "my.gallery", "more", cwd=place)
    assert "added 5 examples, skipped 0 duplicates; the gallery has 5 classes" in result.stderr
    assert "[cow]" in result.stdout
    assert load(place / "my.gallery").classes_.tolist() == ["[cow]", "ant", "bee", "dog, wild", "eel"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["classify", "asked"], "either --support DIR or --gallery FILE"),
        (["classify", "--support", "support", "--gallery", "x", "asked"], "either --support DIR or --gallery FILE"),
        (["classify", "--support", "support", *ENCODER], "IMAGE"),
        (["classify", "--support", "nowhere", *ENCODER, "asked"], "the folder nowhere does not exist"),
        (["classify", "--support", "support", *ENCODER, "nowhere.png"], "the image file nowhere.png does not exist"),
        (["classify", "--support", "support", *ENCODER, "text.png"], "text.png is not a readable image"),
        (["classify", "--support", "one", *ENCODER, "asked"], "only one class, 'ant'"),
        (["classify", "--support", "support", *ENCODER, "asked", "--json", "--csv"], "choose one"),
        (["classify", "--support", "support", *ENCODER, "asked", "--top", "0"], "--top"),
        (["classify", "--support", "support", "--encoder", "nothing", "asked"], "'nothing' is not a run folder"),
        (["classify", "--support", "support", "--encoder", "identity", "asked"], "takes vectors, not images"),
        (["classify", "--gallery", "nothing", "asked"], "the gallery nothing does not exist"),
        (["classify", "--gallery", "weights.safetensors", "asked"], "but not a gallery"),
        (["enroll", "new.gallery", "nowhere", *ENCODER], "the folder nowhere does not exist"),
        (["enroll", "new.gallery", "one", *ENCODER], "only one class, 'ant'"),
        (["enroll", "text.png/new.gallery", "support", *ENCODER], "cannot write text.png/new.gallery (File exists)"),
        (["enroll", "text.png", "support", *ENCODER], "text.png is not a gallery file"),
        (["enroll", "other.gallery", "support", *ENCODER, "--ink", "bright"], "was made with --ink dark"),
        (["enroll", "other.gallery", "support", "--encoder", "identity"], "was made with other weights"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(place, arguments, sentence, monkeypatch, gaussproto):
    (place / "text.png").write_text("I am text")
    if not (place / "one").exists():
        (place / "one").mkdir()
        (place / "one" / "ant").symlink_to(place / "support" / "ant")
        clf = GaussianPrototypeClassifier(place / "weights.safetensors", ink="dark")
        clf.fit(place / "support").save(place / "other.gallery")
    before = (place / "other.gallery").read_bytes()
    monkeypatch.chdir(place)
    code, out, said = gaussproto(*arguments)
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1
    assert out == ""
    assert not (place / "new.gallery").exists()
    assert (place / "other.gallery").read_bytes() == before


def test_two_that_enroll_at_once_lose_nothing(place, monkeypatch, gaussproto):
    """The second is told to wait; what the first has put in is there afterwards."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "200")
    gallery = place / "shared" / "it.gallery"
    with locked(lock_beside(gallery), gallery, "wait for it"):
        code, _, err = gaussproto("enroll", "shared/it.gallery", "support", *ENCODER)
    assert code == 2
    assert "another process is using shared/it.gallery: wait until it has finished" in err
    assert gaussproto("enroll", "shared/it.gallery", "support", *ENCODER)[0] == 0
    assert gaussproto("enroll", "shared/it.gallery", "more", *ENCODER)[0] == 0
    assert len(load(place / "shared" / "it.gallery").classes_) == 5
