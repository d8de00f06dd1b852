"""Kill a server while clients add examples, start it again, and look for everything that it acknowledged."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from itertools import count

import httpx
from sqlalchemy import create_engine, text

from benchmarks.served import Server
from benchmarks.target import as_text, png_of

CLIENTS = 4
LATEST = 0.6  # seconds until the kill
TOGETHER = 2  # examples in a request: all or none must be there


class Kills:
    """One store that server after server writes to.

    Args:
        store: file or URL of the store.
        seed: of the times of the kills.
    """

    def __init__(self, store: str, seed: int = 0) -> None:
        self.store, self.rng = store, random.Random(seed)
        self.acknowledged: set[str] = set()
        self.numbers = count()
        self.server = Server(store)
        self.gallery = self.server.client.post("/galleries", json={"name": "kills"}).json()["id"]

    def round(self) -> list[str]:
        """Kill the server during writes and return what was lost or is wrong after the restart."""
        before = len(self.acknowledged)
        threads = [threading.Thread(target=self._write) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while len(self.acknowledged) == before and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        time.sleep(self.rng.uniform(0, LATEST))
        self.server.kill()
        for thread in threads:
            thread.join()
        problems = check_integrity(self.store)
        self.server = Server(self.store)
        found = self._names()
        lost = self.acknowledged - found
        halves = {name for name in found if sum(f"{name[:-1]}{i}" in found for i in range(TOGETHER)) != TOGETHER}
        problems += [f"{len(lost)} acknowledged examples are lost"] if lost else []
        problems += [f"{len(halves)} examples were stored without those of the same request"] if halves else []
        return problems

    def stop(self) -> None:
        self.server.stop()

    def _names(self) -> set[str]:
        whole = self.server.client.get(f"/galleries/{self.gallery}").json()
        return {example["name"] for each in whole["classes"] for example in each["examples"]}

    def _write(self) -> None:
        url = f"{self.server.url}/api/v1/galleries/{self.gallery}/examples"
        image = as_text(png_of(24, 24))
        with httpx.Client(trust_env=False, timeout=30) as client:
            while True:
                number = next(self.numbers)
                names = [f"{number}-{i}" for i in range(TOGETHER)]
                examples = [{"class": f"class {number % 5}", "image": image, "name": name} for name in names]
                try:
                    answer = client.post(url, json={"examples": examples})
                except httpx.TransportError:
                    return  # killed
                if answer.status_code != 201:
                    return
                self.acknowledged.update(names)


def check_integrity(store: str) -> list[str]:
    """Return what the database itself finds wrong."""
    if "://" not in store:
        with sqlite3.connect(store) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        connection.close()
        return ([] if found == ["ok"] else found[:3]) + (["broken references"] if broken else [])
    engine = create_engine(store)
    orphans = (
        "SELECT count(*) FROM gaussproto_examples e LEFT JOIN gaussproto_classes c ON e.class = c.id "
        "AND e.gallery = c.gallery WHERE c.id IS NULL"
    )
    with engine.connect() as connection:
        wrong = connection.execute(text(orphans)).scalar_one()
    engine.dispose()
    return ["broken references"] if wrong else []
