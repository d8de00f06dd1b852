"""Several views of an image, whose embeddings are averaged."""

import json

import numpy as np
import pytest
import torch

import gaussproto as gp
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.data.challenge import Challenge
from gaussproto.data.views import embed_views, moved, views_of
from gaussproto.errors import InputError
from gaussproto.evaluation.challenge import score_challenge
from gaussproto.formulas.confidence import VIEWS_TEMPERATURE, VIEWS_THRESHOLD
from gaussproto.formulas.embedded import Embedded
from gaussproto.runs.folder import RunFolder, load_network

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)


@pytest.fixture(scope="module")
def few(characters):
    return characters.select(range(12))


def flattened(images):
    return Embedded(images.reshape(len(images), -1) * 1.0)


def test_a_moved_image_holds_the_same_pixels_elsewhere():
    down = moved(PIXELS, 3, -2)
    np.testing.assert_array_equal(down[..., 3:, :-2], PIXELS[..., :-3, 2:])
    np.testing.assert_array_equal(down[..., 0, :-2], PIXELS[..., 0, 2:])  # the edge fills the rest
    np.testing.assert_array_equal(moved(PIXELS, 0, 0), PIXELS)
    np.testing.assert_array_equal(moved(torch.from_numpy(PIXELS), 3, -2).numpy(), down)


def test_the_views_are_the_image_and_four_directions():
    first, *others = views_of(PIXELS, 5)
    assert first is PIXELS
    assert len(others) == 4
    middle = np.zeros((1, 29, 29))
    middle[0, 14, 14] = 1
    places = [tuple(np.argwhere(view[0])[0] - 14) for view in views_of(middle, 5)]
    assert places == [(0, 0), (-3, 0), (3, 0), (0, -3), (0, 3)]
    assert [len(view) for view in views_of(np.ones((1, 2, 2)), 5)] == [1] * 5  # a pixel at least, however small


def test_one_view_is_the_plain_embedding():
    embedded = flattened(PIXELS)
    assert embed_views(lambda images: embedded if images is PIXELS else None, 1, PIXELS) is embedded


def test_the_mean_does_not_depend_on_how_an_image_is_moved_within_its_views():
    """An encoder that sees only how many pixels are bright gives the same for every view of an image with a margin."""
    inside = np.zeros((4, 1, 28, 28))
    inside[..., 8:20, 8:20] = RNG.random((4, 1, 12, 12))
    total = embed_views(lambda images: Embedded(images.sum(axis=(2, 3)), images.sum(axis=(2, 3)) + 1), 5, inside)
    np.testing.assert_allclose(total.x, inside.sum(axis=(2, 3)))
    np.testing.assert_allclose(total.s, inside.sum(axis=(2, 3)) + 1)


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
@pytest.mark.parametrize("views", [1, 5])
def test_against_one_view_at_a_time(covariance, views):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = gp.NetworkConfig(embedding_dim=6, filters=(6, 6), covariance=covariance, precision_relu=False)
        net = gp.GaussianPrototypicalNetwork(config).eval()
    images = torch.from_numpy(PIXELS)
    parts = [gp.embed_all(net, view) for view in views_of(images, views)]
    found = gp.embed_all(net, images, views=views)
    assert (found.s is None) == (covariance == "none")
    for part, whole in zip(zip(*map(tuple, parts), strict=True), found, strict=True):
        if whole is not None:
            torch.testing.assert_close(whole, torch.stack(part).mean(dim=0), rtol=1e-5, atol=1e-6)
    if covariance == "full":
        assert (torch.linalg.eigvalsh(found.s) > 0).all()


def test_one_view_scores_bit_for_bit_as_before(few, weights):
    network = load_network(weights)
    plain = gp.evaluate(network, few, ways=[5], shots=[1, 5])
    assert plain == gp.evaluate(network, few, ways=[5], shots=[1, 5], views=1)
    assert plain.views == 1
    assert torch.equal(gp.embed_all(network, few).x, gp.embed_all(network, few, views=1).x)


def test_evaluations_of_other_views_are_kept_apart(few, weights, tmp_path):
    network = load_network(weights)
    run = RunFolder(tmp_path)
    for views in (1, 5):
        run.write_evaluation("strokes", "last", [], gp.evaluate(network, few, ways=[5], shots=[1], views=views))
    one, five = run.read_metrics().evaluations
    assert (one.views, five.views) == (1, 5)
    assert one.scores != five.scores
    assert "mean of 5 views" in five.description
    assert run.read_metrics().evaluation("strokes", "running", "last") == one


def test_sampled_episodes_and_the_challenge_have_views_too(few, weights):
    network = load_network(weights)
    sampled = [
        gp.evaluate(network, few, ways=[5], shots=[1], episodes=50, views=views).scores[0].accuracy for views in (1, 5)
    ]
    assert sampled[0] != sampled[1]
    chosen = few.dense[:10]
    same = Challenge(chosen[None, :, 0], chosen[None, :, 0], torch.arange(10)[None])
    score = score_challenge(network, same, views=5)
    assert (score.error, score.views) == (0, 5)


@pytest.mark.parametrize("views", [0, 2, 3, True, "5", 5.5, None])
def test_other_numbers_of_views_are_refused(few, weights, views):
    with pytest.raises(InputError, match=r"views must be 1 .* or 5 "):
        gp.evaluate(load_network(weights), few, ways=[5], shots=[1], views=views)
    with pytest.raises(InputError, match=r"views must be 1 .* or 5 "):
        find_encoder(str(weights), views=views)


def test_what_cannot_have_views(few, weights):
    with pytest.raises(InputError, match="leave out views, or norm batch"):
        gp.evaluate(load_network(weights), few, ways=[5], shots=[1], norm="batch", views=5)
    with pytest.raises(InputError, match="takes vectors: leave out views"):
        gp.GaussianPrototypeClassifier("identity", views=5).fit(np.eye(2), ["a", "b"])


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_a_classifier_averages_and_its_gallery_remembers(few, weights, engine, tmp_path):
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
    X, y = few.dense[:, :3].flatten(0, 1).numpy(), [c for c in few.classes for _ in range(3)]
    queries = few.dense[:, 5].numpy()
    plain, clf = (gp.GaussianPrototypeClassifier(weights, ink="bright", engine=engine, views=n) for n in (1, 5))
    for each in (plain, clf):
        each.fit(X, y)
    mean = np.mean([plain.transform(view) for view in views_of(X, 5)], axis=0)
    np.testing.assert_allclose(clf.example_embeddings_, mean, rtol=1e-4, atol=1e-5)
    clf.set_params(views=1).save(tmp_path / "five.gallery")  # takes effect at the next fit
    plain.save(tmp_path / "one.gallery")
    loaded = gp.load(tmp_path / "five.gallery")
    assert loaded.views == loaded.encoder_.views == 5
    assert gp.load(tmp_path / "one.gallery").views == 1
    np.testing.assert_allclose(loaded.predict_proba(queries), clf.predict_proba(queries), rtol=1e-3, atol=1e-4)


def test_the_calibration_of_bundled_weights_is_that_of_nearer_images():
    one, five = (find_encoder("drawings-small", views=views) for views in (1, 5))
    assert one.digest == five.digest
    assert five.calibration.temperature == pytest.approx(VIEWS_TEMPERATURE * one.calibration.temperature)
    for rate in (0.01, 0.05):
        assert five.calibration.threshold(rate) == pytest.approx(VIEWS_THRESHOLD * one.calibration.threshold(rate))
    assert five.calibration.for_views(0.0).thresholds == five.calibration.thresholds


def test_the_commands(few, weights, gaussproto, tmp_path):
    from PIL import Image

    for name, drawings in zip("ab", few.dense[:2, :3, 0].numpy(), strict=True):
        (tmp_path / "examples" / name).mkdir(parents=True)
        for i, drawing in enumerate(drawings):
            Image.fromarray(255 - drawing).save(tmp_path / "examples" / name / f"{i}.png")
    for views in (1, 5):
        gallery = tmp_path / f"{views}.gallery"
        code, _, _ = gaussproto("enroll", gallery, tmp_path / "examples", "--encoder", weights, "--views", views)
        assert code == 0
        code, out, _ = gaussproto("gallery", "list", gallery, "--json")
        assert json.loads(out).get("views") == (5 if views == 5 else None)
    image = tmp_path / "examples" / "a" / "0.png"
    code, out, _ = gaussproto("classify", "--gallery", tmp_path / "5.gallery", image, "--json")
    assert code == 0
    assert json.loads(out)["images"][0]["image"] == str(image)
    code, _, said = gaussproto("classify", "--gallery", tmp_path / "5.gallery", image, "--views", 1)
    assert code == 2
    assert "was made with --views 5 (found --views 1)" in said
    code, _, said = gaussproto(
        "gallery", "merge", tmp_path / "all.gallery", tmp_path / "1.gallery", tmp_path / "5.gallery"
    )
    assert code == 2
    assert "different settings (views 1 and 5)" in said
    code, _, said = gaussproto("evaluate", weights, "--views", 2, "--data", "strokes")
    assert code == 2
    assert "views must be 1" in said
