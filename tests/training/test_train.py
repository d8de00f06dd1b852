import json
import os
import signal
import subprocess
import sys
import time
from itertools import combinations

import pytest
import torch
from safetensors.torch import load_file

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.config import Stage
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study
from gaussproto.model.network import Precision
from gaussproto.presets import preset
from gaussproto.provenance import machine
from gaussproto.runs.checkpoint import load_checkpoint, save_checkpoint
from gaussproto.runs.folder import RunFolder, load_network
from gaussproto.runs.metrics import CurvePoint
from gaussproto.training.step import learning_rate
from gaussproto.training.train import DeadPrecisionWarning, TrainingDiverged, train
from tests.conftest import add_scores, as_strokes


def tiny(**settings):
    """A run of a second or two."""
    small = {"filters": "8,8,8", "embedding_dim": 8, "way": 10, "splits": 2, "episodes": 40, "checkpoint_every": 10}
    return preset("fast-small-radius", **small | settings)


def weights(folder):
    return load_file(folder / "checkpoints" / "last.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_it_learns(characters, tmp_path):
    result = train(tiny(episodes=150, learning_rate=0.005), characters, tmp_path / "run")
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["episode"] for record in log] == list(range(10, 151, 10))
    assert not result.network.training
    assert log[-1]["accuracy"] > log[0]["accuracy"] + 0.15
    assert log[-1]["loss"] < log[0]["loss"]
    assert evaluate(result.network, characters, ways=[5], shots=[1], rounds=1).scores[0].accuracy > 0.5  # chance: 0.2


def test_run_folder(characters, tmp_path):
    config = tiny(checkpoint_every=5, keep=3)
    train(config, characters, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").glob("[!.]*")) == [
        "checkpoints",
        "config.json",
        "log.jsonl",
        "metrics.json",
    ]
    assert preset(str(tmp_path / "run")) == config.with_data(characters.config)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())["training"]
    assert metrics["episodes"] == 40
    kept = sorted((tmp_path / "run" / "checkpoints").glob("episode-*"))
    assert len(kept) == 3
    assert {path.name for path in kept} == {f"episode-{e['episode']:06d}.safetensors" for e in metrics["kept"]}


def test_the_kept_checkpoints_have_the_highest_training_accuracy(characters, tmp_path):
    window = []
    config = tiny(episodes=80, checkpoint_every=10, keep=3)
    train(config, characters, tmp_path / "run", on_log=lambda record: window.append(record.accuracy))
    seen = {10 * (i + 1): accuracy for i, accuracy in enumerate(window)}
    best = sorted(seen, key=lambda episode: (seen[episode], episode), reverse=True)[:3]
    kept = [int(path.stem[-6:]) for path in (tmp_path / "run" / "checkpoints").glob("episode-*")]
    assert sorted(kept) == sorted(best)


def test_checkpoints_are_what_the_network_was_then(characters, tmp_path):
    """Best means best, not last."""
    train(tiny(episodes=40, keep=99), characters, tmp_path / "all")
    early = load_file(tmp_path / "all" / "checkpoints" / "episode-000010.safetensors")
    late = load_file(tmp_path / "all" / "checkpoints" / "episode-000040.safetensors")
    assert not same(early, late)
    network = load_network(tmp_path / "all")
    assert all(torch.equal(late[name], value) for name, value in network.state_dict().items())


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_same_seed_same_weights(characters, tmp_path, covariance):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tiny(episodes=5, seed=seed, covariance=covariance), characters, tmp_path / name)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_snapshots_are_evenly_spaced(characters, tmp_path):
    config = tiny(episodes=20, checkpoint_every=5, snapshots=4)
    train(config, characters, tmp_path / "run")
    snapshots = sorted((tmp_path / "run" / "checkpoints").glob("snapshot-*"))
    assert [int(path.stem[-6:]) for path in snapshots] == [5, 10, 15, 20]
    assert load_checkpoint(snapshots[1]).position.episode == 10
    assert len({load_file(path)["encoder.blocks.0.conv.weight"].sum().item() for path in snapshots}) == 4


def test_a_snapshot_between_checkpoints_has_the_transform_of_its_stage(characters, tmp_path):
    config = tiny(snapshots=4, checkpoint_every=50)
    stages = (Stage(episodes=4), Stage(episodes=4, transform="learned_softplus"))
    config = config.model_copy(update={"training": config.training.model_copy(update={"stages": stages})})
    train(config, characters, tmp_path)
    found = [load_checkpoint(path).network().config.transform for path in RunFolder(tmp_path).snapshots()]
    assert found == ["softplus", "softplus", "learned_softplus", "learned_softplus"]


@pytest.mark.parametrize(("snapshots", "episodes"), [(0, 10), (1, 10), (3, 10), (10, 10), (7, 100)])
def test_as_many_snapshots_as_asked(snapshots, episodes):
    training = tiny(episodes=episodes, snapshots=snapshots).training
    taken = [episode for episode in range(1, episodes + 1) if training.takes_snapshot(episode)]
    assert len(taken) == snapshots
    assert not taken or taken[-1] == episodes


def test_distorted_images_train_another_network(characters, tmp_path):
    """And a network that was stopped and resumed is the same, with every kind of augmentation."""
    changes = {"distort": 0.5, "flip": True, "random_crop": 20, "jitter": 0.3, "weight_decay": 0.1}
    runs = {"plain": {}, "all": changes} | {name: {name: value} for name, value in changes.items()}
    for name, settings in runs.items():
        train(tiny(episodes=2, schedule="constant", **settings), characters, tmp_path / name)
    assert not any(same(weights(tmp_path / a), weights(tmp_path / b)) for a, b in combinations(runs, 2))
    longer = tiny(episodes=3, schedule="constant", **changes)
    train(longer, characters, tmp_path / "all", resume=True, lengthen=True)
    train(longer, characters, tmp_path / "whole")
    assert same(weights(tmp_path / "all"), weights(tmp_path / "whole"))


def test_the_global_seed_is_left_alone(characters, tmp_path):
    before = torch.random.get_rng_state()
    train(tiny(episodes=3), characters, tmp_path / "run")
    assert torch.equal(before, torch.random.get_rng_state())


STAGED = (
    Stage(episodes=14),
    Stage(episodes=13, transform="learned_softplus", damage=((7, 0.3), (14, 0.2))),
    Stage(episodes=13, transform="learned_softplus", damage=((5, 0.1),)),
)


def staged():
    config = tiny(covariance="diagonal", max_shot=3, splits=2, schedule="halving", halve_every=9)
    return config.model_copy(update={"training": config.training.model_copy(update={"stages": STAGED})})


@pytest.mark.parametrize("stop_at", [7, 10, 14, 15, 33])
def test_a_stopped_run_goes_on_bit_for_bit(characters, tmp_path, stop_at, monkeypatch):
    """Stopped by a signal anywhere, also at a change of stage; weights, moments, generator and log are the same."""
    train(staged(), characters, tmp_path / "whole")

    def rate_and_signal(training, episode):
        if episode == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return learning_rate(training, episode)

    monkeypatch.setattr("gaussproto.training.train.learning_rate", rate_and_signal)
    stopped = train(staged(), characters, tmp_path / "parts")
    monkeypatch.undo()
    assert stopped.stopped_by is signal.SIGTERM
    assert stopped.episodes == stop_at + 1
    ended = train(staged(), characters, tmp_path / "parts", resume=True)
    assert ended.stopped_by is None
    assert ended.network.config.transform == "learned_softplus"
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    assert [_without_time(line) for line in logs[0]] == [_without_time(line) for line in logs[1]]


def _without_time(line):
    return {key: value for key, value in json.loads(line).items() if key not in ("seconds", "crc32")}


PROGRAM = """
import sys
from gaussproto.data.strokes import strokes
from gaussproto.presets import preset
from gaussproto.training.train import train
config = preset(sys.argv[1])
train(config, strokes(alphabets=4), sys.argv[2], resume=True)
"""


def test_a_killed_run_goes_on_bit_for_bit(characters, tmp_path):
    """kill -9 at no chosen moment, several times, in a process of its own."""
    config = tiny(episodes=400, checkpoint_every=7, snapshots=5, covariance="radius", max_shot=2, damage="7:0.2")
    train(config, characters, tmp_path / "whole")
    (tmp_path / "config.json").write_text(config.model_dump_json())
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "config.json"), str(tmp_path / "parts")]
    log = tmp_path / "parts" / "log.jsonl"
    kills = 0
    for goal in (30, 150, 290):
        process = subprocess.Popen(command)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if log.exists() and _last_episode(log) >= goal:
                process.kill()
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
    assert kills >= 2, "it ended before it could be killed"
    subprocess.run(command, check=True, timeout=120)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    kept = [{path.name for path in (tmp_path / name / "checkpoints").iterdir()} for name in ("whole", "parts")]
    assert kept[0] == kept[1]
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    assert [_without_time(line) for line in logs[0]] == [_without_time(line) for line in logs[1]]


def _last_episode(log):
    lines = log.read_text().splitlines()
    try:
        return json.loads(lines[-1])["episode"] if lines else 0
    except json.JSONDecodeError:
        return 0


def test_two_processes_do_not_train_in_one_folder(characters, tmp_path):
    config = tiny(episodes=20)
    refused = []

    def another(record):
        with pytest.raises(InputError, match="another process is using"):
            train(config, characters, tmp_path / "run", resume=True)
        refused.append(record.episode)

    train(config, characters, tmp_path / "run", on_log=another)
    assert refused == [10, 20]
    train(config, characters, tmp_path / "alone")
    assert same(weights(tmp_path / "run"), weights(tmp_path / "alone"))


@pytest.mark.parametrize("writes", range(9))
def test_killed_between_two_files_it_still_makes_them_all(characters, tmp_path, writes, monkeypatch):
    config = tiny(episodes=12, checkpoint_every=4, snapshots=3)
    train(config, characters, tmp_path / "whole")

    class Killed(BaseException):
        pass

    left = iter(range(writes))

    def save_or_die(*args):
        if next(left, None) is None:
            raise Killed
        save_checkpoint(*args)

    monkeypatch.setattr("gaussproto.training.train.save_checkpoint", save_or_die)
    with pytest.raises(Killed):
        train(config, characters, tmp_path / "killed")
    monkeypatch.undo()
    train(config, characters, tmp_path / "killed", resume=True)
    files = {name: sorted((tmp_path / name / "checkpoints").iterdir()) for name in ("whole", "killed")}
    assert len(files["whole"]) == 7  # three kept, three snapshots, the last
    for one, other in zip(*files.values(), strict=True):
        assert one.name == other.name
        assert same(load_file(one), load_file(other))


def test_a_log_cut_in_the_middle_of_a_line_is_mended(characters, tmp_path):
    train(tiny(), characters, tmp_path / "run")
    with (tmp_path / "run" / "log.jsonl").open("a") as file:
        file.write('{"episode": 50, "los')
    train(tiny(), characters, tmp_path / "run", resume=True)
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["episode"] for line in lines] == [10, 20, 30, 40]


def test_resuming_a_finished_run_changes_nothing(characters, tmp_path):
    train(tiny(), characters, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    add_scores(run, evaluate(load_network(run.path), characters, (5,), (1,)))
    before, metrics = weights(tmp_path / "run"), run.read_metrics()
    assert train(tiny(), characters, tmp_path / "run", resume=True).episodes == 40
    assert same(before, weights(tmp_path / "run"))
    assert run.read_metrics() == metrics


def test_scores_from_before_the_end_are_not_those_of_the_run(characters, tmp_path):
    run = RunFolder(tmp_path / "run")

    def look(record):
        if record.episode == 30:  # the weights of episode 20 are there
            add_scores(run, evaluate(load_network(run.path), characters, (5,), (1,)))
            run.write_metrics(damage=damage_study(load_network(run.path), characters, way=5, shot=1, rounds=1))
            run.write_metrics(curve=(CurvePoint(episode=20, scores=()),))

    train(tiny(), characters, run.path, on_log=look)
    metrics = run.read_metrics()
    assert (metrics.evaluations, metrics.damage, len(metrics.curve)) == ((), None, 1)
    assert metrics.training.threads == (torch.get_num_threads(),)
    assert metrics.machine == machine()


def test_a_run_is_not_overwritten_nor_mixed(characters, tmp_path):
    train(tiny(episodes=2), characters, tmp_path / "run")
    with pytest.raises(InputError, match="already contains a run: continue it with --resume"):
        train(tiny(episodes=2), characters, tmp_path / "run")
    with pytest.raises(InputError, match=r"other settings \(.*way was 10 and is now 9\): to resume it"):
        train(tiny(episodes=2, way=9), characters, tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="the training images have changed since the run"):
        train(tiny(episodes=2), as_strokes(characters.select(range(30))), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="device 'gpu' is not available on this machine: choose cpu"):
        train(tiny(), characters, tmp_path / "other", device="gpu")
    assert not (tmp_path / "other").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="contains files, but no run"):
        train(tiny(), characters, tmp_path / "mine")


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_a_loss_that_is_no_number_stops_with_the_last_good_checkpoint(characters, tmp_path, covariance):
    with pytest.raises(TrainingDiverged, match=r"diverged at episode \d+ \(.*last\.safetensors\): train again"):
        train(
            tiny(
                covariance=covariance,
                learning_rate=1e30,
                schedule="constant",
                distance="squared_euclidean",
                checkpoint_every=1,
            ),
            characters,
            tmp_path / "run",
        )
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert checkpoint.position.episode >= 1
    assert all(bool(torch.isfinite(value).all()) for value in checkpoint.tensors.values())


def test_a_dead_precision_is_said_once(characters, tmp_path, monkeypatch):
    """The raw precision is 0 for every image, as behind a ReLU that never opens."""
    original = Precision.forward
    monkeypatch.setattr(Precision, "forward", lambda self, s_raw: original(self, s_raw * 0))
    with pytest.warns(DeadPrecisionWarning, match=r"every image has the same precision \(1\.693 at episode") as caught:
        train(tiny(episodes=140, covariance="radius"), characters, tmp_path / "run")
    assert len([warning for warning in caught if warning.category is DeadPrecisionWarning]) == 1


def test_a_live_precision_is_logged(characters, tmp_path):
    train(tiny(covariance="diagonal", precision_relu=False), characters, tmp_path / "run")
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["precision_mean"] > 1
    assert last["precision_std"] > 0.01
    train(tiny(covariance="none"), characters, tmp_path / "vanilla")
    assert '"precision_mean":null' in (tmp_path / "vanilla" / "log.jsonl").read_text()


def test_a_damaged_line_of_the_log_costs_only_itself(characters, tmp_path):
    config = tiny(episodes=40)
    train(config, characters, tmp_path / "run")
    log = tmp_path / "run" / "log.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], lines[1][:30], "3", *lines[2:]]) + "\n")
    with pytest.warns(UserWarning, match="has 2 damaged lines"):
        train(config, characters, tmp_path / "run", resume=True)
    assert [record.episode for record in RunFolder(tmp_path / "run").read_log()] == [10, 30, 40]
    before = RunFolder(tmp_path / "run").read_metrics().training
    log.write_text("")
    with pytest.warns(UserWarning, match="has no line for episode 40: curves have a gap"):
        train(config, characters, tmp_path / "run", resume=True)
    assert RunFolder(tmp_path / "run").read_metrics().training == before  # the checkpoint knows the last loss


def test_schedules():
    def rates(schedule, episodes=(0, 50, 99)):
        config = preset("demo", episodes=100, schedule=schedule, halve_every=40, learning_rate=1.0).training
        return [learning_rate(config, episode) for episode in episodes]

    assert rates("constant") == [1, 1, 1]
    assert rates("halving") == [1, 0.5, 0.25]
    assert rates("cosine") == pytest.approx([1, 0.5, 0], abs=1e-3)


def test_weights_of_something_else_are_refused(tmp_path):
    from safetensors.torch import save_file

    with pytest.raises(InputError, match=r"the weights file .* does not exist"):
        load_network(tmp_path / "nothing.safetensors")
    (tmp_path / "text.safetensors").write_text("I am text")
    with pytest.raises(InputError, match="is not a weights file"):
        load_network(tmp_path / "text.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="no weights of an image network"):
        load_network(tmp_path / "other.safetensors")


def test_weights_of_another_version_are_refused(weights):
    def rewritten(**changes):
        file = read_arrays(weights, "weights file")
        write_arrays(weights.with_name("changed.safetensors"), file.arrays, file.metadata | changes)
        return weights.with_name("changed.safetensors")

    newer = json.dumps({"transform": "softplus", "colour": "green"})
    for position, words in (
        (newer, "another version of gaussproto"),
        ("{", "Expecting property name"),
        ("3", "found 3"),
    ):
        with pytest.raises(InputError, match=words):
            load_checkpoint(rewritten(position=position))
    with pytest.raises(InputError, match=r"changed\.safetensors was written by another version of gaussproto .*colour"):
        load_checkpoint(rewritten(config=json.dumps({"name": "x", "colour": "red"})))
