"""`gaussproto calibrate`, `classify --reject` and `classify --explain` as a user runs them."""

import csv
import json
import re
from io import StringIO

import pytest
from PIL import Image

from gaussproto import GaussianPrototypeClassifier, load
from gaussproto.cli import main
from gaussproto.errors import InputError
from gaussproto.runs.checkpoint import load_checkpoint, save_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import TrainingSummary
from gaussproto.runs.weights import open_weights
from tests.end_to_end.test_cli import run

NAMES = ["ant", "bee", "[cow]", "dog, $wild$"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, characters, weights):
    """`support` has six drawings of four classes; `asked` one of each, and one of a class that is not there."""
    root = tmp_path_factory.mktemp("work")

    def draw(c, i, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((60, 50)).save(path)

    for c, name in enumerate(NAMES):
        for i in range(6):
            draw(c, i, root / "support" / name / f"{i}.png")
        draw(c, 10, root / "asked" / f"{c}.png")
    draw(40, 10, root / "asked" / "other.png")
    Image.new("L", (40, 40), 255).save(root / "asked" / "white.png")
    (root / "weights.safetensors").write_bytes(weights.read_bytes())
    return root


@pytest.fixture
def ask(place, monkeypatch, capsys):
    """Run the command in this process, which is quicker; what it printed, and what it said."""
    monkeypatch.chdir(place)
    monkeypatch.setattr("gaussproto.cli.console.show_warnings", lambda: None)

    def command(*arguments, code=0):
        monkeypatch.setattr("sys.argv", ["gaussproto", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert left.value.code == code, said.err
        return said

    return command


CLASSIFY = ["classify", "--support", "support", "--encoder", "weights.safetensors"]


def test_calibrate_writes_what_it_says(place, weights, characters, ask, monkeypatch):
    for c in range(28):  # of which it tests on about a quarter
        for i in range(8):
            path = place / "images" / f"class {c}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(characters.dense[c, i, 0].numpy()).save(path)
    checkpoint = load_checkpoint(weights)
    config = checkpoint.config.override(data=str(place / "images"))
    folder = RunFolder(place / "run")
    folder.open(config, resume=False)
    training = TrainingSummary(episodes=80, seconds=1, loss=1, accuracy=1, kept=(), parameters=1, seed=0)
    folder.write_metrics(training=training)
    save_checkpoint(folder.last, config, checkpoint.network(), checkpoint.position)

    found = json.loads(run("calibrate", "run", "--rate", 0.1, "--json", cwd=place).stdout)
    there = open_weights(folder.last).calibration
    assert found["calibration"] == json.loads(there.model_dump_json())
    assert {one["shot"] for one in found["measured"]} == {1, 5}
    assert all(0.5 < one["auroc"] <= 1 and one["rate"] == 0.1 for one in found["measured"])
    metrics = folder.read_metrics()
    assert metrics.training == training
    assert metrics.calibration.model_dump(mode="json") == found
    monkeypatch.setattr("gaussproto.evaluation.calibrate.QUERIES", 2000)
    again = ask("calibrate", "run/checkpoints/last.safetensors")
    other = open_weights(folder.last).calibration
    assert other.evidence.fitted == pytest.approx(there.evidence.fitted, rel=0.2)
    assert (other.temperature, other.scaled) == (1, False)
    assert "last.safetensors: temperature 1, fitted on 21 training classes" in again.out
    assert f"{other.evidence.fitted:.3f} times the distance scale changes the negative log-likelihood" in again.err
    assert "T = 1 is kept" in again.err
    assert "wrote the calibration to run/checkpoints/last.safetensors" in again.err


def test_unknown_is_marked_in_every_form(place, weights, ask):
    asked = [*CLASSIFY, "asked", "--reject", 0.1]
    found = json.loads(ask(*asked, "--json").out)["images"]
    clf = GaussianPrototypeClassifier(weights, reject=0.1).fit(place / "support")
    expected = clf.predict(place / "asked").tolist()
    assert None in expected
    assert any(label is not None for label in expected)
    assert [None if one["unknown"] else one["top"][0]["label"] for one in found] == expected
    assert all(one["top"][0]["distance"] <= one["top"][1]["distance"] for one in found)

    lines = list(csv.DictReader(StringIO(ask(*asked, "--csv", "--top", 1).out)))
    assert [line["unknown"] for line in lines] == [str(one["unknown"]).lower() for one in found]
    table = ask(*asked).out
    assert table.count("unknown") == table.count("nearest:") == expected.count(None)
    assert "unknown" not in ask(*CLASSIFY, "asked").out


def test_a_picture_for_every_image(place, ask):
    said = ask(*CLASSIFY, "asked/0.png", "--explain", "why.png", "--json")
    assert "wrote why.png" in said.err
    assert json.loads(said.out)["classes"] == 4
    with Image.open(place / "why.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
    ask(*CLASSIFY, "asked", "--explain", "out/why.svg", "--reject", 0.1)
    assert sorted(file.name for file in (place / "out").iterdir()) == [
        f"why-{name}.svg" for name in ("0", "1", "2", "3", "other", "white")
    ]


def words(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_a_picture_says_what_the_classifier_found(place, weights, tmp_path):
    clf = GaussianPrototypeClassifier(weights, reject=0.1).fit(place / "support")
    (path,) = clf.explain(place / "asked" / "3.png", tmp_path / "why.svg", top=4)
    verdict = clf.confidence(place / "asked" / "3.png")
    said = words(path)
    order = [NAMES.index(text) for text in said if text in NAMES]
    assert [clf.classes_.tolist().index(NAMES[c]) for c in order] == verdict.distances[0].argsort().tolist()
    for c, label in enumerate(clf.classes_.tolist()):
        assert f"distance {verdict.distances[0, c]:#.4g}" in said
        assert f"probability {100 * verdict.probabilities[0, c]:.1f} %" in said
        for weight in clf.example_weights_[clf.example_labels_ == label]:
            assert f"{100 * weight:.1f} %" in said
    assert path.read_text().count("<image") == 2 + 4 * 6


def test_examples_whose_files_are_gone_leave_their_names(place, weights, tmp_path):
    clf = GaussianPrototypeClassifier(weights).fit(place / "support")
    clf.save(tmp_path / "my.gallery")
    clf = load(tmp_path / "my.gallery")
    ants = [i for i, label in enumerate(clf.example_labels_) if label == "ant"]
    clf.example_names_[ants[0]] = str(tmp_path / "lost.png")
    clf.example_names_[ants[1]] = ""
    (path,) = clf.explain([Image.new("L", (30, 30), 255)], tmp_path / "why.svg", top=4)
    said = words(path)
    assert "lost.png" in said
    assert said.count("missing") == said.count("no file") == 1
    assert path.read_text().count("<image") == 2 + 4 * 6 - 2
    assert "image 0:  " in "".join(said)


def test_many_examples_show_the_heaviest_and_the_lightest(characters, weights, tmp_path):
    files, labels = [], []
    for c in range(2):
        for i in range(12):
            files.append(tmp_path / f"{c}-{i}.png")
            labels.append(c)
            Image.fromarray(255 - characters.dense[c, i, 0].numpy()).save(files[-1])
    clf = GaussianPrototypeClassifier(weights).fit(files, labels)
    (path,) = clf.explain(files[:1], tmp_path / "why.svg", top=1)
    said = words(path)
    weights_of = sorted(clf.example_weights_[12 * int(clf.predict(files[:1])[0]) :][:12])
    for weight in (*weights_of[:3], *weights_of[-4:]):
        assert f"{100 * weight:.1f} %" in said
    assert "5" in said
    assert "more" in said
    assert path.read_text().count("<image") == 2 + 7


def test_pictures_of_images_of_one_name_do_not_meet(place, weights, tmp_path):
    clf = GaussianPrototypeClassifier(weights).fit(place / "support")
    same = [place / "support" / name / "0.png" for name in NAMES[:2]]
    assert [path.name for path in clf.explain(same, tmp_path / "a.png")] == ["a-1-0.png", "a-2-0.png"]
    assert [path.name for path in clf.explain([Image.open(file) for file in same], tmp_path / "b.png", 1)] == [
        "b-1.png",
        "b-2.png",
    ]


def test_vectors_have_no_picture(tmp_path):
    clf = GaussianPrototypeClassifier("identity").fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    with pytest.raises(InputError, match="can only draw images"):
        clf.explain([[0.0, 1.0]], tmp_path / "why.png")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*CLASSIFY, "asked", "--explain", "why.gif"], "must end in .png or .svg (found why.gif)"),
        ([*CLASSIFY, "asked", "--reject", "2"], "reject must be a number from 0.001 to 0.5 (found 2.0)"),
        ([*CLASSIFY, "asked", "--reject", "0.001"], "reject=0.001 needs 999 examples"),
        (["calibrate", "nothing"], "is not a run folder"),
        (
            ["calibrate", "weights.safetensors", "--rate", "0.9"],
            "--rate must be a number from 0.001 to 0.5 (found 0.9)",
        ),
    ],
)
def test_a_mistake_is_one_line_and_code_2(ask, arguments, sentence):
    said = ask(*arguments, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
