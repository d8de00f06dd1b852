import numpy as np
import pytest
import torch

from gaussproto import GaussianHead, GaussianPrototypeClassifier, load, train_head
from gaussproto.errors import InputError

FEATURES = 12


def vectors(classes, each, seed):
    """Six numbers tell classes apart, five are noise; the last says how bad an example is, and a third are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 6))
    y = np.repeat(np.arange(classes), each)
    bad = rng.random(len(y)) < 1 / 3
    noise = np.where(bad, 2.0, 0.3)[:, None]
    X = np.concatenate(
        [centres[y] + noise * rng.normal(size=(len(y), 6)), rng.normal(size=(len(y), 5)), bad[:, None]], axis=1
    )
    return X, y, bad


def few_shot_accuracy(encoder, rounds=20):
    """10-way 4-shot on classes that no head has seen."""
    right = []
    for seed in range(1000, 1000 + rounds):
        X, y, _ = vectors(10, 12, seed)
        support = np.tile(np.arange(12) < 4, 10)
        right.append(GaussianPrototypeClassifier(encoder).fit(X[support], y[support]).score(X[~support], y[~support]))
    return np.mean(right)


@pytest.fixture(scope="module")
def head():
    X, y, _ = vectors(60, 12, seed=0)
    return train_head(X, y, episodes=150, learning_rate=5e-3)


def test_before_training_it_is_the_nearest_mean():
    X, y, _ = vectors(10, 12, seed=1)
    untrained = train_head(X, y, episodes=0)
    plain, with_head = (
        GaussianPrototypeClassifier(encoder, prototype="mean").fit(X, y) for encoder in ("identity", untrained)
    )
    np.testing.assert_array_equal(plain.predict(X), with_head.predict(X))
    np.testing.assert_allclose(plain.example_weights_, with_head.example_weights_, rtol=1e-6)
    ratio = -plain.decision_function(X) / -with_head.decision_function(X)
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)  # only the unit of length differs


def test_it_learns_which_directions_and_which_examples_count(head):
    assert few_shot_accuracy(head) > few_shot_accuracy("identity") + 0.1
    X, y, bad = vectors(10, 12, seed=2)
    weights = GaussianPrototypeClassifier(head).fit(X, y).example_weights_
    assert weights[bad].mean() < 0.6 * weights[~bad].mean()


def test_the_same_seed_gives_the_same_head(head):
    X, y, _ = vectors(60, 12, seed=0)
    random = torch.random.get_rng_state()
    again = train_head(X, y, episodes=150, learning_rate=5e-3)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(torch.equal(a, b) for a, b in zip(head.state_dict().values(), again.state_dict().values(), strict=True))


def test_fewer_dimensions_begin_as_the_widest():
    X, y, _ = vectors(10, 12, seed=3)
    reduced = train_head(X, y, embedding_dim=4, episodes=0)
    embedded = GaussianPrototypeClassifier(reduced).fit(X, y).transform(X)
    centred = X - X.mean(axis=0)
    kept = np.linalg.svd(centred, compute_uv=False)[:4]
    np.testing.assert_allclose(
        np.linalg.svd(embedded, compute_uv=False), kept / centred.std(), rtol=1e-3
    )  # as a principal component analysis


def test_every_parameter_gets_a_gradient():
    head = GaussianHead(FEATURES, 5)
    torch.nn.init.normal_(head.encoder.raw[2].weight)
    x, s = head.embed(torch.randn(9, FEATURES))
    (x.square().sum() + s.sum()).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


def test_a_head_on_disk_is_the_same_head(head, tmp_path):
    head.save(tmp_path / "head.safetensors")
    X, y, _ = vectors(10, 12, seed=4)
    clf = GaussianPrototypeClassifier(head).fit(X, y)
    from_file = GaussianPrototypeClassifier(str(tmp_path / "head.safetensors")).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), from_file.predict_proba(X))
    clf.save(tmp_path / "a.gallery")
    with pytest.raises(InputError, match="only in memory"):
        load(tmp_path / "a.gallery")
    loaded = load(tmp_path / "a.gallery", encoder=tmp_path / "head.safetensors")
    np.testing.assert_array_equal(clf.predict_proba(X), loaded.predict_proba(X))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.zeros(120)}, r"two classes of two vectors each \(found 1\)"),
        ({"y": np.arange(120)}, r"two classes of two vectors each \(found 0\)"),
        ({"y": [0, 1]}, r"same length \(found 120 and 2\)"),
        ({"way": 1}, r"way must be at least 2 \(found 1\)"),
        ({"shot": 0}, r"shot must be at least 1 \(found 0\)"),
        ({"X": np.full((120, 3), np.nan)}, "NaN"),
    ],
)
def test_what_a_head_cannot_learn_from(change, sentence):
    X, y, _ = vectors(10, 12, seed=5)
    with pytest.raises(ValueError, match=sentence):
        train_head(**({"X": X, "y": y} | change))


def test_vectors_of_another_size_are_refused(head):
    with pytest.raises(InputError, match="takes vectors of size 12"):
        GaussianPrototypeClassifier(head).fit(np.eye(3), [0, 1, 2])
