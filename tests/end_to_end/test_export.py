"""`gaussproto export` and `classify --engine onnx` as a user runs them."""

import json
import subprocess
import sys

import pytest

from tests.end_to_end.test_classify import ENCODER, place  # noqa: F401 (a fixture)
from tests.end_to_end.test_cli import run

pytest.importorskip("onnx", reason="needs the extra: pip install 'gaussproto[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'gaussproto[onnx]'")

WITHOUT_TORCH = """
import sys
from gaussproto.cli import main
try:
    main()
finally:
    print([name for name in ("torch", "matplotlib") if name in sys.modules], file=sys.stderr)
"""


@pytest.fixture(scope="module")
def exported(place):  # noqa: F811
    said = run("export", "weights.safetensors", "encoder.onnx", cwd=place)
    assert "embedding" in said.stdout
    assert "precision" in said.stdout
    assert "encoder.onnx" in said.stderr
    return place


def test_the_same_answers_without_torch(exported):
    torch_says = json.loads(run("classify", "--support", "support", *ENCODER, "asked", "--json", cwd=exported).stdout)
    run("enroll", "torch.gallery", "support", *ENCODER, cwd=exported)
    for arguments in (
        ["classify", "--encoder", "encoder.onnx", "--support", "support"],
        ["classify", "--engine", "onnx", *ENCODER, "--support", "support"],
        ["classify", "--engine", "onnx", "--gallery", "torch.gallery"],
        ["classify", "--encoder", "encoder.onnx", "--gallery", "torch.gallery"],
    ):
        command = [sys.executable, "-c", WITHOUT_TORCH, *arguments, "asked", "--json"]
        done = subprocess.run(command, cwd=exported, capture_output=True, text=True, check=True)
        assert done.stderr == "[]\n"
        found = json.loads(done.stdout)
        assert found["classes"] == 4
        for mine, theirs in zip(found["images"], torch_says["images"], strict=True):
            assert mine["image"] == theirs["image"]
            assert [one["label"] for one in mine["top"]] == [one["label"] for one in theirs["top"]]
            for a, b in zip(mine["top"], theirs["top"], strict=True):
                assert a["probability"] == pytest.approx(b["probability"], rel=1e-3, abs=1e-5)


def test_a_gallery_grows_with_either_engine(exported):
    by_onnx = run("enroll", "both.gallery", "support", "--encoder", "encoder.onnx", "--json", cwd=exported)
    assert json.loads(by_onnx.stdout)["added"] == 20
    by_torch = json.loads(run("enroll", "both.gallery", "support", *ENCODER, "--json", cwd=exported).stdout)
    assert (by_torch["added"], by_torch["known"]) == (0, 20)
    more = run("enroll", "both.gallery", "more", "--engine", "onnx", "--json", cwd=exported)
    assert json.loads(more.stdout)["classes"] == 5


def test_as_json(exported):
    found = json.loads(run("export", "weights.safetensors", "again.onnx", "--json", cwd=exported).stdout)
    assert found["path"] == "again.onnx"
    assert found["inputs"] == {"images": ["N", 1, "H", "W"]}
    assert found["outputs"] == {"embedding": ["N", 16], "precision": ["N", 1]}
    assert 0 <= found["difference"] < 1e-4
    assert found["bytes"] == (exported / "again.onnx").stat().st_size
    assert (exported / "again.onnx").read_bytes() == (exported / "encoder.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", "weights.safetensors", "new.txt"], "must end in .onnx"),
        (["export", "nothing", "new.onnx"], "'nothing' is not a run folder, a .safetensors file or bundled weights"),
        (["export", "identity", "new.onnx"], "'identity' is not a run folder"),
        (["classify", "--engine", "torch", "--encoder", "encoder.onnx", "--support", "support", "asked"], "ONNX file"),
        (["classify", "--encoder", "nowhere.onnx", "--support", "support", "asked"], "the ONNX file"),
        (["classify", "--engine", "tf", "--support", "support", "asked"], "--engine"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(exported, arguments, sentence, monkeypatch, gaussproto):
    monkeypatch.chdir(exported)
    code, out, said = gaussproto(*arguments)
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1
    assert out == ""
    assert not list(exported.glob("new.*"))
