"""The processes that train a network together, for example those that torchrun starts. Each is a rank.

Every rank has the same weights and computes some of the episodes of a step. The sums over all ranks make the steps of
all ranks equal. Only rank 0 reads and writes the run.
"""

import atexit
import itertools
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gaussproto.errors import InputError, ReportedElsewhere

T = TypeVar("T")
WAIT, CONNECT, RETRY = 300, 3, 0.2  # seconds: for all ranks to start, to reach rank 0, between attempts
STORE = "gaussproto/store"  # key of the port of the ranks' own store in that of torchrun
LEAVE = timedelta(seconds=30)  # for all ranks to say that they leave


class LostRank(InputError):  # noqa: N818 (it reads as a sentence)
    """Raised when another rank has ended or cannot be reached."""


class Ranks:
    """The ranks of a training, seen from one of them. By default this process trains alone.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
        local: the number of this process among those of its machine.
        store: where the ranks leave messages for each other, if `join` has made it.
    """

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0, store: Any = None) -> None:
        self.rank, self.size, self.local, self.store = rank, size, local, store

    @property
    def elastic(self) -> bool:
        """Whether torchrun has started this process, and may start it again."""
        return dist.is_available() and dist.is_torchelastic_launched()

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes the run and speaks to the user."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """Return the device of this rank: of several GPUs, each rank of a machine takes another one."""
        if self.size == 1:
            return name
        if name.partition(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"several ranks can train on cpu or cuda (found {name}): choose one of them")
        return f"cuda:{self.local}" if name == "cuda" else name

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks, which is the same on every rank, bit for bit."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with self._connected():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view(tensor.shape))

    def largest(self, number: int) -> int:
        """Return the largest number of all ranks."""
        if self.size == 1:
            return number
        numbers = torch.tensor(number)
        with self._connected():
            dist.all_reduce(numbers, dist.ReduceOp.MAX)
        return int(numbers)

    def of_all(self, value: T) -> list[T]:
        """Return the values of all ranks."""
        values = [value] * self.size
        if self.size > 1:
            with self._connected():
                dist.all_gather_object(values, value)
        return values

    def of_first(self, make: Callable[[], T]) -> T:
        """Call a function on rank 0, and return its result on every rank."""
        value = []
        with self.sharing_errors():
            value = [make() if self.leads else None]
        if self.size > 1:
            with self._connected():
                dist.broadcast_object_list(value)
        return value[0]  # type: ignore[return-value]

    def in_turn(self, make: Callable[[], T]) -> T:
        """Call a function on one rank of each machine, then on its others, which find what the first has cached."""
        for turn in (True, False):
            with self.sharing_errors():
                if (self.local == 0) is turn:
                    made = make()
        return made

    def end_together(self) -> None:
        """Wait until every rank has got this far and rank 0 has saved the run.

        So no rank closes its connections while another still needs them. If rank 0 cannot save the run, all ranks fail,
        and torchrun can start all of them again. It never starts a rank again that has ended with success.
        """
        if self.store is None:
            return
        others = range(1, self.size)
        with self._connected():
            if self.leads:
                self.store.wait([f"ended/{rank}" for rank in others])
                self.store.set("all ended", "")
            else:
                self.store.set(f"ended/{self.rank}", "")
                self.store.wait(["all ended"])
                self.store.set(f"leaves/{self.rank}", "")
        if self.leads:  # it holds the store, so it leaves last
            with suppress(RuntimeError):
                self.store.wait([f"leaves/{rank}" for rank in others], LEAVE)

    @contextmanager
    def sharing_errors(self) -> Iterator[None]:
        """If one rank raises InputError in this block, raise it on all ranks. Rank 0 tells the user."""
        own = None
        try:
            yield
        except InputError as error:
            if self.size == 1:
                raise
            own = error
        problems = self.of_all(own and str(own))
        failed = next((rank for rank, problem in enumerate(problems) if problem is not None), None)
        if failed is None:
            return
        if not self.leads:
            raise ReportedElsewhere(str(problems[failed])) from own
        raise own or InputError(f"rank {failed}: {problems[failed]}")

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise LostRank(
                f"rank {self.rank} has lost the connection to another rank, which has ended or cannot be reached "
                f"({_reason(error)}): start the training again with --resume, unless torchrun --max-restarts does"
            ) from error


ALONE = Ranks()
_own_store: Any = None  # of the process group that `join` has made
_trainings = itertools.count()  # of this process; every rank joins as often


def join(device: str) -> Ranks:
    """Join the other ranks if torchrun has started this process, or if there is a process group already."""
    global _own_store
    if not dist.is_available():
        return ALONE
    local = int(os.environ.get("LOCAL_RANK", 0))
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched() or os.environ.get("WORLD_SIZE") == "1":
            return ALONE
        gpu = device.startswith("cuda") and torch.cuda.is_available()
        if gpu and local < torch.cuda.device_count():
            torch.cuda.set_device(local)
        try:
            backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            _own_store = _new_store(rank)
            dist.init_process_group(backend, store=_own_store, rank=rank, world_size=size)
        except (RuntimeError, ValueError) as error:
            reason = _reason(error)
            remedy = "check that the machines reach each other, and set GLOO_SOCKET_IFNAME to their network interface"
            raise InputError(f"rank {rank} cannot join the others ({reason}): {remedy}") from error
        atexit.register(_leave)
    messages = _own_store and dist.PrefixStore(f"training {next(_trainings)}", _own_store)  # type: ignore[attr-defined]
    return Ranks(dist.get_rank(), dist.get_world_size(), local, messages)


def _new_store(rank: int) -> Any:
    """Return a store in which the ranks find each other.

    torchrun keeps one store over all restarts, in which a rank could find the address of a process that has ended. So
    rank 0 makes a new store, and tells its port in that of torchrun. If it is still the port of an earlier one, nobody
    answers there, and the other ranks try again.
    """
    store_at: Any = dist.TCPStore  # type: ignore[attr-defined]
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return store_at(host, port, is_master=rank == 0, wait_for_workers=False)
    shared = store_at(host, port, is_master=False)
    if rank == 0:
        store = store_at(host, 0, is_master=True, wait_for_workers=False)
        shared.set(STORE, str(store.port))
        return store
    until = time.monotonic() + WAIT
    while True:
        number = int(shared.get(STORE))
        try:
            socket.create_connection((host, number), timeout=CONNECT).close()
            return store_at(host, number, is_master=False)
        except OSError as error:
            if time.monotonic() > until:
                raise RuntimeError(f"rank 0 does not answer at {host}:{number}, {error}") from error
            time.sleep(RETRY)


def _reason(error: BaseException) -> str:
    """Return the first sentence of an error of gloo or NCCL, without the line of its source."""
    return re.sub(r"\[/\S+:\d+\] ", "", str(error)).partition("\n")[0].partition(". ")[0].rstrip(".")


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def end_rank(code: int) -> None:
    """End this process if it is one of several ranks. After success, wait until the others have got this far.

    Otherwise the threads of torch may, rarely, abort a process while it ends, and torchrun would call the job failed.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    if code == 0:
        with suppress(RuntimeError):  # another rank has ended
            dist.barrier()
    with suppress(OSError):  # the reader of our output has ended
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def use_threads(number: int | None, ranks: Ranks) -> None:
    """Set the number of threads of this process: by default, the ranks of a machine share its cores.

    torchrun sets OMP_NUM_THREADS to 1 unless the user sets it, so 1 counts as not set.
    """
    if number is None and ranks.size > 1 and os.environ.get("OMP_NUM_THREADS", "1") == "1":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        number = max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    if number is not None:
        torch.set_num_threads(number)


def was_restarted() -> bool:
    """Return whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
