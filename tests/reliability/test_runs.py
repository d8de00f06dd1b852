"""Runs: a resumed run is the run that began, whatever happened to its files; nobody else's writes are lost."""

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.config import DataConfig, read_config
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.files import read_json, write_json
from gaussproto.formulas.confidence import Calibration
from gaussproto.presets import preset
from gaussproto.runs import folder
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import CalibrationResult, Evaluation, Score
from gaussproto.runs.weights import write_calibration
from gaussproto.training.train import train

SCORE = Score(way=5, shot=1, accuracy=0.5)
RESULT = Evaluation(norm="running", classes=9, rounds=1, seed=0, checkpoints=1, scores=(SCORE,))


def tiny(**settings):
    defaults = {"filters": (4, 4, 4), "embedding_dim": 4, "way": 5, "episodes": 20, "checkpoint_every": 10}
    return preset("demo", **(defaults | settings))


@pytest.fixture
def stopped(characters, tmp_path):
    """A run that was stopped at episode 10: a longer run whose last files are those of a shorter one."""
    train(tiny(episodes=10), characters, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    config = tiny().with_data(read_config(run.config).data)
    write_json(run.config, config.model_dump(mode="json"))
    file = read_arrays(run.last, "checkpoint", "pt")
    write_arrays(run.last, file.arrays, file.metadata | {"config": config.model_dump_json()})
    run.metrics.unlink()
    return run


CHANGES = [
    ("network", "embedding_dim", 5),
    ("network", "distance", "cosine"),
    ("network", "weighting", "prototype_and_distance"),
    ("training", "learning_rate", 0.1),
    ("training", "seed", 1),
    ("episode", "way", 6),
    ("episode", "shot", 2),
]


@pytest.mark.parametrize(("section", "name", "value"), CHANGES)
def test_a_changed_config_is_refused_and_the_checkpoint_stays(stopped, characters, section, name, value):
    before = stopped.last.read_bytes()
    config = read_json(stopped.config)
    config[section][name] = value
    stopped.config.write_text(json.dumps(config))  # by hand, without a checksum
    with pytest.raises(InputError, match=rf"does not have the settings .* was trained with \({name} was .* is now"):
        train(read_config(stopped.config), characters, stopped.path, resume=True)
    assert stopped.last.read_bytes() == before


def test_a_flipped_digit_in_the_config_is_refused(stopped, characters):
    stopped.config.write_text(stopped.config.read_text().replace('"way": 5', '"way": 6'))
    with pytest.raises(InputError, match=r"config\.json has changed since gaussproto wrote it"):
        train(tiny(), characters, stopped.path, resume=True)


def test_other_pixels_are_refused(stopped, characters):
    noise = torch.randint(256, characters.images.shape, dtype=torch.uint8)
    with pytest.raises(InputError, match="the training images have changed since the run"):
        train(tiny(), replace(characters, images=noise), stopped.path, resume=True)
    assert train(tiny(), characters, stopped.path, resume=True).episodes == 20


def test_a_run_of_before_resumes_by_the_names_of_its_images(stopped, characters):
    file = read_arrays(stopped.last, "checkpoint", "pt")
    position = json.loads(file.metadata["position"]) | {"images": characters.fingerprint(pixels=False)}
    write_arrays(stopped.last, file.arrays, file.metadata | {"position": json.dumps(position)})
    assert train(tiny(), characters, stopped.path, resume=True).episodes == 20


def test_a_start_that_was_killed_in_its_first_write_can_start_again(characters, tmp_path):
    (tmp_path / "run").mkdir()
    for name in (".lock", ".config.json.1a2b3c4d.part"):
        (tmp_path / "run" / name).touch()
    assert train(tiny(), characters, tmp_path / "run").episodes == 20
    assert not list((tmp_path / "run").glob("*.part"))


def test_files_of_something_else_are_still_respected(characters, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_mother.txt").touch()
    with pytest.raises(InputError, match="contains files, but no run"):
        train(tiny(), characters, tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["to_mother.txt"]  # and no lock


@pytest.mark.parametrize("content", [None, "{", '{"test": ["x", "y"]}'])
def test_a_missing_or_damaged_split_is_written_again(stopped, characters, content):
    """A kill between the two writes leaves config.json alone."""
    split = {"train": list(characters.classes[:5]), "test": list(characters.classes[5:9])}
    config = read_json(stopped.config)
    config["data"]["split"] = split
    write_json(stopped.config, config)
    file = read_arrays(stopped.last, "checkpoint", "pt")
    write_arrays(stopped.last, file.arrays, file.metadata | {"config": json.dumps(config)})
    if content is not None:
        stopped.split.write_text(content)
    train(read_config(stopped.config), replace(characters, source=None), stopped.path, resume=True)
    assert read_json(stopped.split) == split


def _start(place: Path, seed: int, barrier, results) -> None:
    torch.set_num_threads(1)
    images = load_data(DataConfig(data="strokes", rotations=False)).test.select(range(6))
    config = tiny(seed=seed, episodes=1, rotations=False)
    for i in range(8):
        barrier.wait()
        try:
            train(config, images, place / str(i))
            results.put((i, seed))
        except InputError:
            results.put((i, None))


def test_of_two_that_start_at_once_one_wins_with_its_own_settings(tmp_path):
    load_data(DataConfig(data="strokes", rotations=False))  # into the cache
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(2), spawn.Queue()
    starts = [spawn.Process(target=_start, args=(tmp_path, seed, barrier, results)) for seed in (1, 2)]
    for process in starts:
        process.start()
    answers = [results.get(timeout=120) for _ in range(16)]
    for process in starts:
        process.join()
    for i in range(8):
        (winner,) = [seed for run, seed in answers if run == i and seed is not None]
        run = RunFolder(tmp_path / str(i))
        assert read_config(run.config).training.seed == winner
        assert read_config(run.config) == preset(str(run.path))
        assert run.read_metrics().training.seed == winner


ADD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.reliability.test_runs import add
add(Path(sys.argv[1]), int(sys.argv[2]))
"""


def add(path: Path, worker: int) -> None:
    for i in range(10):
        RunFolder(path).write_evaluation(f"data {worker} {i}", "last", [], RESULT)


def test_scores_that_several_processes_add_are_all_there(stopped):
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", ADD, str(stopped.path)]
    workers = [subprocess.Popen([*command, str(i), root]) for i in range(4)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 4
    assert len(stopped.read_metrics().evaluations) == 40


def test_scores_and_calibration_of_the_last_weights_survive_a_late_summary(characters, tmp_path):
    """A kill between the last checkpoint and the summary leaves a run without metrics.json, which can be scored."""
    train(tiny(), characters, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    checkpoint = load_checkpoint(run.last)
    run.metrics.unlink()
    run.write_evaluation("mine", "last", [checkpoint], RESULT)
    old = replace(checkpoint, position=replace(checkpoint.position, episode=10))
    run.write_evaluation("earlier", "last", [old], RESULT)
    calibration = Calibration(temperature=2.0, thresholds=(1.0,) * 9, classes=5, held_out=True)
    write_calibration(run.last, calibration)
    run.write_metrics(calibration=CalibrationResult(target="x", seed=0, calibration=calibration, measured=()))
    train(tiny(), characters, run.path, resume=True)
    metrics = run.read_metrics()
    assert [each.data for each in metrics.evaluations] == ["mine"]
    assert metrics.calibration is not None
    train(tiny(episodes=30), characters, run.path, resume=True, lengthen=True)  # other weights
    metrics = run.read_metrics()
    assert (metrics.evaluations, metrics.calibration) == ((), None)


def test_late_scores_of_earlier_weights_do_not_replace_those_of_later_ones(stopped):
    later = load_checkpoint(stopped.last)
    earlier = replace(later, position=replace(later.position, episode=5))
    stopped.write_evaluation("mine", "last", [later], RESULT)
    with pytest.raises(InputError, match=r"has scores of \(10,\) episodes, and these are of \(5,\)"):
        stopped.write_evaluation("mine", "last", [earlier], RESULT)
    assert stopped.read_metrics().evaluations[0].episodes == (10,)


def test_a_kept_checkpoint_that_training_has_just_removed_is_looked_for_again(stopped, monkeypatch):
    gone = [[stopped.kept(7)], [stopped.kept(7)]]
    find = folder.find_weights
    monkeypatch.setattr(folder, "find_weights", lambda *args: gone.pop() if gone else find(*args))
    assert [each.position.episode for each in folder.load_checkpoints(str(stopped.path), "top")] == [10]
    monkeypatch.setattr(folder, "find_weights", lambda *args: [stopped.kept(7)])
    with pytest.raises(InputError, match=r"episode-000007\.safetensors does not exist"):
        folder.load_checkpoints(str(stopped.path), "top")


FIRST = "optimizer/encoder.blocks.0.conv.weight/"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (f"{FIRST}exp_avg", torch.zeros(1)),
        (f"{FIRST}exp_avg_sq", torch.full((4, 1, 3, 3), -1.0)),
        (f"{FIRST}exp_avg", torch.full((4, 1, 3, 3), torch.nan)),
        (f"{FIRST}step", torch.tensor(3)),
        (f"{FIRST}step", None),
        ("optimizer/", None),
        ("generator", None),
        ("generator", torch.zeros(10, dtype=torch.uint8)),
        ("generator", torch.full((5056,), 255, dtype=torch.uint8)),
    ],
)
def test_a_checkpoint_without_the_state_of_its_training_is_not_resumed(stopped, characters, name, value):
    """A moment of another shape made the optimizer read beyond the end of its memory."""
    file = read_arrays(stopped.last, "checkpoint", "pt")
    tensors = {key: t for key, t in file.arrays.items() if not key.startswith(name)}
    tensors |= {} if value is None else {name: value}
    write_arrays(stopped.last, tensors, file.metadata)
    before = stopped.last.read_bytes()
    with pytest.raises(InputError, match="cannot resume from"):
        train(tiny(), characters, stopped.path, resume=True)
    assert stopped.last.read_bytes() == before


def test_leftovers_of_a_killed_run_are_removed_when_it_resumes(stopped, characters):
    parts = [stopped.checkpoints / ".episode-000007.safetensors.1a2b3c4d.part", stopped.path / ".log.jsonl.1.part"]
    being_written = stopped.path / ".metrics.json.5e6f7a8b.part"
    for part in (*parts, being_written):
        part.touch()
    train(tiny(), characters, stopped.path, resume=True)
    assert [part.exists() for part in (*parts, being_written)] == [False, False, True]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become a user who may not write")
def test_scores_of_a_run_that_cannot_be_written_are_printed(characters, tmp_path):
    config = tiny(rotations=False)
    train(config, load_data(config.data).train.select(range(40)), tmp_path / "run")
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.name.startswith("pytest"):
            path.chmod(0o755)
    command = "from gaussproto.cli import main; main()"
    arguments = ["evaluate", str(tmp_path / "run"), "--data", "strokes", "--ways", "5", "--shots", "1", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.setgid(65534); os.setuid(65534); {command}", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "GAUSSPROTO_CACHE": str(tmp_path / "none")},
    )  # fmt: skip
    if "ModuleNotFoundError" in done.stderr or "Permission denied" in done.stderr.partition("warning")[0]:
        pytest.skip("another user cannot read this installation")
    assert done.returncode == 0, done.stderr
    assert "1-shot" in done.stdout
    assert "the scores are not saved: cannot write" in " ".join(done.stderr.split())
