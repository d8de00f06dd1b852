import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.config import DataConfig
from gaussproto.data.load import load_data
from gaussproto.data.omniglot import BACKGROUND, EVALUATION, PARTS, decode_verified, omniglot
from gaussproto.errors import InputError


def test_the_published_numbers():
    assert len(BACKGROUND.characters) == 964
    assert len(EVALUATION.characters) == 659
    alphabets = [{name.split("/")[0] for name in part.characters} for part in (BACKGROUND, EVALUATION)]
    assert [len(names) for names in alphabets] == [30, 20]
    assert not alphabets[0] & alphabets[1]


def test_all_of_it(omniglot_root):
    train, test = load_data(DataConfig(data="omniglot"), omniglot_root)
    assert (train.way, test.way) == (3856, 2636)
    assert (len(train), len(test)) == (77120, 52720)
    assert not set(train.alphabets) & set(test.alphabets)
    plain = omniglot("train", data_root=omniglot_root)
    assert plain.dense.shape == (964, 20, 1, 28, 28)
    ink = plain.images.float().mean(dim=(1, 2, 3)) / 255
    assert 0.001 < float(ink.min()) < float(ink.max()) < 0.5  # ink is bright and little of the page


def test_pixels_are_those_of_the_file(omniglot_root):
    """One image, read by hand and reduced by an exact average, looks the same."""
    name = "images_evaluation/Angelic/character01/0965_01.png"
    with zipfile.ZipFile(omniglot_root / "images_evaluation.zip") as archive, archive.open(name) as file:
        paper = np.asarray(Image.open(file), dtype=float)  # 1 is paper
    edges = np.linspace(0, 105, 29)
    ours = omniglot("test", data_root=omniglot_root).images[0, 0].numpy() / 255
    rows = np.clip(np.minimum(edges[1:, None], np.arange(1, 106)) - np.maximum(edges[:-1, None], np.arange(105)), 0, 1)
    average = rows @ (1 - paper) @ rows.T / (105 / 28) ** 2
    assert np.corrcoef(ours.ravel(), average.ravel())[0, 1] > 0.97
    assert ours.mean() == pytest.approx(average.mean(), rel=0.05)


def test_the_cache_serves_without_the_files(omniglot_root, monkeypatch, tmp_path):
    images = omniglot("test", data_root=omniglot_root)
    monkeypatch.setenv("GAUSSPROTO_DATA", str(tmp_path / "gone"))
    assert torch.equal(omniglot("test").images, images.images)


@pytest.fixture(scope="module")
def extracted(omniglot_root, tmp_path_factory):
    root = tmp_path_factory.mktemp("extracted")
    with zipfile.ZipFile(omniglot_root / "images_evaluation.zip") as archive:
        archive.extractall(root)
    return root / "images_evaluation"


def test_extracted_folders_do_as_well(extracted, omniglot_root):
    assert torch.equal(
        decode_verified(EVALUATION, extracted, 28).images, omniglot("test", data_root=omniglot_root).images
    )


def test_what_is_not_omniglot_is_refused(extracted, tmp_path):
    """Each fault in turn: the sentence names the file or character."""
    part = replace(EVALUATION, alphabets="Tibetan:42")
    root = tmp_path / part.name
    shutil.copytree(extracted / "Tibetan", root / "Tibetan")
    drawing = root / "Tibetan" / "character05"
    file = sorted(drawing.iterdir())[6]
    content = file.read_bytes()

    def refused(match):
        with pytest.raises(InputError, match=match):
            decode_verified(part, root, 28)

    file.unlink()
    refused("Tibetan/character05 in .* must have the 20 drawings .*found 19 files")
    file.with_name("renamed_99.png").write_bytes(content)
    refused("Tibetan/character05 in .* must have the 20 drawings .*found 20 files")
    file.with_name("renamed_99.png").unlink()
    file.write_bytes(content[: len(content) // 2])
    refused(f"{file.name} is not a readable image")
    file.write_text("I am text")
    refused(f"{file.name} is not a readable image")
    Image.new("1", (64, 64)).save(file)
    refused(f"{file.name} in .* must have 105 x 105 pixels .found 64 x 64")
    file.write_bytes(content)
    other = root / "Klingon" / "character01"
    other.mkdir(parents=True)
    shutil.copy(file, other)
    refused("Klingon/character01/.* does not belong to Omniglot")
    shutil.rmtree(other.parent)
    shutil.rmtree(drawing)
    refused("Tibetan/character05 in .* must have the 20 drawings .*found 0 files")


def test_one_changed_image_is_noticed(extracted):
    file = sorted((extracted / "Tibetan" / "character05").iterdir())[6]
    content = file.read_bytes()
    Image.new("1", (105, 105)).save(file)
    with pytest.raises(InputError, match="are not those of Omniglot"):
        decode_verified(EVALUATION, extracted, 28)
    file.write_bytes(content)


def test_a_truncated_zip_is_refused(omniglot_root, tmp_path):
    content = (omniglot_root / "images_evaluation.zip").read_bytes()
    (tmp_path / "images_evaluation.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"images_evaluation\.zip is not a readable zip file"):
        decode_verified(PARTS["test"], tmp_path / "images_evaluation.zip", 28)


def test_a_zip_with_flipped_bits_is_refused(omniglot_root, tmp_path):
    content = bytearray((omniglot_root / "images_evaluation.zip").read_bytes())
    for position in range(1000, len(content) // 2, 10_000):
        content[position] ^= 255
    (tmp_path / "images_evaluation.zip").write_bytes(content)
    with pytest.raises(InputError, match=r"images_evaluation\.zip"):
        decode_verified(EVALUATION, tmp_path / "images_evaluation.zip", 28)


def test_a_folder_without_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"contains neither images_background\.zip nor a folder"):
        omniglot("train", data_root=tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        omniglot("train", data_root=tmp_path / "nowhere")


def test_holdout_takes_alphabets_out_of_training(omniglot_root):
    everything = load_data(DataConfig(data="omniglot", rotations=False), omniglot_root)
    train, held_out = load_data(DataConfig(data="omniglot", rotations=False, holdout=6), omniglot_root)
    assert len(set(held_out.alphabets)) == 6
    assert set(train.alphabets) | set(held_out.alphabets) == set(everything.train.alphabets)
    assert not set(held_out.alphabets) & (set(train.alphabets) | set(everything.test.alphabets))


def test_a_wrong_folder_is_refused_even_if_the_images_are_cached(omniglot_root, tmp_path):
    omniglot("test", data_root=omniglot_root)
    with pytest.raises(InputError, match="is not a folder"):
        omniglot("test", data_root=tmp_path / "nowhere")
    with pytest.raises(InputError, match="contains neither"):
        omniglot("test", data_root=tmp_path)


def test_verifying_replaces_cached_images_that_are_not_omniglots(omniglot_root, monkeypatch, tmp_path):
    """Even those whose checksum is right, for example of another program's making."""
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path))
    images = omniglot("test", data_root=omniglot_root)
    (file,) = tmp_path.glob("*.safetensors")
    content = read_arrays(file, "cache", "pt")
    content.arrays["images"].fill_(7)
    write_arrays(file, content.arrays, content.metadata)
    assert int(omniglot("test", data_root=omniglot_root).images[0, 0, 0, 0]) == 7
    assert torch.equal(omniglot("test", data_root=omniglot_root, renew=True).images, images.images)
    assert torch.equal(omniglot("test", data_root=omniglot_root).images, images.images)
    damaged = bytearray(file.read_bytes())
    damaged[-1000] ^= 1
    file.write_bytes(damaged)
    with pytest.warns(UserWarning, match="cached images are prepared again"):
        assert torch.equal(omniglot("test", data_root=omniglot_root).images, images.images)
