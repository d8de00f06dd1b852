"""Compute chunks on a Ray cluster: tasks read images on every core, and a pool of actors runs the network."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

from gaussproto.bulk.pipeline import Done, Work
from gaussproto.bulk.read import read_chunk
from gaussproto.bulk.sources import Chunk
from gaussproto.data.look import Look
from gaussproto.errors import import_extra

CHUNK = "chunk"  # the column of the Ray dataset: a pickled chunk in each row
Batch = dict[str, Any]


def _read(look: Look, batch: Batch) -> Batch:
    return _row(read_chunk(pickle.loads(batch[CHUNK][0]), look))


class Network:
    """The actor that holds the network."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, batch: Batch) -> Batch:
        return _row(Done.of(pickle.loads(batch[CHUNK][0]), self.work))


def _row(content: Any) -> Batch:
    return {CHUNK: [pickle.dumps(content, protocol=5)]}


def compute_on_ray(chunks: Iterator[Chunk], work: Work) -> Iterator[Done]:
    """Yield the chunks in the order in which they are ready. Ray computes those again whose process died."""
    ray = import_extra("ray", "ray")
    data = import_extra("ray.data", "ray")
    if not ray.is_initialized():
        ray.init(logging_level=logging.WARNING, log_to_driver=False)  # at RAY_ADDRESS, or a cluster on this machine
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    cores = int(ray.cluster_resources().get("CPU", 1))
    items = [{CHUNK: pickle.dumps(chunk)} for chunk in chunks]
    rows = data.from_items(items, override_num_blocks=len(items))
    where: dict[str, Any] = {"num_cpus": 0} if work.device == "cpu" else {"num_cpus": 0, "num_gpus": 1}
    rows = rows.map_batches(partial(_read, work.look), batch_size=1).map_batches(
        Network,
        fn_constructor_args=(work,),
        batch_size=1,
        compute=data.ActorPoolStrategy(min_size=1, max_size=cores),
        **where,
    )
    for row in rows.iter_rows():
        yield pickle.loads(row[CHUNK])
