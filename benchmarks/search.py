"""Measure the search among 1,000 to 1,000,000 classes, and compare it with plain ways to find the nearest class.

Every case runs in its own process, with one thread, and its time is processor time. Results are added to a JSON file,
and cases that are in it are skipped, so the benchmark can be stopped and continued.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from benchmarks.command import parser, run
from benchmarks.measure import ROOT
from benchmarks.search_data import Classes, embed_drawings, make_classes
from gaussproto.cli import console
from gaussproto.files import write_then_rename
from gaussproto.runs.metrics import Result, parse_result

RESULTS = ROOT / "benchmarks" / "search.json"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
QUERIES = 512
NAIVE = 8  # queries of the naive broadcast
REPEATS = 3


class SearchCase(Result):
    """What was measured for one number of classes. Queries per second are of processor time, on one thread."""

    classes: int
    D: int
    covariance: Literal["radius", "diagonal"]
    prototypes: int  # bytes of the prototypes and precisions, in float32
    naive: float | None = None  # queries per second
    centroid: float  # of scikit-learn's NearestCentroid, which takes no precision
    exact: float
    exact_build: float  # seconds
    exact_memory: int  # bytes beside the prototypes, with the largest block
    faiss: float | None = None
    faiss_build: float | None = None
    faiss_memory: int | None = None
    recall_1: float | None = None  # share of queries whose nearest class is found
    recall_10: float | None = None  # share of the ten nearest classes that are found


class GalleryCase(Result):
    """A classifier of many classes with one example each. Seconds of processor time, on one thread."""

    classes: int
    D: int
    fit: float
    index: float
    predict: float  # of one image
    save: float
    file: int  # bytes
    load: float  # with the first answer
    load_wall: float
    add: float
    add_wall: float
    forget: float
    changed: float  # predict of one image after the changes


class ManyExamples(Result):
    """A classifier of vectors with ten examples of each class."""

    classes: int
    examples: int
    D: int
    fit: float
    fit_wall: float


class SearchReport(Result):
    """The output of `benchmarks.search`."""

    version: Literal[1] = 1
    cases: tuple[SearchCase, ...] = ()
    galleries: tuple[GalleryCase, ...] = ()
    fits: tuple[ManyExamples, ...] = ()


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median processor time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times)


def search_case(C: int, D: int, covariance: str, folder: Path, data_root: Path | None) -> SearchCase:
    import tracemalloc

    from gaussproto.classifier.search import FaissSearch, learn_index
    from gaussproto.formulas.nearest import ExactSearch

    classes = make_classes(embed_drawings(D, folder, data_root), C, QUERIES)
    p, x = classes.p, classes.queries
    repeats = REPEATS if C < 1_000_000 else 1
    s = classes.radius if covariance == "radius" else classes.diagonal
    s = np.ascontiguousarray(s, dtype=np.float32)
    naive = None
    if C * D <= 1e8:
        few = x[:NAIVE]

        def broadcast() -> np.ndarray:
            return np.array([((s * (one - p) ** 2).sum(axis=-1)).argmin() for one in few])

        naive = NAIVE / seconds(broadcast)
    tracemalloc.start()
    exact = ExactSearch("euclidean", p, s)
    exact(x, 1)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    exact_build = seconds(lambda: ExactSearch("euclidean", p, s), 1)
    truth = exact(x, 10)
    result = SearchCase(
        classes=C,
        D=D,
        covariance="radius" if covariance == "radius" else "diagonal",
        prototypes=p.nbytes + s.nbytes,
        naive=naive,
        centroid=QUERIES / seconds(lambda: centroids(classes).predict(x), repeats),
        exact=QUERIES / seconds(lambda: exact(x, 1), repeats),
        exact_build=exact_build,
        exact_memory=memory,
    )
    if C < 10_000:
        return result
    start = time.process_time()
    index = learn_index("euclidean", p, s)
    assert index is not None
    search = FaissSearch(p, s, index, lambda name, rows: None)
    build = time.process_time() - start
    one, ten = search(x, 1), search(x, 10)
    near = 1 + 1e-9
    return result.model_copy(
        update={
            "faiss": QUERIES / seconds(lambda: search(x, 1)),
            "faiss_build": build,
            "faiss_memory": search.nbytes,
            "recall_1": float((one.distances[:, 0] <= near * truth.distances[:, 0]).mean()),
            "recall_10": float((ten.distances <= near * truth.distances[:, -1:]).mean()),
        }
    )


def centroids(classes: Classes) -> Any:
    """Return scikit-learn's classifier. Its `fit` loops over the classes, so the centroids are put into it."""
    from sklearn.neighbors import NearestCentroid

    C = len(classes.p)
    clf = NearestCentroid().fit(classes.p[:4], [0, 0, 1, 1])
    clf.centroids_, clf.classes_, clf.class_prior_ = classes.p, np.arange(C), np.full(C, 1 / C)
    return clf


def gallery_case(C: int, D: int, folder: Path, data_root: Path | None) -> GalleryCase:
    import gaussproto as gp

    classes = make_classes(embed_drawings(D, folder, data_root), C, QUERIES)
    labels = [f"class {i:08d}" for i in range(C)]

    def timed(work: Callable[[], object]) -> tuple[float, float]:
        wall, start = time.perf_counter(), time.process_time()
        work()
        return time.process_time() - start, time.perf_counter() - wall

    clf = gp.GaussianPrototypeClassifier("identity")
    fit, _ = timed(lambda: clf.fit(classes.p, labels))
    index, _ = timed(lambda: clf.predict(classes.queries[:1]))
    one = iter(classes.queries)
    predict = median(timed(lambda: clf.predict([next(one)]))[0] for _ in range(20))
    with TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary) / "my.gallery"
        save, _ = timed(lambda: clf.save(path))

        def opened() -> None:
            nonlocal loaded
            loaded = gp.load(path)
            loaded.predict(classes.queries[:1])

        loaded: Any = None
        opening = [timed(opened) for _ in range(3)]
        loaded.partial_fit([next(one)], ["first"])
        adding = [timed(lambda i=i: loaded.partial_fit([next(one)], [f"new {i}"])) for i in range(50)]
        forgetting = [timed(lambda i=i: loaded.forget(f"class {i:08d}"))[0] for i in range(50)]
        changed = median(timed(lambda: loaded.predict([next(one)]))[0] for _ in range(20))
        return GalleryCase(
            classes=C,
            D=D,
            fit=fit,
            index=index,
            predict=predict,
            save=save,
            file=path.stat().st_size,
            load=median(each for each, _ in opening),
            load_wall=median(wall for _, wall in opening),
            add=median(each for each, _ in adding),
            add_wall=median(wall for _, wall in adding),
            forget=median(forgetting),
            changed=changed,
        )


def many_examples(C: int, N: int, D: int, folder: Path, data_root: Path | None) -> ManyExamples:
    import gaussproto as gp

    drawings = embed_drawings(D, folder, data_root)
    rng = np.random.default_rng(0)
    means = make_classes(drawings, C, 1).p
    deviation = (drawings.x - drawings.x.mean(axis=1, keepdims=True)).reshape(-1, D)
    labels = np.repeat(np.arange(C), N // C)
    vectors = means[labels] + deviation[rng.integers(len(deviation), size=N)]
    wall, start = time.perf_counter(), time.process_time()
    gp.GaussianPrototypeClassifier("identity").fit(vectors, labels)
    fit = time.process_time() - start
    return ManyExamples(classes=C, examples=N, D=D, fit=fit, fit_wall=time.perf_counter() - wall)


JOBS = [
    ("cases", 100_000, 64, "radius"),
    ("cases", 1_000_000, 64, "radius"),
    ("galleries", 1_000_000, 64, ""),
    ("fits", 100_000, 64, ""),
    ("cases", 1_000_000, 64, "diagonal"),
    ("cases", 100_000, 64, "diagonal"),
    *(("cases", C, 64, covariance) for C in (1_000, 10_000) for covariance in ("radius", "diagonal")),
    *(("cases", C, 512, covariance) for C in (1_000, 10_000, 100_000) for covariance in ("radius", "diagonal")),
    ("galleries", 100_000, 64, ""),
    ("cases", 1_000_000, 512, "radius"),
    ("cases", 1_000_000, 512, "diagonal"),
]


def measured(report: SearchReport, kind: str, C: int, D: int, covariance: str) -> bool:
    entries = getattr(report, kind)
    return any((e.classes, e.D, getattr(e, "covariance", "")) == (C, D, covariance) for e in entries)


def read_results(path: Path) -> SearchReport:
    return parse_result(SearchReport, json.loads(path.read_text()), str(path)) if path.exists() else SearchReport()


def add_result(path: Path, kind: str, result: Result) -> None:
    report = read_results(path)
    report = report.model_copy(update={kind: (*getattr(report, kind), result)})
    with write_then_rename(path) as temporary:
        temporary.write_text(json.dumps(report.model_dump(mode="json"), indent=1) + "\n")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--out", type=Path, default=RESULTS, help="file with the results")
    options.add_argument("--folder", type=Path, default=Path("search-data"), help="folder for the embedded drawings")
    options.add_argument("--most", type=int, default=10**9, help="numbers of prototypes (classes x D), at most")
    options.add_argument("--job", help=argparse_suppress())
    options.add_data_root()
    chosen = options.parse_args()
    if chosen.job:
        kind, C, D, covariance = json.loads(chosen.job)
        work: dict[str, Callable[[], Result]] = {
            "cases": lambda: search_case(C, D, covariance, chosen.folder, chosen.data_root),
            "galleries": lambda: gallery_case(C, D, chosen.folder, chosen.data_root),
            "fits": lambda: many_examples(C, 10 * C, D, chosen.folder, chosen.data_root),
        }
        add_result(chosen.out, kind, work[kind]())
        return
    for job in JOBS:
        if job[1] * job[2] <= chosen.most and not measured(read_results(chosen.out), *job):
            console.say(f"measuring {' '.join(map(str, job))}")
            root = ["--data-root", str(chosen.data_root)] if chosen.data_root else []
            command = [sys.executable, "-m", "benchmarks.search", "--job", json.dumps(job), "--out", str(chosen.out)]
            if subprocess.run(
                [*command, "--folder", str(chosen.folder), *root], cwd=ROOT, env=os.environ | ONE_THREAD
            ).returncode:
                console.say(f"failed: {job}")
    console.print_json(read_results(chosen.out).model_dump(mode="json"))


def argparse_suppress() -> str:
    import argparse

    return argparse.SUPPRESS


if __name__ == "__main__":
    run(main)
