"""Measure the server and the page: speed, memory, hostile requests and kills. Stop other programs first.

    python -m benchmarks.serving [--only start|strokes|load|memory|hostile|kills] [--quick] [--write]

The clients run on the same machine as the server.
"""

from __future__ import annotations

import base64
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import hostile
from benchmarks.command import parser, run
from benchmarks.kills import Kills
from benchmarks.load import Load, drive
from benchmarks.served import Server, chromium, postgres_folder, running, running_postgres
from benchmarks.strokes import page_weight, stroke_times
from benchmarks.target import END, FORM, content_of, make_target, part
from gaussproto.cli import console
from gaussproto.cli.console import Bars
from gaussproto.errors import InputError
from gaussproto.provenance import machine

CLIENTS, REQUESTS = 16, 4_000
MEMORY_REQUESTS, MEMORY_PARTS = 50_000, 10
HOSTILE, KILLS, STARTS, STROKES = 2_000, 50, 5, 100
PAGE = Path(__file__).resolve().parents[1] / "docs" / "serving.md"
QUICK = 20  # times fewer of everything
Row = list[str]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", choices=list(PARTS), help="only one of these")
    options.add_argument("--quick", action="store_true", help="a twentieth of the requests, for a first impression")
    options.add_argument("--write", action="store_true", help="put the table into docs/serving.md")
    chosen = options.parse_args()
    share = QUICK if chosen.quick else 1
    rows = list[Row]()
    with console.progress_bars() as bars:
        for name, part in PARTS.items():
            if chosen.only in (None, name):
                with tempfile.TemporaryDirectory(prefix="serving-") as folder:
                    rows += part(share, bars, Path(folder))
    console.print_table("", ["measured", "result"], rows)
    if chosen.write:
        PAGE.write_text(with_table(PAGE.read_text(), rows))
    return int(any(row[1].startswith("FAILED") for row in rows))


def with_table(page: str, rows: list[Row]) -> str:
    """Return the page with new rows in its table, and the machine that they were measured on.

    A row takes the place of the one that measured the same. Other rows stay.
    """
    begin, end = "<!-- measured by benchmarks.serving -->", "<!-- end of the measurements -->"
    before, rest = page.split(begin)
    found, after = rest.split(end)
    known = {row[0]: row for line in found.splitlines() if len(row := line.strip("| ").split(" | ")) == 2}
    known |= {row[0]: row for row in rows}
    table = "\n".join(f"| {' | '.join(row)} |" for row in known.values())
    return f"{before}{begin}\n{table}\n\nMachine: {machine().processor}, {os.cpu_count()} cores.\n{end}{after}"


def start(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Measure the time from the command to the first answer of a classification."""
    with running(folder / "s.sqlite") as server:
        path, bodies = fill(server)
    times = []
    for done in range(max(1, STARTS // share)):
        with running(folder / "s.sqlite", ready=False) as server:
            answer = server.client.post(f"{path}/classify", content=bodies[0], headers={"content-type": FORM})
            assert answer.status_code == 200, answer.text
            times.append(time.perf_counter() - server.started)
        bars("start", done + 1, STARTS)
    return [[f"first answer after the start, median of {len(times)}", f"{median(times):.2f} s"]]


def strokes(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Draw in the page with Chromium, and measure the time from the end of a stroke to its answer on the screen."""
    if chromium() is None:
        raise InputError("Chromium is not installed: run scripts/debian.sh")
    count = max(5, STROKES // share)
    with running(folder / "s.sqlite") as server:
        size = page_weight(server)
        times = stroke_times(server, count, lambda done: bars("strokes", done, count))
    middle, nine, most = np.percentile(times, [50, 90, 95])
    text = (
        f"median {middle:.0f} ms, 90 % within {nine:.0f} ms, 95 % within {most:.0f} ms, all within {times.max():.0f} ms"
    )
    return [
        ["everything that the page loads", f"{size / 1000:.0f} kB"],
        [f"from the end of a stroke to the answer on the page, {count} strokes", text],
    ]


def load(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Measure how many images 16 clients get classified a second, one image a request."""
    with running(folder / "s.sqlite") as server:
        path, bodies = fill(server)
        send(server, path, bodies, CLIENTS, 200)
        one = send(server, path, bodies, 1, max(50, 1_000 // share))
        bars("load", 1, 2)
        many = send(server, path, bodies, CLIENTS, max(200, REQUESTS // share))
        bars("load", 2, 2)
    return [
        ["classify, one client", shown(one)],
        [f"classify, {CLIENTS} clients", shown(many)],
    ]


def memory(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Measure the memory of the server over many requests."""
    requests = MEMORY_REQUESTS // share
    with running(folder / "s.sqlite") as server:
        path, bodies = fill(server)
        send(server, path, bodies, CLIENTS, requests // MEMORY_PARTS)  # the first requests fill caches
        sizes, errors = [server.memory()], 0
        for done in range(MEMORY_PARTS):
            errors += send(server, path, bodies, CLIENTS, requests // MEMORY_PARTS).errors
            sizes.append(server.memory())
            bars("memory", done + 1, MEMORY_PARTS)
    growth = 100 * (sizes[-1] / sizes[0] - 1)
    text = f"{sizes[0] / 1e6:.0f} MB, then {sizes[-1] / 1e6:.0f} MB ({growth:+.1f} %), {errors} errors"
    return [[f"memory before and after {requests:,} requests", text]]


def hostile_requests(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Send malformed requests. Every answer must be a 4xx, and the store must not change."""
    statuses, wrong = Counter[int](), Counter[str]()
    count = max(2 * len(hostile.KINDS), HOSTILE // share)
    with running(folder / "s.sqlite") as server:
        target = make_target(server)
        before = content_of(server)
        for done, (name, ask) in enumerate(hostile.requests(count), start=1):
            status = ask(target)
            statuses[status] += 1
            if not hostile.is_refusal(name, status):
                wrong[f"{name}: {status}"] += 1
            bars("hostile requests", done, count)
        changed = content_of(server) != before
    listed = ", ".join(f"{n} x {status or 'closed'}" for status, n in sorted(statuses.items()))
    text = f"FAILED: {dict(wrong)}, store changed: {changed}" if wrong or changed else f"{listed}; store unchanged"
    return [[f"{count:,} malformed requests of {len(hostile.KINDS)} kinds", text]]


def kills(share: int, bars: Bars, folder: Path) -> list[Row]:
    """Kill the server during writes, with each kind of store."""
    rounds = max(2, KILLS // share)
    rows = [_kill("SQLite", str(folder / "s.sqlite"), rounds, bars)]
    if postgres_folder() is not None:
        with running_postgres() as url:
            rows.append(_kill("PostgreSQL", url, rounds, bars))
    return rows


def _kill(name: str, store: str, rounds: int, bars: Bars) -> Row:
    killer, problems = Kills(store), list[str]()
    for done in range(rounds):
        problems += killer.round()
        bars(f"kill -9, {name}", done + 1, rounds)
    killer.stop()
    kept = f"all {len(killer.acknowledged):,} acknowledged examples are there"
    return [f"kill -9 during writes, {rounds} times, {name}", f"FAILED: {problems}" if problems else kept]


def fill(server: Server) -> tuple[str, list[bytes]]:
    """Fill a gallery of five classes with three examples each. Return its path and queries as bodies."""
    client = server.client
    path = f"/galleries/{client.post('/galleries', json={'name': 'load'}).json()['id']}"
    sample = {"id": "invented-1", "classes": 5, "shots": 3}
    queries = client.post(f"{path}/samples", json=sample).json()["queries"]
    images = [base64.b64decode(each["image"]) for each in queries]
    return path, [part("files", "query.png", image) + END for image in images]


def send(server: Server, path: str, bodies: list[bytes], clients: int, requests: int) -> Load:
    """Classify from another process, so that the clients do not wait for this one."""
    whole = f"/api/v1{path}/classify"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(drive, (server.url, whole, FORM, bodies, clients, requests))


def shown(found: Load) -> str:
    times = f"p50 {found.percentile(50):.0f} ms, p99 {found.percentile(99):.0f} ms"
    return f"{found.rate:.0f} requests a second, {times}, {found.errors} errors"


PARTS: dict[str, Callable[[int, Bars, Path], list[Row]]] = {
    "start": start, "strokes": strokes, "load": load, "memory": memory, "hostile": hostile_requests, "kills": kills,
}  # fmt: skip


if __name__ == "__main__":
    run(main)
