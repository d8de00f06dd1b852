"""Time a training step with and without torch.compile, for the plain network and for ours. Needs a C++ compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from benchmarks.cases import DIM, ENCODERS, EPISODES
from benchmarks.command import parser, run
from benchmarks.plain import plain_network, plain_step
from benchmarks.timer import measure_times, median_time, speedup, take_turns
from gaussproto.config import NetworkConfig, TrainingConfig
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.step import make_optimizer, step

WARM_UP, ROUNDS, STEPS = 6, 5, 3


def plain_learner(encoder: str, compiled: bool, way: int, shot: int) -> Callable[[torch.Tensor], object]:
    network = plain_network(encoder, DIM[encoder])
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    if compiled:
        network.compile()
    return lambda batch: plain_step(network, optimizer, batch, way, shot)


def our_learner(encoder: str, compiled: bool, way: int, shot: int) -> Callable[[torch.Tensor], object]:
    config = NetworkConfig(encoder=encoder, embedding_dim=DIM[encoder], covariance="radius")
    network = GaussianPrototypicalNetwork(config).to(memory_format=torch.channels_last)
    optimizer = make_optimizer(network, TrainingConfig())
    if compiled:
        network.embed = torch.compile(network.embed)
    return lambda batch: step(network, optimizer, [(0, batch, [shot])], way)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("encoder", nargs="?", choices=ENCODERS, default="small")
    encoder = options.parse_args().encoder
    keep_freed_memory()
    for way, shot, query in EPISODES:
        batch = torch.rand(way * (shot + query), 1, 28, 28)
        for name, make in (("plain", plain_learner), ("ours", our_learner)):
            eager, compiled = (partial(make(encoder, compiled, way, shot), batch) for compiled in (False, True))
            (first,) = measure_times(compiled)
            for learn in (eager, compiled):
                measure_times(learn, repetitions=WARM_UP)
            eager_times, compiled_times = take_turns(
                ROUNDS, *(partial(median_time, learn, repetitions=STEPS) for learn in (eager, compiled))
            )
            ratio = speedup(compiled_times, eager_times).median
            print(
                f"{encoder} {way}-way {shot}+{query} {name}: compiled {ratio:.2f}x as fast, "
                f"{median(compiled_times):.3f} s a step; first step {first:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    run(main)
