"""What a new user types first, and types wrong first."""

import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console

import gaussproto
from gaussproto.presets import PRESETS
from gaussproto.provenance import version

COMMAND = str(Path(sys.executable).with_name("gaussproto"))


def test_the_bare_command_shows_what_there_is(gaussproto):
    code, out, err = gaussproto()
    assert (code, err) == (0, "")
    for command in ("classify", "train", "evaluate", "report"):
        assert command in out
    assert gaussproto("--help")[1] == out


def test_the_version(gaussproto):
    assert gaussproto("--version") == (0, f"gaussproto {version()}\n", "")


def test_names_of_presets_do_not_break_in_a_narrow_terminal(gaussproto, monkeypatch):
    monkeypatch.setattr("gaussproto.cli.console.out", Console(width=80, force_terminal=True, color_system=None))
    _, shown, _ = gaussproto("presets")
    for name in PRESETS:
        assert f" {name} " in shown
    assert max(map(len, shown.splitlines())) == 80


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "demo"),
        ("evaluate", "drawings-small", "--data", "strokes"),
        ("calibrate", "drawings-small"),
        ("report", "{run}"),
        ("classify", "--support", "{folder}", "{folder}/a/0.png"),
        ("enroll", "new.gallery", "{folder}"),
        ("reproduce", "verification", "--budget", "quick", "--data", "strokes"),
    ],
)
@pytest.mark.parametrize("device", ["mps", "gpu"])
def test_a_device_that_is_not_there_is_one_sentence(
    gaussproto, tmp_path, monkeypatch, weights, characters, arguments, device
):
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has the device mps")
    monkeypatch.chdir(tmp_path)
    for c, name in enumerate("ab"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        Image.fromarray(characters.dense[c, 0, 0].numpy()).save(tmp_path / "mine" / name / "0.png")
    places = {"run": weights.parents[1], "folder": tmp_path / "mine"}
    filled = [argument.format(**places) for argument in arguments]
    code, out, err = gaussproto(*filled, "--device", device)
    assert (code, out) == (2, "")
    assert f"gaussproto: device {device!r} is not available on this machine: choose cpu" in err.splitlines()[-1]
    assert not (tmp_path / "new.gallery").exists()


def test_onnx_computes_on_the_cpu(gaussproto, tmp_path):
    (tmp_path / "a").mkdir()
    image = tmp_path / "a" / "0.png"
    Image.new("L", (28, 28)).save(image)
    code, _, err = gaussproto("classify", "--support", tmp_path, image, "--engine", "onnx", "--device", "cuda")
    assert code == 2
    assert "engine onnx runs only on the cpu (found device 'cuda')" in err


def test_help_lists_the_public_names():
    text = pydoc.plain(pydoc.render_doc(gaussproto))
    for name in gaussproto.__all__:
        assert name in text


def test_own_modules_are_found_in_the_current_folder(tmp_path):
    (tmp_path / "my_lab.py").write_text("def signs(config):\n    return 'nothing'\n")
    result = subprocess.run(
        [COMMAND, "data", "my_lab:signs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert "my_lab:signs must return one LabelledImages object" in result.stderr
