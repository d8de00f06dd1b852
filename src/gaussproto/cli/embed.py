"""The command `embed`, which writes the embeddings of many images, and what it shares with `classify --out`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from gaussproto.cli import console
from gaussproto.cli.encoder import (
    Colours,
    Encoder,
    EngineOption,
    ImageSize,
    InkOption,
    PrepareOption,
    Strict,
    colours,
)
from gaussproto.cli.options import Device, Json
from gaussproto.progress import Progress
from gaussproto.training.memory import use_large_pages

if TYPE_CHECKING:
    from gaussproto.bulk.pipeline import BulkResult

SHOWN = 3  # unreadable files that a message names

OnOption = Annotated[
    Literal["local", "ray"],
    Option("--on", metavar="WHERE", help="Where the work is done: local (this machine) or ray (a Ray cluster)."),
]
Processes = Annotated[int | None, Option(help="Number of processes that read images. Default: the cores.", min=1)]
SOURCE_HELP = (
    "Image files, folders (with the folders inside), or lists: .txt with a path in each line, .csv or .parquet with "
    "the column path."
)


def embed(
    sources: Annotated[list[Path], Argument(metavar="SOURCE...", help=SOURCE_HELP)],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the Parquet files. Started again, it continues.")],
    encoder: Encoder = None,
    ink: InkOption = None,
    prepare: PrepareOption = None,
    image_size: ImageSize = None,
    mean: Colours = None,
    std: Colours = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    on: OnOption = "local",
    processes: Processes = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Embed many images with flat memory, and write the embeddings as Parquet files.

    Each image gets a row with its path, label, embedding and precision. A file
    that cannot be read gets a row with the reason. After a stop, start the same
    command again: it continues.
    """
    use_large_pages()
    from gaussproto.bulk.embed import embed_files

    with console.progress_bars() as bars:
        result = embed_files(
            sources,
            out,
            encoder or "auto",
            ink=ink or "auto",
            prepare=prepare or "auto",
            image_size=image_size,
            mean=colours("mean", mean),
            std=colours("std", std),
            engine=engine,
            device=device,
            on=on,
            processes=processes,
            strict=strict,
            progress=with_rate(bars),
        )
    say_result(result, json)


def with_rate(bars: console.Bars) -> Progress:
    """Return a progress callback that also shows the images per second since its first call."""
    first: list[tuple[int, float]] = []

    def show(what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        before, start = first[0] if first else (done, now)
        if not first:
            first.append((done, now))
        rate = (done - before) / max(now - start, 1e-9) if done > before else 0.0
        bars(what, done, total, f"{rate:,.0f} images/s" if rate else "")

    return show


def say_result(result: BulkResult, json: bool) -> None:
    """Say what was done, and exit with a code that tells if it was stopped."""
    if json:
        found: dict[str, Any] = asdict(result) | {"path": str(result.path)}
        found["stopped_by"] = result.stopped_by.name if result.stopped_by else None
        console.print_json(found)
    if result.unreadable:
        reasons = [f"{path} {problem}" for path, problem in result.problems.items()]
        more = f"; and {result.unreadable - SHOWN:,} more" if result.unreadable > SHOWN else ""
        count = console.number(result.unreadable, "image")
        console.say(f"{count} could not be read ({'; '.join(reasons[:SHOWN])}{more})")
    if result.blank:
        console.say(f"{console.number(result.blank, 'image')} without ink")
    rate = result.new / max(result.seconds, 1e-9)
    speed = f" in {result.seconds:.0f} s ({rate:,.0f} images/s)" if result.new else ""
    count = console.number(result.new, "new image")
    if result.unreadable:
        count += f" ({result.unreadable:,} unreadable)"
    if result.stopped_by:
        console.say(f"stopped after {count}{speed}; to continue, start the same command again")
        raise Exit(128 + result.stopped_by)
    console.say(f"{count}{speed}; the rows of {console.number(result.images, 'image')} are in {result.path}")
