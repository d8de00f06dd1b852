"""Fine-tuning on a person's folder: colour images of 84 x 84, few classes, unequal counts; by the command."""

import json

import pytest
import torch
from PIL import Image

from gaussproto.files import read_json

COUNTS = [8, 5, 8, 7, 9, 8]
PAINTS = ["#fa3c3c", "#3cfa3c", "#3c3cfa", "#fafa3c", "#3cfafa", "#fa3cfa"]
ASKED = 6  # images to classify of each sign


@pytest.fixture
def place(tmp_path, characters, weights, monkeypatch):
    """`photos`: six signs on uneven grounds, 84 x 84, each sign in its own colour; `asked`: six more of each."""
    g = torch.Generator().manual_seed(0)
    for c, (count, paint) in enumerate(zip(COUNTS, PAINTS, strict=True)):
        for i in range(count + ASKED):
            ink = Image.fromarray(characters.dense[c, i, 0].numpy()).resize((84, 84))
            ground = Image.fromarray(torch.randint(0, 90, (5, 5, 3), generator=g, dtype=torch.uint8).numpy())
            image = Image.composite(Image.new("RGB", (84, 84), paint), ground.resize((84, 84)), ink)
            path = tmp_path / (f"photos/sign {c}/{i}.png" if i < count else f"asked/{c} {i}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
    (tmp_path / "init.safetensors").write_bytes(weights.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


COLOUR = ["--channels", 3, "--image-size", 84]


def test_colour_from_grey_weights_to_answers(place, gaussproto):
    train = ["train", "finetune", "--data", "photos", "--init", "init.safetensors", *COLOUR]
    train += ["--episodes", 25, "--learning-rate", 0.004]
    code, _, said = gaussproto(*train, "--out", "runs/mine")
    assert code == 0, said
    assert "episodes are reduced to fit the data: 4 classes of 5 images\n" in said
    spread = "the first convolution is converted from 1 to 3 channels"
    size = "the weights were trained on 28 x 28 pixels, but this run has 84 x 84"
    assert f"training starts from the weights init.safetensors; {spread}; {size}\n" in said
    config = json.loads((place / "runs/mine/config.json").read_text())
    assert config["training"]["init"] == "init.safetensors"
    assert len(config["training"]["init_digest"]) == 64
    assert (config["episode"]["way"], config["network"]["channels"]) == (4, 3)
    assert json.loads((place / "runs/mine/metrics.json").read_text())["training"]["init"] == "init.safetensors"

    split = read_json(place / "runs/mine/split.json")
    assert sorted(split["train"] + split["test"]) == [f"sign {c}" for c in range(6)]
    assert split == config["data"]["split"]
    code, out, said = gaussproto("evaluate", "runs/mine", "--json")
    assert code == 0, said
    assert json.loads(out)["classes"] == len(split["test"])

    code, out, said = gaussproto("classify", "--encoder", "runs/mine", "--support", "photos", "asked", "--json")
    assert code == 0, said
    answers = json.loads(out)["images"]
    right = [answer["top"][0]["label"][-1] == answer["image"].removeprefix("asked/")[0] for answer in answers]
    assert len(right) == ASKED * len(COUNTS)
    assert sum(right) >= 18  # chance: 6; by the colours, which the grey weights could not see, 27 and more

    code, _, said = gaussproto(*train, "--out", "runs/mine", "--resume")  # the same words: the same run
    assert code == 0, said
    swapped = {"train": split["test"], "test": split["train"]}
    (place / "swapped.json").write_text(json.dumps(swapped))
    code, _, said = gaussproto(*train, "--split", "swapped.json", "--out", "runs/swapped")
    assert code == 0, said
    assert "episodes are reduced to fit the data: 2 classes of 7 images" in said
    assert read_json(place / "runs/swapped/split.json") == swapped
    code, _, said = gaussproto(*train, "--split", "swapped.json", "--out", "runs/mine", "--resume")
    assert code == 2
    assert "runs/mine contains a run with other settings (split was 4 classes train, 2 classes test and is now" in said


def test_weights_are_tested_on_the_same_classes_before(place, gaussproto):
    (place / "split.json").write_text('{"test": ["sign 1", "sign 4", "sign 5"]}')
    evaluate = ["evaluate", "init.safetensors", "--data", "photos", "--split", "split.json", "--shots", 1, "--json"]
    code, out, said = gaussproto(*evaluate)
    assert code == 0, said
    assert json.loads(out)["classes"] == 3
    code, _, said = gaussproto("evaluate", "init.safetensors", "--split", "split.json")
    assert (code, said.count("\n")) == (2, 1)
    assert "--split is only for other data" in said


@pytest.mark.parametrize("same", ["photos", "photos/", "./photos"])
def test_a_run_is_tested_on_the_classes_kept_from_it_however_its_folder_is_called(place, gaussproto, same):
    (place / "split.json").write_text('{"test": ["sign 1", "sign 4", "sign 5"]}')
    train = ["train", "finetune", "--data", "photos", "--init", "init.safetensors", "--split", "split.json"]
    code, _, said = gaussproto(*train, "--episodes", 1, "--out", "runs/mine")
    assert code == 0, said
    code, out, said = gaussproto("evaluate", "runs/mine", "--data", same, "--shots", 1, "--json")
    assert code == 0, said
    assert json.loads(out)["classes"] == 3


FINETUNE = ["train", "finetune", "--init", "init.safetensors", "--out", "runs/never"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*FINETUNE], "the folder my_images does not exist"),
        ([*FINETUNE, "--data", "photos", "--init", "nothing"], "'nothing' is not a run folder"),
        ([*FINETUNE, "--data", "photos", "--init", "photos"], "photos is not a run folder"),
        ([*FINETUNE, "--data", "photos", "--init", "text.safetensors"], "is not a weights file"),
        ([*FINETUNE, "--data", "photos", "--encoder", "big", "--filters", "8"], "have the filters 16,16,16"),
        ([*FINETUNE, "--data", "photos", "--split", "nothing.json"], "the JSON file nothing.json does not exist"),
        ([*FINETUNE, "--data", "photos", "--split", "empty.json"], "at least two classes in test (found 0)"),
        ([*FINETUNE, "--data", "photos", "--split", "unknown.json"], "found 1 unknown, for example 'cat'"),
        ([*FINETUNE, "--data", "strokes", "--split", "unknown.json"], "strokes has a fixed split"),
        ([*FINETUNE, "--data", "single"], "an episode needs at least two classes of two images each"),
        ([*FINETUNE, "--data", "photos", "--no-adapt"], "way must be at most the 4 classes (found 20)"),
        ([*FINETUNE, "--data", "photos", "--no-adapt", "--way", "4", "--query", "9"], "an episode needs 14 of each"),
        ([*FINETUNE, "--data", "photos", "--image-size", "8"], "image_size must be"),
        (["evaluate", "init.safetensors", "--data", "photos", "--split", "unknown.json"], "for example 'cat'"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(place, gaussproto, arguments, sentence):
    (place / "text.safetensors").write_text("I am text")
    (place / "empty.json").write_text('{"test": []}')
    (place / "unknown.json").write_text('{"test": ["cat", "sign 1"]}')
    for c in range(4):
        (place / "single" / f"sign {c}").mkdir(parents=True)
        (place / "single" / f"sign {c}" / "0.png").symlink_to(place / "photos" / f"sign {c}" / "0.png")
    code, out, said = gaussproto(*arguments)
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1
    assert out == ""
    assert not (place / "runs" / "never").exists()
