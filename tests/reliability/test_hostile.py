"""Hostile input: names, images, archives and models that want to hang, to fill the memory or to reach elsewhere."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

import gaussproto as gp
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.cli import console
from gaussproto.data.omniglot import EVALUATION, decode_verified
from gaussproto.data.picture import read_image, resize
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import Calibration
from gaussproto.runs.folder import RunFolder
from gaussproto.split import ClassSplit

PEAK = """
import resource, sys
{}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_of(program: str) -> int:
    """Return the largest memory of a program in MB."""
    done = subprocess.run([sys.executable, "-c", PEAK.format(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_six_large_images_at_once_fit_into_a_gigabyte(tmp_path):
    for i in range(6):
        Image.new("RGBA", (7000, 7000), (i, 0, 0, 100)).save(tmp_path / f"{i}.png", compress_level=1)
    program = f"""
from gaussproto.classifier.inputs import list_images, read_images
from gaussproto.data.look import Look
read_images(*list_images({str(tmp_path)!r}), Look())
"""
    assert peak_of(program) < 1400


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path):
    Image.new("1", (7100, 7100)).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=r"large\.png must have at most 50,000,000 pixels \(found 7100 x 7100\)"):
        read_image(tmp_path / "large.png", "large.png", partial(resize, size=28), 28)


def test_a_large_jpeg_is_decoded_small_and_looks_the_same(tmp_path):
    rng = np.random.default_rng(0)
    pixels = resize(Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)), 1600, 3).transpose(1, 2, 0)
    Image.fromarray(pixels).save(tmp_path / "it.jpg", quality=95)
    for size, channels in ((28, 1), (28, 3), (100, 3)):
        fast = read_image(tmp_path / "it.jpg", "it", partial(resize, size=size, channels=channels), size).astype(int)
        with Image.open(tmp_path / "it.jpg") as image:
            slow = resize(image, size, channels).astype(int)
        assert np.abs(fast - slow).max() <= 4
        assert np.abs(fast - slow).mean() < 1


def test_predict_takes_memory_for_a_block_of_queries_at_most():
    program = """
import numpy as np, gaussproto as gp
rng = np.random.default_rng(0)
clf = gp.GaussianPrototypeClassifier("identity").fit(rng.normal(size=(50_000, 4)), np.arange(50_000))
X = rng.normal(size=(1_000, 4))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clf.predict(X)
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "more than 200 MB"
"""
    peak_of(program)


def test_blocks_give_the_answers_of_one_pass(monkeypatch):
    rng = np.random.default_rng(0)
    X, y, queries = rng.normal(size=(60, 3)), np.arange(60) % 6, rng.normal(size=(50, 3)) * 3
    clf = gp.GaussianPrototypeClassifier("identity", reject=0.2).fit(X, y)
    whole = clf.predict(queries)
    for pairs in (1, 7, 100):
        monkeypatch.setattr("gaussproto.classifier.confidence.PAIRS", pairs)
        assert clf.predict(queries).tolist() == whole.tolist()
    unknown = clf.confidence(queries).unknown
    assert [label is None for label in whole] == unknown.tolist()
    assert 0 < unknown.sum() < 50


@pytest.mark.parametrize("size", [10**6, 0, -28, 3])
def test_a_gallery_cannot_ask_for_images_of_any_size(characters, weights, tmp_path, size):
    clf = gp.GaussianPrototypeClassifier(weights).fit(characters.images[:40], characters.labels[:40].tolist())
    clf.save(tmp_path / "it.gallery")
    file = read_arrays(tmp_path / "it.gallery", "gallery")
    ((key, header),) = file.metadata.items()
    write_arrays(
        tmp_path / "it.gallery", file.arrays, {key: json.dumps(json.loads(header) | {"image_size_used": size})}
    )
    with pytest.raises(InputError, match=r"it\.gallery is a damaged gallery"):
        gp.load(tmp_path / "it.gallery")


def test_archives_that_are_not_what_they_say(tmp_path):
    path = tmp_path / "it.zip"
    drawing = f"{EVALUATION.name}/Angelic/character01/0965_01.png"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(drawing, bytes(10**8))
    assert path.stat().st_size < 10**6
    with pytest.raises(InputError, match=r"must have at most 20,000 bytes, stored or deflated \(found 100\.0 MB\)"):
        decode_verified(EVALUATION, path, 28)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(drawing, bytes(100))
    content = bytearray(path.read_bytes())
    for at in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[at] |= 1  # encrypted
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a readable zip file"):
        decode_verified(EVALUATION, path, 28)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr(drawing, bytes(100))
    with pytest.raises(InputError, match="found another compression"):
        decode_verified(EVALUATION, path, 28)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match=r"the zip file .* must have at most 50\.0 MB"):
        decode_verified(EVALUATION, path, 28)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="found a pipe"):
        decode_verified(EVALUATION, path, 28)


@pytest.mark.parametrize("name", ["it.png", "it.safetensors", "it.onnx", "it.gallery", "config.json"])
def test_no_command_waits_for_a_pipe(tmp_path, gaussproto, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "support" / "a").mkdir(parents=True)
    os.mkfifo(tmp_path / "support" / "a" / name if name == "it.png" else tmp_path / name)
    (tmp_path / "support" / "b").mkdir()
    for folder in ("a", "b"):
        Image.new("L", (28, 28)).save(tmp_path / "support" / folder / "0.png")
    command = {
        "it.png": ("classify", "--strict", "--support", "support", "support/b/0.png"),
        "it.safetensors": ("evaluate", "it.safetensors"),
        "it.onnx": ("classify", "--support", "support", "--encoder", "it.onnx", "support/b/0.png"),
        "it.gallery": ("classify", "--gallery", "it.gallery", "support/b/0.png"),
        "config.json": ("train", "config.json"),
    }[name]
    code, _, err = gaussproto(*command)
    assert code == 2
    assert err.count("\n") == 1


def test_threads_that_share_a_network_in_training_get_the_answers_of_one(characters, weights):
    network = gp.load_network(weights).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    images = characters.images[:64]
    expected = gp.embed_all(network, images).x
    scores = {norm: gp.evaluate(network, characters, [5], [1], rounds=1, norm=norm) for norm in ("running", "batch")}
    wrong = []

    def work(i):
        for _ in range(5):
            if i % 2:
                wrong.extend([] if torch.equal(gp.embed_all(network, images).x, expected) else ["embed_all"])
            else:
                norm = ("running", "batch")[i // 2 % 2]
                again = gp.evaluate(network, characters, [5], [1], rounds=1, norm=norm)
                wrong.extend([] if again == scores[norm] else [norm])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert network.training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_frozen_parts_of_a_network_stay_frozen(characters, weights):
    network = gp.load_network(weights).train()
    frozen = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)][:2]
    for module in frozen:
        module.eval()
    modes = [module.training for module in network.modules()]
    gp.embed_all(network, characters.images[:4])
    assert [module.training for module in network.modules()] == modes
    network.eval()
    frozen[0].train()  # inside a network in evaluation mode
    before = {name: value.clone() for name, value in network.state_dict().items()}
    gp.embed_all(network, characters.images[:4])
    assert frozen[0].training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_foreign_configuration_does_not_choose_where_a_run_is_written(tmp_path, gaussproto, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("../escaped", "/tmp/escaped", "a/b", "..", "", "a\x1bb", "a\\b"):
        config = gp.preset("demo").model_dump(mode="json") | {"name": name}
        Path("mine.json").write_text(json.dumps(config))
        code, _, err = gaussproto("train", "mine.json")
        assert code == 2
        assert "the name of the run must be a file name" in err
    odd = gp.preset("demo").model_copy(update={"name": "東京\u3000a:b"})
    assert odd.folder == Path("runs") / "東京\u3000a:b"


def test_spreadsheets_and_terminals_are_not_programmed_by_names(capsys):
    names = ["=cmd()", "+1", "-x", "@SUM(A1)", "\x1b[31mred", "plain", "-1.5", "+", "東京\u3000太郎"]
    console.print_csv(["name"], [[name] for name in names])
    cells = [row[0] for row in csv.reader(io.StringIO(capsys.readouterr().out))][1:]
    assert cells == ["'=cmd()", "+1", "'-x", "'@SUM(A1)", "\x1b[31mred", "plain", "-1.5", "+", "東京\u3000太郎"]
    console.print_table("\x1b]0;title\x07", ["name"], [[name] for name in names])
    console.say("\x1b[2J said")
    console.fail("\x9b31m failed \udcff")
    said = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(said.out + said.err)
    assert "\\x1b[31mred" in said.out
    assert "東京\u3000太郎" in said.out


def test_names_that_look_like_markup(characters, tmp_path, gaussproto, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = gp.preset("demo", filters=(4, 4, 4), embedding_dim=4, way=5, episodes=10)
    gp.train(config, characters, tmp_path / "d[/x]")
    monkeypatch.setattr(console.err, "_force_terminal", True)
    code, _, err = gaussproto("report", "d[/x]", "--no-evaluate")
    assert code in (0, 2)
    assert "MarkupError" not in err
    assert RunFolder(tmp_path / "d[/x]").ended


def test_class_names_that_are_not_unicode(tmp_path, gaussproto):
    for name in (b"a\xff", b"b"):
        folder = os.path.join(os.fsencode(tmp_path), b"support", name)  # noqa: PTH118
        os.makedirs(folder)  # noqa: PTH103
        with open(os.path.join(folder, b"0.png"), "wb") as file:  # noqa: PTH118, PTH123
            Image.new("L", (28, 28)).save(file, "png")
    code, _, err = gaussproto("classify", "--support", tmp_path / "support", tmp_path / "support" / "b" / "0.png")
    assert code == 2
    assert "is not valid UTF-8: rename the folder" in err


def test_large_files_are_refused_before_they_are_read(tmp_path):
    for name, sentence in {
        "it.safetensors": "is not a weights file",
        "it.onnx": r"must have at most 1,073\.7 MB",
        "it.gallery": "is not a gallery file",
    }.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(3 << 30)  # takes no space on the disk
        with pytest.raises(InputError, match=sentence):
            gp.load(tmp_path / name) if name == "it.gallery" else find_encoder(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["evaluate", "drawings-small", "--shots", "1-1000000000"], "--shots must be whole numbers of at most 100,000"),
        (["train", "demo", "--damage", "20000:0.5"], "every value of damage must be at most 1024"),
        (["train", "demo", "--episodes", "9" * 400], "episodes must be a whole number from 1 to 1,000,000,000"),
        (["train", "demo", "--embedding-dim", "1000000000"], "embedding_dim must be at most 65536"),
        (["train", "demo", "--filters", "60000,60000,60000"], "to be trained, and this machine has"),
        (["train", "demo", "--image-size", "1000000"], "image_size must be at most 1024"),
    ],
)
def test_sizes_that_no_machine_has(tmp_path, monkeypatch, gaussproto, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, _, err = gaussproto(*arguments)
    assert code == 2
    assert sentence in err
    assert len(err) < 400


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("embeddings", lambda a: a[:0]),
        ("embeddings", lambda a: a[:, :1]),
        ("embeddings", lambda a: a * np.nan),
        ("example_precisions", lambda a: -a),
        ("example_precisions", lambda a: np.zeros((len(a), 16, 16), np.float32)),
        ("labels", lambda a: a + 1),
        ("labels", lambda a: a.astype(np.float32)),
        ("names", lambda a: np.frombuffer(b"5", np.uint8)),
        ("names", lambda a: np.frombuffer(json.dumps([None] * 40).encode(), np.uint8)),
        ("classes", lambda a: np.frombuffer(b'{"a": 1, "b": 2}', np.uint8)),
        ("classes", lambda a: np.frombuffer(b"[" * 100_000, np.uint8)),
    ],
)
def test_galleries_with_values_that_they_cannot_have(characters, weights, tmp_path, name, change):
    clf = gp.GaussianPrototypeClassifier(weights).fit(characters.images[:40], characters.labels[:40].tolist())
    clf.save(tmp_path / "it.gallery")
    file = read_arrays(tmp_path / "it.gallery", "gallery")
    file.arrays[name] = change(file.arrays[name])
    write_arrays(tmp_path / "it.gallery", file.arrays, file.metadata)
    with pytest.raises(InputError):
        gp.load(tmp_path / "it.gallery").predict(characters.images[:2])


def test_a_calibration_must_be_finite():
    good = {"temperature": 1.0, "thresholds": (1.0,) * 9, "classes": 5, "held_out": True}
    assert Calibration(**good).threshold(0.05) == 1
    for bad in ({"temperature": float("inf")}, {"thresholds": (float("nan"),) * 9}, {"thresholds": (-1.0,) * 9}):
        with pytest.raises(ValidationError):
            Calibration(**good | bad)


@pytest.mark.parametrize("path", ["loop.onnx", "loop.safetensors", "a\0b.onnx", "x" * 5000, "x" * 5000 + ".onnx"])
def test_paths_that_lead_nowhere(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    if path.startswith("loop"):
        Path(path).symlink_to(path)
    with pytest.raises(InputError):
        find_encoder(path)
    with pytest.raises(InputError):
        gp.load(path)
    with pytest.raises(InputError):
        gp.GaussianPrototypeClassifier("drawings-small").fit(path)


def test_a_run_whose_command_was_not_unicode_can_be_opened(characters, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gaussproto", "train", "nu\udcff"])
    config = gp.preset("demo", filters=(4, 4, 4), embedding_dim=4, way=5, episodes=10)
    run = gp.train(config, characters, tmp_path / "run")
    assert "nu\\udcff" in RunFolder(run.folder).read_metrics().training.command
    assert gp.load_network(run.folder).config.embedding_dim == 4
    with pytest.raises(InputError, match=r"\\udcff is not valid UTF-8: rename it"):
        gp.train(config.override(data="\udcff"), characters, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_duplicates_among_many_names_are_found_soon():
    names = (*map(str, range(200_000)), "199999")
    with pytest.raises(ValidationError, match="names the class '199999' more than once"):
        ClassSplit(test=names)


class Doubles(torch.nn.Module):
    """A backbone with a buffer and parameters in double precision, and one that has no gradient."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, dtype=torch.float64))
        self.unused = torch.nn.Parameter(torch.ones(3))
        self.linear = torch.nn.Linear(49, 6, dtype=torch.float64)

    def forward(self, images):
        return self.linear(torch.nn.functional.avg_pool2d(images, 4).flatten(1).double() - self.mean).float()


class Computed(gp.Transform):
    """A transform that computes a number when it is made."""

    def __init__(self):
        self.offset = float(torch.tensor([0.5, 0.5]).sum())

    def value(self, raw):
        return self.offset + raw.exp()


def test_parts_of_users_are_made_as_they_are(characters, tmp_path):
    settings = {"embedding_dim": 4, "way": 5, "episodes": 10, "checkpoint_every": 5}
    config = gp.preset("demo", transform=Computed(), **settings)
    network = gp.GaussianPrototypicalNetwork(config.network, backbone=Doubles(), features=6)
    gp.train(config, characters, tmp_path / "run", network=network)
    longer = config.override(episodes=20)
    again = gp.GaussianPrototypicalNetwork(config.network, backbone=Doubles(), features=6)
    gp.train(longer, characters, tmp_path / "run", network=again, resume=True, lengthen=True)
    loaded = gp.load_network(tmp_path / "run")
    assert loaded.encoder.backbone.mean.dtype == torch.float64
    assert torch.equal(gp.embed_all(loaded, characters).x, gp.embed_all(again, characters).x)
