"""Download a file with pooch: retry, resume a broken download, and rename the file only if the checksum matches."""

import http.client
import logging
import time
from pathlib import Path
from typing import Any

from gaussproto.errors import InputError
from gaussproto.files import ABANDONED, locked, make_folder, sync_path
from gaussproto.progress import Progress, silent

CHUNK = 1 << 13  # bytes; a broken connection loses at most one chunk
DOWNLOAD_WAIT = 3600  # seconds to wait for another process that downloads to the same folder


def download(url: str, path: Path, md5: str, progress: Progress = silent, retries: int = 4) -> Path:
    """Download `url` to `path`, unless the file exists and has this checksum.

    An incomplete download stays in `path`.part, and the next attempt or call requests only the rest.
    """
    import pooch  # slow to import and rarely needed

    part = path.with_name(path.name + ".part")

    def fetch(url: str, output_file: str, _: Any) -> None:
        _fetch_rest(url, part, progress)
        sync_path(part)
        part.replace(output_file)  # pooch checks the checksum, then renames or removes the file

    registry, urls = {path.name: f"md5:{md5}"}, {path.name: url}
    files = pooch.create(path.parent, base_url="", registry=registry, urls=urls, retry_if_failed=retries)
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # otherwise it prints a line for each attempt between our progress bars
    try:
        make_folder(path.parent)
        with locked(path.parent / ".download.lock", path, "wait until it has finished", wait=DOWNLOAD_WAIT):
            for left in path.parent.glob("tmp????????"):  # by pooch, in a process that was killed
                if left.is_file() and time.time() - left.stat().st_mtime > ABANDONED:
                    left.unlink(missing_ok=True)
            return Path(files.fetch(path.name, downloader=fetch))
    except InputError:
        raise
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        hint = "set GAUSSPROTO_CACHE to a writable folder"
        raise InputError(f"cannot write to {path.parent} ({_reason(error)}): {hint}") from error
    except (OSError, ValueError) as error:
        reason = _reason(error) if isinstance(error, OSError) else f"the file does not have the checksum {md5}"
        raise InputError(
            f"cannot download {url} ({reason}): try again later to resume the download, or put {path.name} into a "
            "folder and pass that folder as --data-root"
        ) from error
    finally:
        logger.setLevel(level)


def _fetch_rest(url: str, part: Path, progress: Progress) -> None:
    import requests

    done = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with requests.get(url, headers=headers, stream=True, timeout=30) as answer:
        if not answer.ok:
            if answer.status_code == 416:  # the part is longer than the file, so it belongs to another file
                part.unlink(missing_ok=True)
            temporary = answer.status_code >= 500 or answer.status_code in (408, 416, 429)
            kind = requests.HTTPError if temporary else OSError  # pooch retries only after the first kind
            raise kind(f"the server answered {answer.status_code} {answer.reason}")
        if answer.status_code != 206:  # the server sends the whole file, not the rest
            done = 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if done else "wb") as file:
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(f"downloading {part.stem}", done, total)


def _reason(error: BaseException) -> str:
    while cause := error.__cause__ or error.__context__:  # requests and pooch wrap the most informative error
        error = cause
    if isinstance(error, http.client.IncompleteRead):
        return f"the connection closed {error.expected:,} bytes before the end"
    return getattr(error, "strerror", None) or str(error)
