"""The log of a training, `log.jsonl`: a line for every few episodes. Each line ends with its checksum."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gaussproto.errors import InputError
from gaussproto.files import append, read_file, sync_file
from gaussproto.runs.metrics import LogRecord, parse_json

LARGEST = 1 << 28  # bytes, a million lines
CHECKSUM = ',"crc32":"'  # followed by eight hexadecimal digits, a quotation mark and the closing brace


class Log:
    """An open log."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, record: LogRecord) -> None:
        print(with_checksum(record.model_dump_json()), file=self.file)

    def sync(self) -> None:
        """Make sure that the lines survive a power cut."""
        sync_file(self.file)


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    with append(path) as file:
        yield Log(file)


def read_log(path: Path) -> tuple[list[tuple[str, LogRecord]], list[InputError]]:
    """Return the lines of a log with their records, and the problems of damaged lines.

    A last line without an end is no problem, because it may still be being written.
    """
    lines, problems = list[tuple[str, LogRecord]](), list[InputError]()
    if not path.exists():
        return lines, problems
    for line in read_file(path, "log", LARGEST).decode(errors="replace").splitlines(keepends=True):
        text = line.rstrip("\r\n")
        try:
            lines.append((text, _parse(text, path)))
        except InputError as error:
            problems += [error] if text != line else []
    return lines, problems


def with_checksum(text: str) -> str:
    return f'{text[:-1]}{CHECKSUM}{zlib.crc32(text.encode()):08x}"}}'


def _parse(line: str, path: Path) -> LogRecord:
    """Return the record in a line. Lines of earlier versions have no checksum."""
    text, found, _ = line.rpartition(CHECKSUM)
    if found and with_checksum(text + "}") != line:
        raise InputError(f"{path} has a line whose checksum does not match")
    return parse_json(LogRecord, text + "}" if found else line, str(path))
