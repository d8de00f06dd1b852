"""`--on ray`: a cluster of two nodes gives the rows of this machine, also if processes die."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("RAY_worker_niceness", "0")  # on a busy machine, workers of the usual 15 never get to run
ray = pytest.importorskip("ray", reason="needs the extra: pip install 'gaussproto[ray]'")
pytest.importorskip("ray.data", reason="needs the extra: pip install 'gaussproto[ray]'")

import gaussproto as gp  # noqa: E402
from tests.bulk.conftest import rows_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    try:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.add_node(num_cpus=1)
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        pytest.skip("this machine is too busy: a node of Ray did not start in 30 s")
    ray.init(address=cluster.address, log_to_driver=False)
    yield
    ray.shutdown()
    cluster.shutdown()


def workers(kind: str) -> list[int]:
    """The processes of Ray, started by this one, that do this kind of work."""
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            names[int(place.name)] = (place / "cmdline").read_text()
        except OSError:
            continue

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid, name in names.items() if name.startswith(f"ray::{kind}") and is_ours(pid)]


def test_the_rows_are_those_of_one_machine_also_if_workers_are_killed(cluster, drawings, tmp_path, monkeypatch):
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    monkeypatch.setattr("gaussproto.bulk.pipeline.chunk_size", lambda look: 2)
    monkeypatch.setattr("gaussproto.bulk.parts.ROWS", 10)
    killed = []

    def kill(what, done, total):
        if 4 <= done < 30 and not killed:
            killed.extend(workers("MapWorker(MapBatches(Network")[:1] + workers("MapBatches(_read")[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    here = gp.embed_files(drawings, tmp_path / "here", "drawings-small", processes=1)
    there = gp.embed_files(drawings, tmp_path / "there", "drawings-small", on="ray", progress=kill)
    assert killed
    assert (there.images, there.new, there.blank, there.unreadable) == (42, 42, 1, 1)
    assert here.problems == there.problems
    by_path = [sorted(rows_of(tmp_path / name), key=lambda row: row["path"]) for name in ("here", "there")]
    for a, b in zip(*by_path, strict=True):
        for name in ("embedding", "precision"):
            x, y = a.pop(name), b.pop(name)
            assert x is y is None or np.allclose(x, y, atol=1e-4)
        assert a == b


def test_answers(cluster, drawings, clf, tmp_path):
    gp.classify_files(clf, drawings / "c2", tmp_path / "here.parquet", processes=1)
    gp.classify_files(clf, drawings / "c2", tmp_path / "there.parquet", on="ray")
    here, there = (rows_of(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert [row["label"] for row in here] == [row["label"] for row in there]
    assert np.allclose([row["distance"] for row in here], [row["distance"] for row in there], atol=1e-4)
