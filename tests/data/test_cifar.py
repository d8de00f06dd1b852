"""Photos: the published archive and a folder of files give the same images, and wrong files are refused."""

import io
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.data import cifar
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.presets import preset

NAMES = sorted(name for part in cifar.class_names().values() for name in part)


def test_the_split_is_cifar_fs():
    parts = {part: set(names) for part, names in cifar.class_names().items()}
    assert {part: len(names) for part, names in parts.items()} == {"train": 64, "validation": 16, "test": 20}
    assert len(set.union(*parts.values())) == 100
    superclasses = [group for names in cifar.class_names().values() for group in names.values()]
    assert {superclasses.count(group) for group in superclasses} == {5}


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Two photos of each class as files, as the published archive, and as one array."""
    monkeypatch.setattr(cifar, "PHOTOS", 2)
    monkeypatch.setattr(cifar, "RECORDS", {"train.bin": 150, "test.bin": 50})
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GAUSSPROTO_DATA", raising=False)
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(200, 3, 32, 32), dtype=np.uint8)
    classes = np.arange(200) // 2
    for i, (c, image) in enumerate(zip(classes, pixels, strict=True)):
        path = tmp_path / "files" / "cifar100" / NAMES[c] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(path)
    records = np.concatenate([np.stack([classes % 20, classes], axis=1), pixels.reshape(200, -1)], axis=1)
    mixed = records[rng.permutation(200)].astype(np.uint8)
    write_archive(tmp_path / "published", mixed, NAMES)
    return tmp_path


def write_archive(folder, records, names):
    folder.mkdir(exist_ok=True)
    parts = {"train.bin": records[:150].tobytes(), "test.bin": records[150:].tobytes()}
    parts["fine_label_names.txt"] = "\n".join(names).encode()
    with tarfile.open(folder / cifar.ARCHIVE, "w:gz") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(f"cifar-100-binary/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def digest_of(source, monkeypatch):
    """Accept the photos of a source, and return their digest."""
    with pytest.raises(InputError, match="are not those of CIFAR-100"):
        cifar.decode_verified(source)
    seen = []
    monkeypatch.setattr(cifar, "DIGEST", type("Any", (str,), {"__ne__": lambda self, other: seen.append(other)})())
    cifar.decode_verified(source)
    return seen[0]


def test_both_sources_give_the_same_images(few, monkeypatch):
    monkeypatch.setattr(cifar, "DIGEST", digest_of(few / "files" / "cifar100", monkeypatch))
    loaded = [load_data(DataConfig(data="cifar-fs"), few / name) for name in ("files", "published")]
    assert torch.equal(loaded[0].train.images, loaded[1].train.images)
    train, test = loaded[0]
    assert (train.way, test.way, len(test)) == (64, 20, 40)
    assert train.images.shape[1:] == (3, 32, 32)
    validation = load_data(DataConfig(data="cifar-fs", holdout=16), few / "files").test
    assert not {*train.classes, *test.classes} & {*validation.classes}
    name = test.classes[3]
    there = [np.asarray(Image.open(path)) for path in (few / "files" / "cifar100" / name).iterdir()]
    here = test.images[test.starts[3] :][:2].permute(0, 2, 3, 1).numpy()
    assert sorted(a.tobytes() for a in there) == sorted(a.tobytes() for a in here)


def test_wrong_files_are_refused(few):
    folder = few / "published"
    write_archive(folder, np.zeros((199, 3074), np.uint8), NAMES)
    with pytest.raises(InputError, match=r"test.bin must have 153,700 bytes \(found 150,626\)"):
        cifar.decode_verified(folder / cifar.ARCHIVE)
    write_archive(folder, np.zeros((200, 3074), np.uint8), NAMES[::-1])
    with pytest.raises(InputError, match="does not name the classes"):
        cifar.decode_verified(folder / cifar.ARCHIVE)
    (folder / cifar.ARCHIVE).write_bytes(b"no archive")
    with pytest.raises(InputError, match="is not the archive of CIFAR-100"):
        cifar.decode_verified(folder / cifar.ARCHIVE)
    files = few / "files" / "cifar100"
    (files / "apple" / "0.png").unlink()
    with pytest.raises(InputError, match="apple must have 2 photos, but has 1"):
        cifar.decode_verified(files)
    Image.new("RGB", (28, 28)).save(files / "apple" / "0.png")
    with pytest.raises(InputError, match="must have 32 x 32 pixels"):
        cifar.decode_verified(files)
    (files / "unicorn").mkdir()
    (files / "apple" / "0.png").rename(files / "unicorn" / "0.png")
    with pytest.raises(InputError, match=r"unicorn/0.png .* does not belong"):
        cifar.decode_verified(files)
    with pytest.raises(InputError, match="contains neither cifar100"):
        load_data(DataConfig(data="cifar-fs"), few / "files" / "cifar100")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 1}, "needs channels 3, image_size 32"),
        ({"image_size": 28}, "needs channels 3, image_size 32"),
        ({"holdout": 6}, "holdout must be 16"),
        ({"split": {"test": ["apple", "bear"]}}, "has a fixed split"),
    ],
)
def test_settings_that_do_not_fit(settings, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load_data(DataConfig(data="cifar-fs", **settings))


def test_the_look_of_photos_needs_no_options():
    config = preset("fast-small-none", data="cifar-fs")
    assert (config.data.image_size, config.data.channels, config.network.channels) == (32, 3, 3)
    assert DataConfig(data="cifar-fs").channels == 3
    photos = preset("cifar-fs-none")
    assert photos.network.channels == 3
    back = photos.override(data="omniglot")
    assert (back.data.image_size, back.data.channels, back.network.channels) == (28, 1, 1)
    assert photos.override(data="my_photos").data.channels == 3
    tuned = preset("finetune", data="cifar-fs")  # from weights of prepared grey drawings
    assert (tuned.data.prepare, tuned.network.channels) == ("none", 3)
