"""What torch.compile does to a training step, to the plain network's and to our own: takes a C++ compiler.

python benchmarks/compile.py [small|big]
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from gaussproto.bench.cases import DIM, EPISODES
from gaussproto.bench.plain import plain_network, plain_step
from gaussproto.config import NetworkConfig, TrainingConfig
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.step import make_optimizer, step

WARM_UP, ROUNDS, STEPS = 6, 5, 3


def plain_learner(encoder: str, compiled: bool, way: int, shot: int) -> Callable[[torch.Tensor], Any]:
    network = plain_network(encoder, DIM[encoder])
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    if compiled:
        network.compile()
    return lambda batch: plain_step(network, optimizer, batch, way, shot)


def our_learner(encoder: str, compiled: bool, way: int, shot: int) -> Callable[[torch.Tensor], Any]:
    config = NetworkConfig(encoder=encoder, embedding_dim=DIM[encoder], covariance="radius")
    network = GaussianPrototypicalNetwork(config).to(memory_format=torch.channels_last)
    optimizer = make_optimizer(network, TrainingConfig())
    if compiled:
        network.embed = torch.compile(network.embed)
    return lambda batch: step(network, optimizer, batch, way, [shot])


def median_time(learn: Callable[[torch.Tensor], Any], batch: torch.Tensor) -> float:
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        learn(batch)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    encoder = sys.argv[1] if len(sys.argv) > 1 else "small"
    keep_freed_memory()
    for way, shot, query in EPISODES:
        batch = torch.rand(way * (shot + query), 1, 28, 28)
        for name, make in (("plain", plain_learner), ("ours", our_learner)):
            eager, compiled = (make(encoder, compiled, way, shot) for compiled in (False, True))
            start = time.perf_counter()
            compiled(batch)
            first = time.perf_counter() - start
            for _ in range(WARM_UP):
                eager(batch)
                compiled(batch)
            pairs = [(median_time(eager, batch), median_time(compiled, batch)) for _ in range(ROUNDS)]
            ratio = statistics.median(a / b for a, b in pairs)
            spent = statistics.median(b for _, b in pairs)
            print(
                f"{encoder} {way}-way {shot}+{query} {name}: compiled {ratio:.2f}x as fast, {spent:.3f} s a step; "
                f"first step {first:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
