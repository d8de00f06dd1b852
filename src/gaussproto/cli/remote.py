"""Classify images with a gallery of a server that `gaussproto serve` runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gaussproto.errors import InputError, did_you_mean, shortened
from gaussproto.files import read_file

TOGETHER, BYTES = 32, 32_000_000  # images and bytes of a request
TRIES = 5  # if the server is busy
WAIT = 120  # seconds for an answer
TOO_MUCH = (413, 422)  # the answers to a request with a file that the server does not take
ONE = "the image"  # what a server calls a file; its path is nothing that a server must know


class RefusedError(InputError):
    """The server refused a request, but it may take a smaller one."""


class Remote:
    """A gallery of a server.

    Args:
        server: the address of the server.
        gallery: the name or the id of the gallery.
        token: the token of the server, or None.
    """

    def __init__(self, server: str, gallery: str, token: str | None) -> None:
        if not server.lower().startswith(("http://", "https://")):
            raise InputError(f"--server must begin with http:// or https:// (found {server!r})")
        self.url = f"{server.rstrip('/')}/api/v1"
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        listed = self._ask("GET", "/galleries")
        by_id, by_name = ([each for each in listed if gallery == each[key]] for key in ("id", "name"))
        found = by_id or by_name
        if not found:
            names = [each["name"] for each in listed]
            hint = did_you_mean(gallery, names, f"it has {', '.join(map(repr, names[:5])) or 'none'}")
            raise InputError(f"the server has no gallery {gallery!r}: {hint}")
        if len(found) > 1:
            ids = ", ".join(each["id"] for each in found)
            raise InputError(f"the server has {len(found)} galleries {gallery!r}: pass one of their ids ({ids})")
        self.id: str = found[0]["id"]
        self.classes: int = found[0]["classes"]

    def classify(self, files: Sequence[Path], top: int, strict: bool) -> Iterator[list[dict[str, Any]]]:
        """Yield answers, like those of `answers_of`, for some files after others."""
        for some in _groups(files):
            try:
                yield self._classify(some, top)
            except RefusedError:  # because of some of the files, or because they are too many
                yield [self._classify_one(each, top, strict) for each in some]

    def _classify_one(self, one: tuple[Path, bytes], top: int, strict: bool) -> dict[str, Any]:
        try:
            return self._classify([one], top)[0]
        except RefusedError as error:
            sentence = str(error).replace(ONE, str(one[0]))
            if strict:
                raise InputError(f"the server says: {sentence}") from None
            return {"image": str(one[0]), "problem": sentence.removeprefix(f"{one[0]} ")}

    def _classify(self, some: Sequence[tuple[Path, bytes]], top: int) -> list[dict[str, Any]]:
        parts = [("files", (ONE, content)) for _, content in some]
        query = {"top": top, "nearest": 0}
        found = self._ask("POST", f"/galleries/{self.id}/classify", params=query, files=parts)["answers"]
        return [
            {
                "image": str(file),
                "unknown": answer["unknown"],
                "blank": answer["blank"],
                "top": [
                    {"label": each["name"], "probability": each["probability"], "distance": each["distance"]}
                    for each in answer["classes"]
                ],
            }
            for (file, _), answer in zip(some, found, strict=True)
        ]

    def _ask(self, method: str, path: str, **named: Any) -> Any:
        import requests

        for attempt in range(TRIES):
            try:
                answer = requests.request(method, self.url + path, headers=self.headers, timeout=WAIT, **named)
            except (requests.RequestException, ValueError) as error:
                reason = type(error).__name__
                raise InputError(f"cannot reach the server {self.url} ({reason}): check --server") from None
            if answer.status_code != 503 or attempt == TRIES - 1:
                break
            time.sleep(min(10.0, _number(answer.headers.get("retry-after"), 1.0)))
        try:
            content = answer.json()
        except ValueError:
            raise InputError(f"{self.url} is not a server of gaussproto: check --server") from None
        if not answer.ok:
            sentence = content.get("error") if isinstance(content, dict) else None
            if sentence and answer.status_code in TOO_MUCH:
                raise RefusedError(sentence)
            raise InputError(f"the server says: {sentence or shortened(content)}")
        return content


def _groups(files: Sequence[Path]) -> Iterator[list[tuple[Path, bytes]]]:
    """Yield files with their content, some at a time."""
    group: list[tuple[Path, bytes]] = []
    for file in files:
        group.append((file, read_file(file, "image file")))
        if len(group) == TOGETHER or sum(len(content) for _, content in group) > BYTES:
            yield group
            group = []
    if group:
        yield group


def _number(text: str | None, otherwise: float) -> float:
    try:
        return float(text or otherwise)
    except ValueError:
        return otherwise
