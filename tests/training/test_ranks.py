"""A step of several episodes is the same on one process and on several, which torchrun starts here."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from gaussproto.config import NetworkConfig, RunConfig, TrainingConfig
from gaussproto.errors import InputError, ReportedElsewhere
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.presets import preset
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.training.learn import generator_of
from gaussproto.training.ranks import LostRank, Ranks, use_threads
from gaussproto.training.step import add_gradient, step
from gaussproto.training.train import train

WAY, COUNT = 5, 3


class Recorder(Ranks):
    """A rank that keeps what it would send to the others."""

    def add_up(self, tensors):
        self.sent = [tensor.clone() for tensor in tensors]


@pytest.fixture
def network():
    torch.manual_seed(0)
    return GaussianPrototypicalNetwork(NetworkConfig(filters=(4, 4, 4), embedding_dim=4, covariance="radius")).double()


@pytest.fixture
def episodes():
    return [(i, torch.rand(15, 1, 28, 28, dtype=torch.float64), [1, 2]) for i in range(COUNT)]


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sgd(network):
    return torch.optim.SGD(network.parameters(), lr=0.1)


def statistics(network):
    return [buffer for name, buffer in network.named_buffers() if name.endswith(("running_mean", "running_var"))]


def test_a_step_takes_the_mean_of_the_gradients_and_of_the_running_statistics(network, episodes):
    alone = [deepcopy(network) for _ in episodes]
    for copy, (_, batch, shots) in zip(alone, episodes, strict=True):
        add_gradient(copy, batch, WAY, shots)
    step(network, sgd(network), episodes, WAY, COUNT)
    for parameter, *each in zip(network.parameters(), *(copy.parameters() for copy in alone), strict=True):
        expected = sum(one.grad for one in each) / COUNT
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-12, atol=1e-15)
    for buffer, *each in zip(statistics(network), *map(statistics, alone), strict=True):
        torch.testing.assert_close(buffer, sum(each) / COUNT, rtol=1e-12, atol=1e-15)
    assert {int(network.get_buffer(f"encoder.blocks.{i}.norm.num_batches_tracked")) for i in range(4)} == {1}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_ranks_sum_to_the_step_of_one_process(network, episodes, size):
    """In float64, also if the ranks have different numbers of episodes, or none."""
    sent = []
    for rank in range(size):
        recorder = Recorder(rank, size if size > 1 else 2)
        copy = deepcopy(network)
        step(copy, sgd(copy), episodes[rank::size], WAY, COUNT, recorder)
        sent.append(recorder.sent)
    rows = step(network, sgd(network), episodes, WAY, COUNT)
    expected = [*(p.grad for p in network.parameters()), *(COUNT * buffer for buffer in statistics(network)), rows]
    for ours, *theirs in zip(expected, *sent, strict=True):
        torch.testing.assert_close(sum(theirs), ours, rtol=1e-12, atol=1e-14)


def tiny(**settings):
    small = {"filters": "4,4,4", "embedding_dim": 4, "way": 5, "splits": 2, "episodes": 41, "checkpoint_every": 10}
    return preset("demo", **small | settings)


def test_an_episode_has_its_own_random_numbers_whoever_computes_it():
    draws = {(seed, n): torch.rand(2, generator=generator_of(seed, n)).tolist() for seed in (0, 1) for n in range(50)}
    assert len({*map(tuple, draws.values())}) == 100
    assert torch.rand(2, generator=generator_of(1, 7)).tolist() == draws[1, 7]


def test_settings_of_before_have_one_episode_in_a_step():
    tree = tiny().model_dump()
    del tree["training"]["episodes_per_step"]
    assert RunConfig.model_validate(tree).training.episodes_per_step == 1


def test_episodes_are_counted_whatever_the_step(characters, tmp_path):
    """Lines of the log, checkpoints and snapshots come with the step that reaches their episode."""
    config = tiny(episodes_per_step=3, snapshots=4, keep=9)
    train(config, characters, tmp_path)
    run = RunFolder(tmp_path)
    assert [record.episode for record in run.read_log()] == [12, 21, 30, 41]
    assert sorted(episode for _, episode in load_checkpoint(run.last).position.kept) == [12, 21, 30, 41]
    assert [int(path.stem[-6:]) for path in run.snapshots()] == [12, 21, 33, 41]
    whole = load_file(run.last)
    rates = [record.learning_rate for record in run.read_log()]
    assert rates == pytest.approx([cosine(config.training, episode) for episode in (9, 18, 27, 39)])
    with pytest.raises(InputError, match="episodes_per_step was 3 and is now 2"):
        train(tiny(episodes_per_step=2, snapshots=4, keep=9), characters, tmp_path, resume=True)
    ended = train(tiny(snapshots=4, keep=9), characters, tmp_path, resume=True)  # not set: that of the run
    assert ended.config.training.episodes_per_step == 3
    assert all(torch.equal(value, whole[name]) for name, value in load_file(run.last).items())


def cosine(training: TrainingConfig, episode: int) -> float:
    return training.learning_rate * (1 + torch.cos(torch.tensor(torch.pi * episode / training.episodes))).item() / 2


def test_each_rank_gets_its_share_of_the_cores(monkeypatch, one_thread):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(12), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    for variable, asked, threads in (("1", None, 3), ("2", None, 1), ("1", 5, 5)):  # torchrun sets 1, the user 2
        torch.set_num_threads(1)
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
        use_threads(asked, Ranks(0, 8))
        assert torch.get_num_threads() == threads


def test_each_rank_of_a_machine_gets_its_gpu():
    ranks = Ranks(rank=6, size=8, local=2)
    assert [ranks.device(name) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda:2", "cuda:1"]
    assert Ranks().device("cuda") == "cuda"
    with pytest.raises(InputError, match=r"can train on cpu or cuda \(found mps\)"):
        ranks.device("mps")


def test_ranks_leave_when_all_have_ended():
    store = dist.HashStore()
    moments = []

    def end(rank, delay):
        time.sleep(delay)
        moments.append("ends")
        Ranks(rank, 3, store=store).end_together()
        moments.append("leaves")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(end, range(3), (0.2, 0, 0.4)))
    assert moments == ["ends"] * 3 + ["leaves"] * 3


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_whose_others_do_not_end_says_so(rank):
    """A run is complete only if rank 0 could save it."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(LostRank, match=f"rank {rank} has lost the connection"):
        Ranks(rank, 2, store=store).end_together()


PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import torch
from gaussproto.errors import InputError
from gaussproto.presets import preset
from gaussproto.training import train as training

config, out, kill, stop = preset(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
images = torch.load(Path(__file__).with_name("images.pt"), weights_only=False)
rate = training.learning_rate

def rate_and_event(settings, episode):
    if episode == kill and rank == "1" and attempt == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    if episode == stop and rank == "0":
        os.kill(os.getppid(), signal.SIGTERM)  # torchrun, which passes it on at some moment
    if episode > stop > 0:
        time.sleep(0.5)
    return rate(settings, episode)

if stop > 0 and attempt == "0":
    try:
        training.train(config, images.select(range(40)) if rank == "1" else images, out + "-other")
    except InputError as error:
        print("rank", rank, type(error).__name__, error)
training.learning_rate = rate_and_event
result = training.train(config, images, out, resume=stop <= 0)
print("rank", rank, "ended at", result.episodes, "by", result.stopped_by)
"""


class Job:
    """Runs of torchrun with one configuration."""

    def __init__(self, folder, config):
        self.folder = folder
        (folder / "config.json").write_text(config.model_dump_json())
        (folder / "program.py").write_text(PROGRAM)

    def program(self, kill, stop):
        return [self.folder / "program.py", self.folder / "config.json", self.folder / "run", kill, stop]

    def run(self, *arguments):
        root = Path(__file__).resolve().parents[2]
        environment = os.environ | {"PYTHONPATH": f"{root}/src", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def last(folder):
    return load_file(folder / "checkpoints" / "last.safetensors")


def is_same(a, b):
    logs = [[json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()] for run in (a, b)]
    times = ("seconds", "crc32")
    logs = [[{key: value for key, value in line.items() if key not in times} for line in log] for log in logs]
    return logs[0] == logs[1] and all(torch.equal(value, last(b)[name]) for name, value in last(a).items())


def test_ranks_train_as_one_process_even_if_they_are_killed_and_stopped(characters, tmp_path, one_thread):
    """Two ranks are killed, restarted by torchrun and stopped; three are killed; one process ends the run."""
    config = tiny(snapshots=2, covariance="radius", max_shot=2, damage="7:0.2")
    train(config.override(episodes_per_step=2), characters, tmp_path / "alone")
    job, run = Job(tmp_path, config), RunFolder(tmp_path / "run")
    torch.save(characters, tmp_path / "images.pt")

    two = job.run("--nproc-per-node=2", "--max-restarts=1", *job.program(kill=26, stop=32))
    assert two.returncode != 0
    assert "rank 0 InputError the ranks have different training images" in two.stdout
    assert f"rank 1 {ReportedElsewhere.__name__}" in two.stdout
    assert not (tmp_path / "run-other" / "checkpoints").exists()
    stopped = load_checkpoint(run.last).position.episode
    assert 32 < stopped < 41, two.stderr
    assert two.stdout.count(f"ended at {stopped} by 15") == 2, two.stdout

    three = job.run("--nproc-per-node=3", *job.program(kill=stopped, stop=0))
    assert three.returncode != 0
    assert f"{LostRank.__name__}: rank 0 has lost the connection to another rank" in three.stderr
    assert load_checkpoint(run.last).position.episode == stopped

    assert train(config, characters, run.path, resume=True).episodes == 41
    assert is_same(tmp_path / "alone", run.path)
    assert run.read_metrics().training.ranks == (2, 1)  # the three saved nothing
    assert not list(run.path.glob(".*.part"))


def test_the_command_on_two_ranks_speaks_once(tmp_path):
    """`--resume` starts a run if there is none."""
    job = Job(tmp_path, tiny(rotations=False, episodes=10))
    preset_and_out = tmp_path / "config.json", "--out", tmp_path / "run"
    trained = job.run("--nproc-per-node=2", "-m", "gaussproto", "train", *preset_and_out, "--resume", "--json")
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["training"]["ranks"] == [2]
