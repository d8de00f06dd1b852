"""Two machines train together: network namespaces with addresses of their own, joined by a virtual cable."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
import torch

from gaussproto.runs.folder import RunFolder
from gaussproto.training.train import train
from tests.training.test_ranks import Job, last, tiny

ADDRESSES = ("10.213.7.1", "10.213.7.2")


@pytest.fixture
def machines():
    """The names of two namespaces. Skip the test if this user cannot make them."""
    names = [f"gaussproto-{os.getpid()}-{n}" for n in (1, 2)]
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("two machines need `ip` (iproute2) and root")
    with ExitStack() as stack:
        for name in names:
            if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
                pytest.skip("this machine does not allow network namespaces")
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        ends = [f"gp{os.getpid() % 10**6}{end}" for end in "ab"]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(names, ends, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield list(zip(names, ends, ADDRESSES, strict=True))


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def start(job, name, end, address, *program):
    """Start torchrun on a machine. The first one is the meeting point."""
    host = address == ADDRESSES[0]
    command = [
        *("ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=test"),
        *(f"--rdzv-endpoint={ADDRESSES[0]}:29511", f"--rdzv-conf=is_host={int(host)}", f"--local-addr={address}"),
        *map(str, job.program(*program)),
    ]
    own = {"GLOO_SOCKET_IFNAME": end, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(job.folder / name)}
    return subprocess.Popen(command, env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ends_of(running, seconds=300):
    """Return what the processes said. End those that have not ended in time."""
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in running) and time.monotonic() < end:
        time.sleep(0.1)
    for process in running:
        if process.poll() is None:
            process.terminate()  # torchrun ends its ranks
    return [process.communicate()[0] for process in running]


def test_two_machines_train_as_one_process_even_if_a_rank_is_killed(characters, machines, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    config = tiny(covariance="radius", max_shot=2, damage="7:0.2")
    train(config.override(episodes_per_step=2), characters, tmp_path / "alone")
    torch.set_num_threads(before)
    job = Job(tmp_path, config)
    torch.save(characters, tmp_path / "images.pt")
    running = [start(job, *machine, 26, -1) for machine in machines]
    said = ends_of(running)
    assert [process.returncode for process in running] == [0, 0], "\n".join(said)
    for rank in (0, 1):
        assert sum(output.count(f"rank {rank} ended at 41 by None") for output in said) == 1
    assert sum("exitcode: -9" in output for output in said) == 1  # and torchrun started the ranks again
    losses = [[record.loss for record in RunFolder(tmp_path / run).read_log()] for run in ("alone", "run")]
    assert losses[0] == losses[1]
    ours = last(tmp_path / "run")
    assert all(torch.equal(value, ours[name]) for name, value in last(tmp_path / "alone").items())
