"""What the commands say to a user who does something unusual."""

import numpy as np
import pytest
from PIL import Image

import gaussproto as gp
from gaussproto.data.moves import Move, read_moves
from gaussproto.data.strokes import strokes

DRAWN = strokes(alphabets=1, drawings=5, size=105).dense[:4, :, 0].numpy()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, drawings in zip(("sun", "moon", "star", "bolt"), DRAWN, strict=True):
        (tmp_path / "my" / name).mkdir(parents=True)
        for i, page in enumerate(drawings):
            Image.fromarray(255 - page).save(tmp_path / "my" / name / f"{i}.png")
    Image.new("L", (50, 50), 255).save(tmp_path / "blank.png")
    return tmp_path


@pytest.mark.filterwarnings("ignore::gaussproto.errors.ImageWarning")
def test_prototypes_can_be_chosen_on_the_command_line(place, gaussproto):
    assert gaussproto("enroll", "a.gallery", "my", "--prototype", "mean")[0] == 0
    assert gp.load("a.gallery").prototype == "mean"
    code, _, said = gaussproto("enroll", "a.gallery", "my", "--prototype", "median")
    assert code == 2
    assert "was made with --prototype mean (found --prototype median)" in said
    for command in (["classify", "blank.png", "--support"], ["suggest", "my/sun", "--support"], ["check"]):
        assert gaussproto(*command, "my", "--prototype", "median")[0] == 0


@pytest.mark.filterwarnings("ignore::gaussproto.errors.ImageWarning")
def test_blank_images(place, gaussproto):
    code, _, said = gaussproto("suggest", "blank.png", "--support", "my")
    assert code == 0
    assert "none of the 1 image has ink: nothing to suggest" in said
    found = gp.GaussianPrototypeClassifier().fit("my").confidence(["blank.png"])
    assert found.why_unknown(0) == "no ink"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["classify", "blank.png", "--support", "my", "--encoder", "photos"], "did you mean 'photo'?"),
        (["classify", "blank.png", "--gallery", "a.gallery", "--encoder", "drawings-big"], "leave out the encoder"),
        (["gallery", "rename", "a.gallery", "sun", ""], "must not be empty"),
    ],
)
def test_errors_name_the_way_out(place, gaussproto, command, says):
    gp.GaussianPrototypeClassifier().fit("my").save("a.gallery")
    code, _, said = gaussproto(*command)
    assert code == 2
    assert says in said


def test_nothing_to_move(place, gaussproto):
    assert not list(gp.GaussianPrototypeClassifier().fit("my").check().suspicious)
    code, _, said = gaussproto("check", "my", "--moves", "moves.csv")
    assert code == 0
    assert "moves.csv: nothing to move" in said


def test_a_list_of_moves_may_have_semicolons(tmp_path):
    (tmp_path / "moves.csv").write_text("file;to;why\n./sun/a, b.png;./moon/a, b.png;x\n")
    assert read_moves(tmp_path / "moves.csv") == [Move("sun/a, b.png", "moon/a, b.png")]


@pytest.mark.filterwarnings("ignore::gaussproto.errors.ImageWarning")
def test_drawings_among_photos_get_a_warning(place, gaussproto):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (place / "my" / name).mkdir()
        for i in range(5):
            coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
            coarse.resize((80, 80), Image.Resampling.BICUBIC).save(place / "my" / name / f"{i}.png")
    _, _, said = gaussproto("enroll", "a.gallery", "my")
    assert "sampled examples look like photos: no encoder fits both" in said


def test_thresholds_say_how_many_examples_they_leave_out():
    x = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(12, 3))
    y = np.roll(np.repeat(list("abc"), 4), 1)  # the first of each class is of another one
    clf = gp.GaussianPrototypeClassifier("identity", prototype="agreement", reject=0.05).fit(x, y)
    with pytest.raises(gp.InputError, match=r"found 9, without 3 poor or doubtful ones"):
        clf.predict(x)
