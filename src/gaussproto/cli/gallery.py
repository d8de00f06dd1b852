"""The commands `gallery list`, `remove`, `rename` and `merge`. They need neither the network nor its weights."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from gaussproto.cli import console
from gaussproto.cli.examples import Listed
from gaussproto.cli.options import Json
from gaussproto.errors import InputError
from gaussproto.files import real_path

if TYPE_CHECKING:
    from gaussproto.classifier.gallery import Gallery

DIGEST = 12  # characters of a digest that are shown

GalleryFile = Annotated[Path, Argument(metavar="GALLERY", help="Gallery file, from `gaussproto enroll` or `save`.")]

gallery = typer.Typer(
    help="List, remove, rename or merge the classes of gallery files. The weights of the network are not needed.",
    invoke_without_command=True,
)


@gallery.callback()
def group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@gallery.command("list")
def list_(
    file: GalleryFile,
    examples: Annotated[bool, Option("--examples", help="List every example, not only each class.")] = False,
    json: Json = False,
) -> None:
    """Show how a gallery was made, and its classes."""
    from gaussproto.classifier.gallery import read_gallery

    found = read_gallery(file)
    listed = _listed(found)
    about = _about(found)
    if json:
        parts = {"per_class": listed.classes_as_json()} | ({"examples": listed.as_json()} if examples else {})
        return console.print_json({"gallery": str(file)} | about | _counts(found) | parts)
    console.print_table(str(file), ["setting", "value"], _rows(about | _counts(found)))
    return listed.print_examples() if examples else listed.print_classes()


@gallery.command()
def remove(
    file: GalleryFile,
    classes: Annotated[list[str] | None, Argument(metavar="[CLASS]...", help="Classes to remove.")] = None,
    example: Annotated[
        list[str] | None,
        Option(metavar="FILE", help="Remove the example of this file, by its name or path. Can be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Remove classes, or single examples. Two classes must remain."""
    from gaussproto.classifier import gallery_edit

    classes, example = classes or [], example or []
    if not classes and not example:
        raise InputError("nothing to remove: name a class, or pass an example with --example FILE")
    with _changing(file) as before:
        after = gallery_edit.remove(before, classes, example)
        _write(after, file)
    left, fewer = set(after.labels), len(before.labels) - len(after.labels)
    gone = [label for label in before.classes if label not in left]
    if json:
        removed = {"removed_classes": gone, "removed_examples": fewer}
        return console.print_json({"gallery": str(file)} | removed | _counts(after))
    for label in gone:
        if str(label) not in classes:
            console.say(f"the class {label!r} had no other example, so it was removed too")
    classes_too = f"{console.number(len(gone), 'class')} and " if gone else ""
    return console.say(f"{file}: removed {classes_too}{console.number(fewer, 'example')}; {_size(after)}")


@gallery.command()
def rename(
    file: GalleryFile,
    old: Annotated[str, Argument(metavar="OLD", help="Class to rename.")],
    new: Annotated[str, Argument(metavar="NEW", help="Its new name.")],
    join: Annotated[bool, Option("--join", help="Add the examples of OLD to the class NEW, which exists.")] = False,
    json: Json = False,
) -> None:
    """Rename a class, or join it with another one."""
    from gaussproto.classifier import gallery_edit

    with _changing(file) as before:
        after = gallery_edit.rename(before, old, new, join)
        _write(after, file)
    i = next(i for i, label in enumerate(before.labels) if str(label) == old)
    labels: tuple[Hashable, Hashable] = before.labels[i], after.labels[i]
    moved = before.labels.count(labels[0])
    if json:
        found = {"old": labels[0], "new": labels[1], "renamed_examples": moved, "joined": join}
        return console.print_json({"gallery": str(file)} | found | _counts(after))
    done = f"joined the class {labels[0]!r} with" if join else f"renamed the class {labels[0]!r} to"
    return console.say(f"{file}: {done} {labels[1]!r} ({console.number(moved, 'example')}); {_size(after)}")


@gallery.command()
def merge(
    out: Annotated[Path, Argument(metavar="OUT", help="Gallery file to write. It may be one of the others.")],
    files: Annotated[list[Path], Argument(metavar="GALLERY GALLERY...", help="Gallery files of the same weights.")],
    json: Json = False,
) -> None:
    """Merge galleries into one. Duplicates are skipped."""
    from gaussproto.classifier import gallery_edit
    from gaussproto.classifier.gallery import check_exists, gallery_lock, read_gallery

    if len(files) < 2:
        raise InputError(f"merge needs at least two galleries after OUT (found {len(files)}): add another one")
    for file in files:
        check_exists(file)
    with gallery_lock(out):
        if os.path.lexists(out) and real_path(out) not in map(real_path, files):
            raise InputError(f"{out} exists already: choose another name for OUT, or also pass it as a GALLERY")
        merged = gallery_edit.merge([(file, read_gallery(file)) for file in files])
        _write(merged.gallery, out)
    if json:
        found = {"known": merged.known, "joined": merged.joined, "overruled": merged.overruled}
        return console.print_json({"gallery": str(out)} | found | _counts(merged.gallery))
    if merged.joined:
        console.say(f"in several galleries, so joined: {', '.join(map(str, merged.joined))}")
    if merged.overruled:
        console.say(f"the galleries differ in {', '.join(merged.overruled)}: kept what {files[0]} has")
    done = f"merged {len(files)} galleries, skipped {console.number(merged.known, 'duplicate')}"
    return console.say(f"{out}: {done}; {_size(merged.gallery)}")


@contextmanager
def _changing(file: Path) -> Iterator[Gallery]:
    """Yield a gallery, which no other process can change before the block ends."""
    from gaussproto.classifier.gallery import check_exists, gallery_lock, read_gallery

    check_exists(file)  # a lock would create its folder
    with gallery_lock(file):
        yield read_gallery(file)


def _write(changed: Gallery, file: Path) -> None:
    from gaussproto.classifier.gallery import write_gallery

    write_gallery(changed.settings, changed.examples(), file)


def _listed(found: Gallery) -> Listed:
    examples = found.examples()
    return Listed(examples.classes, examples.labels, examples.names, examples.weights.tolist())


def _about(found: Gallery) -> dict[str, Any]:
    """Return how the embeddings of a gallery were computed, and how they are compared."""
    settings = found.settings
    vectors = settings.features is not None
    return {
        "encoder": settings.source,
        "digest": settings.digest,
        "distance": settings.distance,
        "ink": None if vectors else settings.ink_used,
        "image_size": None if vectors else settings.image_size_used,
        "views": settings.views if settings.views > 1 else None,
        "features": settings.features,
        "temperature": settings.temperature,
        "reject": settings.reject,
    }


def _rows(about: dict[str, Any]) -> list[list[str]]:
    """Return what is known about a gallery as rows of a table."""
    encoder = f"{about['encoder'] or 'a network in memory'} (digest {about['digest'][:DIGEST]})"
    distance = about["distance"] or "that of the weights"
    shown: dict[str, Any] = {**about, "encoder": encoder, "digest": None, "distance": distance}
    names: dict[str, str] = {"image_size": "image size", "total_examples": "examples"}
    return [[names.get(name, name), str(value)] for name, value in shown.items() if value is not None]


def _counts(found: Gallery) -> dict[str, int]:
    return {"classes": len(found.classes), "total_examples": len(found.labels)}


def _size(found: Gallery) -> str:
    classes, examples = console.number(len(found.classes), "class"), console.number(len(found.labels), "example")
    return f"the gallery has {classes} and {examples}"
