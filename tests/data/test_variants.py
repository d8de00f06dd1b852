"""Variants of drawings in a data set: episodes take them, and everything else carries them along."""

import numpy as np
import pytest
import torch
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.data.cache import cached_images
from gaussproto.data.images import VARIED, LabelledImages
from gaussproto.data.ink import prepare_ink
from gaussproto.data.load import load_data
from gaussproto.data.prepare import prepared
from gaussproto.episodes import sample_episode
from gaussproto.errors import InputError
from gaussproto.presets import preset
from gaussproto.training.train import train


@pytest.fixture
def varied():
    """Three classes of four images, each with five variants; a pixel tells class, image and variant."""
    images = torch.zeros(12, 1, 4, 4, dtype=torch.uint8)
    variants = torch.zeros(12, 5, 1, 4, 4, dtype=torch.uint8)
    for i in range(12):
        images[i, 0, 0, 1] = 10 * i
        for v in range(5):
            variants[i, v, 0, 0, 1] = 10 * i + v + 1
    return LabelledImages(images, torch.tensor([4, 4, 4]), ("a", "b", "c"), ("x",) * 3, variants=variants)


def test_an_episode_takes_images_or_their_own_variants(varied, generator):
    marks = torch.stack([sample_episode(varied, 3, 2, generator)[:, :, 0, 0, 1] for _ in range(400)]).int()
    image, variant = marks // 10, marks % 10
    assert sorted(set(image.flatten().tolist())) == list(range(12))
    assert sorted(set(variant.flatten().tolist())) == list(range(6))
    assert (image[..., 0] != image[..., 1]).all()  # never two versions of one drawing
    assert (variant > 0).float().mean() == pytest.approx(VARIED, abs=0.05)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_share_of_variants_is_a_setting(varied, generator, share):
    marks = torch.stack([sample_episode(varied, 3, 2, generator, varied=share)[:, :, 0, 0, 1] for _ in range(400)])
    assert (marks % 10 > 0).float().mean() == pytest.approx(share, abs=0.05 if 0 < share < 1 else 0)


def test_the_same_seed_gives_the_same_variants(varied):
    one, two = (sample_episode(varied, 3, 2, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)


def test_without_a_generator_images_stay_clean(varied):
    every = varied.gather(torch.arange(3), torch.arange(4).expand(3, 4))
    assert torch.equal(every.flatten(0, 1), varied.images)


def test_selections_and_rotations_carry_the_variants_along(varied):
    chosen = varied.select([2, 0])
    assert torch.equal(chosen.variants[:4], varied.variants[8:])
    turned = varied.with_rotations()
    assert torch.equal(turned.variants[12:24], varied.variants.rot90(1, dims=(-2, -1)))
    assert turned.to("cpu").variants is not None
    clean = LabelledImages(varied.images, varied.counts, varied.classes, varied.alphabets)
    assert varied.fingerprint() != clean.fingerprint()


def test_variants_of_another_shape_are_refused(varied):
    for wrong in (varied.variants[:5], varied.variants[:, :, 0], varied.variants.float()):
        with pytest.raises(InputError, match="variants must be a uint8 tensor of shape"):
            LabelledImages(varied.images, varied.counts, varied.classes, varied.alphabets, variants=wrong)


def test_the_cache_keeps_them(varied, tmp_path, monkeypatch):
    monkeypatch.setenv("GAUSSPROTO_CACHE", str(tmp_path))
    assert cached_images("it", 4, lambda: varied) is varied
    again = cached_images("it", 4, lambda: pytest.fail("made twice"))
    assert torch.equal(again.variants, varied.variants)


@pytest.fixture
def root(characters, tmp_path):
    for c in range(6):
        (tmp_path / "mine" / f"c{c}").mkdir(parents=True)
        for i in range(4):
            page = Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((70 + i, 60))
            page.save(tmp_path / "mine" / f"c{c}" / f"{i}.png")
    return tmp_path / "mine"


def test_a_folder_of_drawings_is_prepared_as_the_classifier_prepares_it(root):
    train_part, test_part = load_data(DataConfig(data=str(root), prepare="ink", variants=3))
    assert train_part.variants.shape[1] == 3
    assert test_part.variants is None  # they are only for training
    name = train_part.classes[0]
    page = np.asarray(Image.open(root / name / "0.png").convert("L"))
    assert np.array_equal(train_part.images[0, 0].numpy(), prepare_ink(page, 28))
    plain = load_data(DataConfig(data=str(root), prepare="none")).train
    assert plain.variants is None
    assert not torch.equal(plain.images, train_part.images)


def test_many_drawings_are_prepared_in_the_same_way_as_few(characters):
    greys = list(characters.images[:300, 0].numpy())  # more than a batch
    images, variants = prepared(greys, 28, variants=1)
    assert np.array_equal(images[280:, 0].numpy(), prepared(greys[280:], 28)[0][:, 0].numpy())
    assert variants.shape == (300, 1, 1, 28, 28)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"variants": 2}, "variants needs prepare ink"),
        ({"prepare": "ink", "channels": 3}, "prepare ink needs grey images"),
        ({"prepare": "pencil"}, "prepare must be"),
    ],
)
def test_settings_that_do_not_fit(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        preset("demo", **settings)


def test_a_run_with_variants_repeats_and_records_its_data(root, tmp_path):
    settings = {"data": str(root), "prepare": "ink", "variants": 2, "filters": "4,4,4", "embedding_dim": 4}
    config = preset("demo", **settings, adapt=True, way=4, episodes=8, checkpoint_every=4)
    images = load_data(config.data).train
    runs = [train(config, images, tmp_path / name) for name in ("one", "two")]
    assert runs[0].config.data.variants == 2
    for name, tensor in runs[0].network.state_dict().items():
        assert torch.equal(tensor, runs[1].network.state_dict()[name])
    clean = LabelledImages(images.images, images.counts, images.classes, images.alphabets)
    with pytest.raises(InputError, match="the training images have changed"):
        train(config.override(episodes=12), clean, tmp_path / "one", resume=True, lengthen=True)
