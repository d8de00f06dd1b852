"""The page `docs/extend.md`: its modules pasted into `my_lab.py`, its commands and programs run on small data."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gaussproto as gp

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extend.md").read_text()
STEPS = re.compile(r"```python\n(.*?)```|^ {4}gaussproto ([^\n#]*)", re.DOTALL | re.MULTILINE)
MODULE = "# my_lab.py\n"
SMALL_DATA = {"data": "my_lab:digits", "test_fraction": 0.4}  # 6 classes to train on, 4 to test on
SMALL = {"episodes": 4, "way": 3, "checkpoint_every": 2}
OPTIONS = {"evaluate": "--ways 3 --shots 1 --rounds 1", "train": "", "calibrate": "", "export": ""}


def modules():
    return [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if block.startswith(MODULE)]


def smaller(settings):
    return SMALL | ({} if "data" in settings else SMALL_DATA) | settings


def small_command(line):
    """The arguments of a command of the page, with settings that make it quick."""
    name, *arguments = shlex.split(f"{line} {OPTIONS[line.split()[0]]}")
    if name == "train":
        given = {option.removeprefix("--"): "" for option in arguments if option.startswith("--")}
        for setting, value in smaller(given).items():
            arguments += [] if setting in given else [f"--{setting.replace('_', '-')}", str(value)]
    return [name, *arguments]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with all modules of the page in one file; nothing but the command puts it on the path."""
    (tmp_path / "my_lab.py").write_text("\n\n".join(modules()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more only wait for each other on images this few
    yield tmp_path
    torch.set_num_threads(threads)
    sys.modules.pop("my_lab", None)


def test_each_module_of_the_page_is_complete():
    names = set()
    for block in modules():
        namespace = {"__name__": "my_lab"}
        exec(block, namespace)
        names |= {name for name, value in namespace.items() if getattr(value, "__module__", "") == "my_lab"}
    assert names == {"Manhattan", "InverseVariance", "Quarters", "Tiny", "digits", "low_and_high"}
    for name in re.findall(r"my_lab:(\w+)", PAGE):
        assert name in {*names, "Name"}


def test_the_page(lab, monkeypatch, gaussproto):
    """Every command and program of the page, in its order, in one folder."""
    pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'gaussproto[onnx]'")
    monkeypatch.setattr("gaussproto.evaluation.calibrate.QUERIES", 2000)
    monkeypatch.setattr(gp, "preset", lambda name, preset=gp.preset, **settings: preset(name, **smaller(settings)))
    namespace = {}
    for block, line in STEPS.findall(PAGE):
        if line:
            code, _, err = gaussproto(*small_command(line))
            assert code == 0, f"{line}: {err}"
        elif not block.startswith(MODULE):
            exec(block, namespace)

    # What the page promises for each: it answers, resumes and is reported.
    images = gp.load_data(gp.DataConfig(data="my_lab:digits")).train
    X, y = images.images[:, 0].numpy(), np.array(images.classes)[images.labels]
    for name in ("manhattan", "both", "tiny", "digits", "low"):
        clf = gp.GaussianPrototypeClassifier(f"runs/{name}", ink="bright").fit(X[::9], y[::9])
        assert (clf.predict(X[1::20]) == y[1::20]).mean() > 0.3, name  # chance: one in eight
    for line in ("train runs/both --resume --episodes 6", "report runs/tiny --no-evaluate"):
        code, _, err = gaussproto(*line.split())
        assert code == 0, err

    # The objects are the page's own.
    config = gp.load_network("runs/both").config
    assert (config.covariance, config.transform) == ("my_lab:Quarters", "my_lab:InverseVariance")
    assert gp.load_network("runs/both").state_dict()["precision.transform.floor"] != 1.0  # it is learned
    assert gp.load_network("runs/both").embed(images.images[:2]).s.unique(dim=1).shape == (2, 4)
    assert namespace["config"].data.data == "my_lab:digits"
    assert gp.preset("runs/low").data.split is None
    assert gp.preset("runs/digits").data.split.test == tuple(namespace["test"].classes)
    assert namespace["clf"].fit(X[::9], y[::9]).distance == "my_lab:Manhattan"
    for name in ("manhattan", "variance", "both"):
        by_onnx = gp.GaussianPrototypeClassifier(f"{name}.onnx", ink="bright").fit(X[::9], y[::9])
        assert by_onnx.predict(X[:5]).shape == (5,)


def test_what_the_page_says_is_refused(lab):
    sys.path.append(str(lab))
    from my_lab import Manhattan, Tiny, digits

    class Here(gp.Distance):
        pass

    def refused(message):
        return pytest.raises(gp.InputError, match=message)

    with refused("a distance must be a name or a gaussproto.Distance"):
        gp.preset("demo", distance=Manhattan)
    with refused("a distance must be a name"):
        gp.GaussianPrototypeClassifier("identity", distance=Manhattan()).fit([[0.0], [1.0]], [0, 1])
    with refused("cannot import the distance my_lab:Nothing"):
        gp.preset("demo", distance="my_lab:Nothing")
    with refused("cannot import the distance"):
        gp.preset("demo", distance=Here())
    with refused("features must be set for your own encoder my_lab:Tiny"):
        gp.preset("demo", encoder="my_lab:Tiny")
    with refused("features is only for your own encoder"):
        gp.preset("demo", features=256)
    network = gp.GaussianPrototypicalNetwork(gp.NetworkConfig(), backbone=Tiny(), features=256)
    with refused("built-in encoders, small and big, can be exported"):
        gp.export_onnx(network, "tiny.onnx")
    config = gp.preset("demo", init="drawings-small", encoder="my_lab:Tiny", features=256, **SMALL)
    with refused("have the filters"):
        gp.train(config, digits(config.data))
    with refused("has a fixed split"):
        gp.load_data(gp.DataConfig(data="my_lab:low_and_high", split={"test": ["8", "9"]}))
    with refused("images must be a uint8 tensor"):
        gp.LabelledImages.from_labels(torch.zeros(2, 8, 8), ["a", "b"])
