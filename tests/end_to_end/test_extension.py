"""A user's own distance, transform, covariance and backbone: one object in one file, from training to the answers."""

import json
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

import gaussproto as gp
from gaussproto.evaluation.calibrate import calibrate_weights
from gaussproto.runs.weights import open_weights, write_calibration

MODULE = '''
    import torch
    from torch import nn

    import gaussproto as gp


    class Manhattan(gp.Distance):
        """sum_i sqrt(s_i) |x_i - p_i|."""

        power = 1.0

        def value(self, x, p, s):
            apart = abs(x[..., :, None, :] - p[..., None, :, :])
            return (apart if s is None else apart * s[..., None, :, :] ** 0.5).sum(-1) + 1e-6


    class Square(gp.Transform):
        """s = offset + raw^2, with a learned offset."""

        parameters = {"offset": 0.5}

        def value(self, raw, offset):
            return offset + raw**2

        def onnx(self, graph, raw, name=None, offset=None):
            return graph.add("Add", graph.add("Mul", raw, raw), graph.constant(offset), name=name)


    class Pair(gp.Covariance):
        """One precision for the first half of the directions and one for the second."""

        def raw_size(self, D):
            return 2

        def shape(self, D):
            return (D,)

        def precision(self, raw, transform, D):
            s = transform(raw)
            return torch.cat([s[:, :1].expand(-1, D // 2), s[:, 1:].expand(-1, D - D // 2)], dim=1)


    class NeedsMore(gp.Distance):
        def __init__(self, scale):
            self.scale = scale


    class Tiny(nn.Module):
        """A backbone that normalises by itself."""

        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(49, 24), nn.ReLU())

        def forward(self, images):
            assert 0 <= images.min() and images.max() <= 1
            return self.layers((images - 0.1) / 0.3)
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The name of a user's module, somewhere on the path."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "their_lab.py").write_text(textwrap.dedent(MODULE))
    (folder / "their_broken_lab.py").write_text("raise RuntimeError('no GPU')")
    sys.path.insert(0, str(folder))
    yield "their_lab"
    sys.path.remove(str(folder))
    sys.modules.pop("their_lab", None)


def settings(**more):
    small = {"filters": "8,8,8", "embedding_dim": 8, "way": 5, "max_shot": 2, "query": 2, "splits": 2}
    return gp.preset("demo", **{**small, "episodes": 12, "checkpoint_every": 6, **more})


def by_manhattan(x, p):
    return np.abs(np.asarray(x)[:, None] - np.asarray(p)[None]).sum(-1) + 1e-6


def test_a_new_distance_is_one_object_in_one_file(lab, characters, tmp_path, gaussproto, monkeypatch):
    run = gp.train(settings(distance=f"{lab}:Manhattan"), characters, tmp_path / "run")
    assert json.loads((run.folder / "config.json").read_text())["network"]["distance"] == "their_lab:Manhattan"

    # Evaluated: the score is that of the distance itself, not of the Euclidean one.
    network = gp.load_network(run.folder)
    embedded = gp.embed_all(network, characters.images)
    result = gp.evaluate(network, characters, ways=[5], shots=[1, 3], rounds=2)
    plain = gp.load_network(run.folder)
    plain.distances = None  # whatever is asked goes through `order`
    plain.order = lambda x, p, s: torch.from_numpy(np.stack([by_manhattan(*pair).T for pair in zip(x, p, strict=True)]))
    assert gp.evaluate(plain, characters, ways=[5], shots=[1, 3], rounds=2) == result
    euclidean = gp.GaussianPrototypicalNetwork(network.config.model_copy(update={"distance": "euclidean"}))
    euclidean.load_state_dict(network.state_dict())
    assert gp.evaluate(euclidean, characters, ways=[5], shots=[1, 3], rounds=2).scores != result.scores

    # Calibrated: the distance's own power scales the thresholds with the embeddings.
    weights = run.folder / "checkpoints" / "last.safetensors"
    monkeypatch.setattr("gaussproto.evaluation.calibrate.QUERIES", 2000)
    half = characters.select(range(0, characters.way, 2)), characters.select(range(1, characters.way, 2))
    monkeypatch.setattr("gaussproto.evaluation.calibrate.load_data", lambda *_: gp.data.load.Split(*half))
    calibration, scores = calibrate_weights(weights)
    write_calibration(weights, calibration)
    assert open_weights(weights).calibration == calibration
    assert list(calibration.thresholds) == sorted(calibration.thresholds, reverse=True)
    assert all(score.known_rejected < 0.3 and score.nll_after <= score.nll_before + 0.05 for score in scores), scores

    # Used in the classifier, saved in a gallery, and exported.
    images, labels = characters.dense[:6, :5].flatten(0, 1)[:, 0].numpy(), np.arange(6).repeat(5)
    queries = characters.dense[:6, 5:8].flatten(0, 1)[:, 0].numpy()
    clf = gp.GaussianPrototypeClassifier(str(weights), ink="bright", reject=0.1).fit(images, labels)
    confidence = clf.confidence(queries)
    index = (torch.arange(6)[:, None] * 20 + torch.arange(5, 8)).flatten()
    expected = by_manhattan(embedded.x[index].double(), clf.prototypes_)
    np.testing.assert_allclose(confidence.distances, expected, rtol=1e-4)
    clf.save(tmp_path / "g.gallery")
    np.testing.assert_array_equal(gp.load(tmp_path / "g.gallery").predict(queries), clf.predict(queries))
    pytest.importorskip("onnxruntime")
    gp.export_onnx(str(weights), tmp_path / "e.onnx")
    by_onnx = gp.GaussianPrototypeClassifier(str(tmp_path / "e.onnx"), ink="bright").fit(images, labels)
    np.testing.assert_allclose(by_onnx.confidence(queries).distances, confidence.distances, rtol=1e-3)

    # And from the command line, where the module is on the path.
    code, out, err = gaussproto("evaluate", run.folder, "--ways", 5, "--shots", 1, "--rounds", 1, "--json")
    assert (code, json.loads(out)["scores"][0]["way"]) == (0, 5), err


def test_an_own_transform_and_covariance(lab, characters, tmp_path):
    config = settings(transform=f"{lab}:Square", covariance=f"{lab}:Pair", weighting="prototype_and_distance")
    run = gp.train(config, characters, tmp_path / "run")
    network = gp.load_network(run.folder)
    s = network.embed(characters.images[:7]).s
    assert s.shape == (7, 8)
    assert torch.equal(s[:, :1].expand(-1, 4), s[:, :4])
    assert network.state_dict()["precision.transform.offset"] != 0.5  # it was learned
    clf = gp.GaussianPrototypeClassifier(network, ink="bright").fit(characters.images[:40, 0].numpy(), ["a", "b"] * 20)
    assert clf.precisions_.shape == (2, 8)
    pytest.importorskip("onnx")
    with pytest.raises(gp.InputError, match="the covariance Pair cannot be exported"):
        gp.export_onnx(network, tmp_path / "e.onnx")
    radius = gp.GaussianPrototypicalNetwork(network.config.model_copy(update={"covariance": "radius"}))
    assert gp.export_onnx(radius, tmp_path / "e.onnx").difference < 1e-4  # the transform has one


def test_an_own_network_trains_resumes_evaluates_and_reports(lab, characters, tmp_path):
    from their_lab import Manhattan, Tiny

    def new():
        torch.manual_seed(1)
        config = gp.NetworkConfig(embedding_dim=8, distance=Manhattan(), transform="exp", precision_relu=False)
        return gp.GaussianPrototypicalNetwork(config, Tiny(), features=24)

    whole = gp.train(settings(), characters, tmp_path / "whole", network=new())
    half = settings(episodes=12)

    class StopError(Exception):
        pass

    def stop(record):
        raise StopError

    with pytest.raises(StopError):
        gp.train(half, characters, tmp_path / "half", network=new(), on_log=stop)  # killed after its first checkpoint
    # Another process has no network object, only the folder.
    resumed = gp.train(gp.preset(str(tmp_path / "half")), characters, tmp_path / "half", resume=True)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name
    loaded = gp.load_network(tmp_path / "half")
    assert loaded.config.encoder == "their_lab:Tiny"
    assert loaded.config.distance == "their_lab:Manhattan"
    assert gp.evaluate(loaded, characters, ways=[5], shots=[1], rounds=1).scores[0].accuracy > 0
    gp.write_report([tmp_path / "half"], tmp_path / "r.html", evaluate=False)
    assert "their_lab:Tiny" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("later", ["exp", "learned_softplus"])
@pytest.mark.parametrize("same_object", [True, False])
def test_a_given_network_resumes_with_the_transform_of_its_stage(characters, tmp_path, later, same_object):
    """Stages change the transform on the way; a resumed run ends as one that never stopped."""
    small = settings(episodes=30, checkpoint_every=10, transform="softplus")
    stages = tuple(gp.Stage(episodes=10, transform=transform) for transform in (None, later, None))
    config = small.model_copy(update={"training": small.training.model_copy(update={"stages": stages})})

    def new():
        torch.manual_seed(1)
        return gp.GaussianPrototypicalNetwork(config.network)

    class StopError(Exception):
        pass

    def stop(record):
        if record.episode == 30:
            raise StopError

    whole = gp.train(config, characters, tmp_path / "whole", network=new())
    first = new()
    with pytest.raises(StopError):
        gp.train(config, characters, tmp_path / "half", network=first, on_log=stop)
    again = gp.train(config, characters, tmp_path / "half", network=first if same_object else new(), resume=True)
    assert again.network.config.transform == later
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name]), name


def test_what_cannot_be_saved_is_refused(characters, tmp_path):
    class Local(gp.Distance):
        def value(self, x, p, s):
            return x @ p.T

    class Sub(gp.GaussianPrototypicalNetwork):
        pass

    config = settings()
    with pytest.raises(gp.InputError, match="cannot import the distance"):
        config.override(distance=Local())
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(784, 6))
    network = gp.GaussianPrototypicalNetwork(config.network, backbone, features=6)
    with pytest.raises(gp.InputError, match="creates weights of other shapes"):
        gp.train(config, characters, tmp_path / "run", network=network)
    with pytest.raises(gp.InputError, match="cannot save Sub"):
        gp.train(config, characters, tmp_path / "run", network=Sub(config.network))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("manhattan", "unknown distance 'manhattan'"),
        ("euclidian", "did you mean 'euclidean'"),
        ("no_such_lab:Manhattan", "cannot import the distance no_such_lab:Manhattan"),
        ("os:system", "os belongs to Python's standard library"),
        ("numpy:ndarray", "not a distance"),
        (3, "a distance must be"),
    ],
)
def test_unknown_names_are_refused(name, message):
    with pytest.raises(gp.InputError, match=message):
        settings(distance=name)
    with pytest.raises(gp.InputError, match=message):
        gp.GaussianPrototypeClassifier("identity", distance=name).fit([[0.0], [1.0]], [0, 1])


def test_what_is_wrong_in_a_users_module_is_one_sentence(lab):
    with pytest.raises(gp.InputError, match=r"cannot create the distance .*NeedsMore without arguments"):
        settings(distance=f"{lab}:NeedsMore")
    with pytest.raises(gp.InputError, match=r"cannot import the distance their_broken_lab:X \(no GPU\)"):
        settings(distance="their_broken_lab:X")


@pytest.mark.parametrize(
    ("name", "message"), [("torch.nn:Linear", "without arguments"), ("numpy.random:random", "must create a torch.nn")]
)
def test_an_encoder_that_is_none_is_refused(name, message):
    with pytest.raises(gp.InputError, match=message):
        gp.GaussianPrototypicalNetwork(gp.NetworkConfig(encoder=name, features=3))


def test_a_subclass_is_scored_by_its_own_distances(characters):
    """A subclass that overrides `distances` is evaluated with them; a classifier, which could not, refuses it."""

    class Worst(gp.GaussianPrototypicalNetwork):
        def distances(self, x, p, s_class):
            return -super().distances(x, p, s_class)

    torch.manual_seed(0)
    config = gp.NetworkConfig(filters=(8, 8, 8), embedding_dim=8)
    worst, usual = Worst(config), gp.GaussianPrototypicalNetwork(config)
    usual.load_state_dict(worst.state_dict())
    scores = [gp.evaluate(one, characters, ways=[5], shots=[3], rounds=1).scores[0] for one in (worst, usual)]
    assert scores[0].accuracy < 0.1 < 0.3 < scores[1].accuracy
    with pytest.raises(gp.InputError, match="overrides the method `distances`"):
        gp.GaussianPrototypeClassifier(worst).fit(characters.images[:4, 0].numpy(), ["a", "a", "b", "b"])
