"""The command as a user runs it, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

COMMAND = [str(Path(sys.executable).with_name("gaussproto"))]
TINY = ["--filters", "8,8,8", "--embedding-dim", "8", "--way", "20", "--episodes", "40", "--checkpoint-every", "10"]


def run(*arguments, cwd, code=0, **environment):
    result = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"COLUMNS": "160"} | environment,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def trained(place):
    """A run made by the command itself."""
    run("train", "demo", *TINY, "--out", "runs/tiny", cwd=place)
    return "runs/tiny"


def test_train_then_evaluate(place, trained):
    result = run("evaluate", trained, "--shots", "1,5", cwd=place)
    assert "5-way" in result.stdout
    assert "20-way" in result.stdout
    assert "1-shot" in result.stdout
    assert "±" in result.stdout
    assert "running statistics" in result.stdout
    found = json.loads(run("evaluate", trained, "--shots", "1,5", "--checkpoints", "top", "--json", cwd=place).stdout)
    assert found["checkpoints"] == 4
    assert [(score["way"], score["shot"]) for score in found["scores"]] == [(5, 1), (5, 5), (20, 1), (20, 5)]
    assert all(0.05 < score["accuracy"] < 1 and score["std"] is not None for score in found["scores"])
    run("evaluate", trained, "--ways", "5", "--shots", "2", cwd=place)  # does not take away what is there
    metrics = json.loads((place / trained / "metrics.json").read_text())
    assert [(one["data"], one["norm"], one["checkpoint"]) for one in metrics["evaluations"]] == [
        ("strokes", "running", "last"),
        ("strokes", "running", "top"),
    ]
    assert len(metrics["evaluations"][0]["scores"]) == 5
    assert metrics["evaluations"][1] == found
    assert metrics["training"]["episodes"] == 40


def test_weights_alone_are_enough(place, trained):
    weights = next((place / trained / "checkpoints").glob("episode-*"))
    found = json.loads(run("evaluate", weights, "--shots", "1-3", "--rounds", 1, "--json", cwd=place).stdout)
    assert [score["shot"] for score in found["scores"]] == [1, 2, 3] * 2


def test_batch_statistics(place, trained):
    result = run("evaluate", trained, "--ways", 20, "--shots", 5, "--norm", "batch", "--rounds", 1, cwd=place)
    assert "batch statistics" in result.stdout


def test_report(place, trained):
    result = run("report", trained, "--out", "pages/tiny.html", cwd=place)
    assert result.stdout == ""
    assert "wrote pages/tiny.html" in result.stderr
    page = (place / "pages" / "tiny.html").read_text()
    assert page.startswith("<!doctype html>")
    found = json.loads((place / trained / "metrics.json").read_text())["evaluations"][0]
    assert all(f"{100 * score['accuracy']:.2f} ± {100 * score['interval']:.2f}" in page for score in found["scores"])


def test_json_is_alone_on_stdout(place):
    for arguments in (
        ["data", "--json"],
        ["data", "strokes", "--json"],
        ["presets", "--json"],
        ["presets", "demo", "--json"],
        ["train", "demo", *TINY, "--out", "runs/json", "--json"],
    ):
        result = run(*arguments, cwd=place)
        assert isinstance(json.loads(result.stdout), dict)


def test_data_and_its_contact_sheet(place):
    result = run("data", "strokes", "--sheet", "sheet.png", cwd=place)
    assert "train" in result.stdout
    with Image.open(place / "sheet.png") as sheet:
        assert sheet.width > 300


def test_omniglot_by_command(place, omniglot_root):
    found = json.loads(run("data", "omniglot", "--data-root", omniglot_root, "--verify", "--json", cwd=place).stdout)
    assert found["verified"]
    assert found["train"]["classes"] == 3856
    assert found["test"]["classes"] == 2636


def test_a_folder_of_colour_images(place, characters):
    for c in range(12):
        folder = place / "photos" / characters.classes[c].replace("/", " ")
        folder.mkdir(parents=True)
        for i in range(4 + c % 3):
            image = Image.fromarray(characters.dense[c, i, 0].numpy()).resize((90, 70))
            image.convert("RGB").save(folder / f"{i}.jpg")
    sizes = {"filters": "6,6,6", "embedding-dim": 6, "channels": 3, "image-size": 40, "way": 5, "episodes": 5}
    options = [word for name, value in sizes.items() for word in (f"--{name}", value)]
    run("train", "fast-small-radius", "--data", "photos", *options, "--out", "runs/photos", cwd=place)
    result = run("evaluate", "runs/photos", "--ways", "2,3", cwd=place)
    assert "3-shot" in result.stdout


def test_stop_and_resume_by_command(place):
    settings = [*TINY[:-4], "--episodes", 4000, "--checkpoint-every", 1000]
    process = subprocess.Popen(
        [*COMMAND, "train", "demo", *map(str, settings), "--out", "runs/stopped"],
        cwd=place,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = place / "runs" / "stopped" / "log.jsonl"
    until = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "continue with: gaussproto train runs/stopped --resume" in said
    assert (place / "runs" / "stopped" / "checkpoints" / "last.safetensors").exists()
    result = run("train", "demo", "--out", "runs/stopped", cwd=place, code=2)
    assert "already contains a run" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "demmo"], "did you mean 'demo'"),
        (["train", "demo", "--way", "one"], "--way"),
        (["train", "demo", "--way", "1"], "way must be at least 2 (found 1)"),
        (["train", "demo", "--way", "100000", "--out", "runs/never"], "way must be at most the"),
        (["train", "demo", "--covariance", "round"], "unknown covariance 'round': choose one of none, radius"),
        (["train", "demo", "--data", "nowhere"], "the folder nowhere does not exist"),
        (["train", "demo", "--nonsense", "1"], "--nonsense"),
        (["train", "demo", "--out", "a file"], "a file is a file: choose a folder"),
        (["train"], "PRESET"),
        (["evaluate", "nothing"], "'nothing' is not a run folder, a .safetensors file or bundled weights"),
        (["evaluate", "nothing.safetensors"], "the weights file nothing.safetensors does not exist"),
        (
            ["evaluate", "runs/tiny", "--shots", "few"],
            "--shots must be whole numbers of at most 100,000",
        ),
        (
            ["evaluate", "runs/tiny", "--shots", "5-1"],
            "--shots must be whole numbers of at most 100,000",
        ),
        (["evaluate", "drawings-small", "--checkpoints", "top"], "--checkpoints top needs a run folder"),
        (["evaluate", "runs/tiny", "--shots", "25"], "shots must be from 1 to 19"),
        (["evaluate", "runs/tiny", "--ways", "1"], "ways must be from 2"),
        (["report", "nothing"], "the run folder nothing does not exist"),
        (["report"], "RUN"),
        (["reproduce"], "TARGET"),
        (["reproduce", "nothing"], "the target must be one of verification, results"),
        (["reproduce", "results", "--budget", "huge"], "'--budget': 'huge' is not one of 'quick', 'standard', 'paper'"),
        (["evaluate", "drawings-small", "--challenge", "--views", "2"], "views must be 1 (the image itself) or 5"),
        (["reproduce", "results", "--only", "small-none"], "--only must name rows of results"),
        (["reproduce", "results", "--out", "a file", "--data", "strokes"], "a file is a file: choose a folder"),
        (["data", "nowhere"], "the folder nowhere does not exist"),
        (["data", "strokes", "--sheet", "sheet.gif"], "must end in .png"),
        (["data", "--sheet", "sheet.png"], "--sheet needs the name of the data"),
        (["data", "strokes", "--verify"], "--verify can only check the files of omniglot and cifar-fs"),
        (["presets", "nothing"], "unknown preset"),
        (["fly"], "fly"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(place, trained, arguments, sentence):
    (place / "a file").touch()
    result = run(*arguments, cwd=place, code=2)
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_help_does_not_wait_for_torch(place):
    program = (
        "import sys, gaussproto.cli, gaussproto; "
        "print([m for m in ('torch', 'numpy', 'PIL', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert "evaluate" in run("--help", cwd=place).stdout
    assert "--embedding-dim" in run("train", "--help", cwd=place).stdout


def test_shell_completion(place):
    result = run(cwd=place, _GAUSSPROTO_COMPLETE="complete_bash", COMP_WORDS="gaussproto train fast-sm", COMP_CWORD="2")
    assert "fast-small-radius" in result.stdout


def test_every_public_name_is_there():
    import gaussproto

    for name in dir(gaussproto):
        assert getattr(gaussproto, name) is not None
