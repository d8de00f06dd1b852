"""Fetch a file over HTTP: resumed where it stopped, retried, checked, and renamed only when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gaussproto.errors import InputError

CHUNK = 1 << 16  # bytes: some hundred updates of a progress bar for the largest file


def download(
    url: str,
    path: Path,
    md5: str,
    progress: Callable[[int, int | None], None] = lambda done, total: None,  # bytes so far, bytes in all if known
    retries: int = 5,
    wait: float = 1.0,
) -> Path:
    """Fetch `url` to `path`, unless it is there already with the right checksum.

    What has arrived stays in `path`.part, so that the next try, or the next call, asks only for the rest.
    """
    if path.exists() and file_md5(path) == md5:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write to {path.parent} ({error.strerror}): set GAUSSPROTO_CACHE to a folder"
        ) from error
    part = path.with_name(path.name + ".part")
    problem: Exception | str = "no try was made"
    for attempt in range(retries):
        if attempt:
            time.sleep(wait * 2 ** (attempt - 1))
        try:
            _fetch_rest(url, part, progress)
        except urllib.error.HTTPError as error:
            problem = f"the server answered {error.code} {error.reason}"
            if error.code == 416:  # our part is longer than the file: it is not ours
                part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):  # a timeout, and too many at once, pass
                break
            continue
        except (OSError, http.client.HTTPException) as error:
            problem = error
            continue
        found = file_md5(part)
        if found == md5:
            part.replace(path)
            return path
        problem = f"its checksum is {found}, not {md5}"
        part.unlink()
    raise InputError(
        f"could not download {url} ({problem}): try again later (what has arrived is kept), or put "
        f"{path.name} into a folder of your own and name that folder with --data-root"
    )


def file_md5(path: Path) -> str:
    """The MD5 checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _fetch_rest(url: str, part: Path, progress: Callable[[int, int | None], None]) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        resumed = answer.status == 206
        start = start if resumed else 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                start += len(chunk)
                progress(start, total)
    if total is not None and start < total:
        raise OSError(f"the connection closed after {start:,} of {total:,} bytes")
