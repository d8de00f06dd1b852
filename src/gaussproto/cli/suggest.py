"""The command `suggest`, which names the images that are most worth labelling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from gaussproto.cli import bulk, console
from gaussproto.cli.encoder import (
    Choice,
    Colours,
    Encoder,
    EngineOption,
    ImageSize,
    InkOption,
    PrepareOption,
    PrototypeOption,
    Strict,
    ViewsOption,
    examples_in,
    fit_examples,
    make_classifier,
    say_encoder,
)
from gaussproto.cli.options import Device, Json
from gaussproto.errors import InputError

if TYPE_CHECKING:
    from gaussproto.classifier.suggest import Suggestion

COLUMNS = ["rank", "image", "value", "label", "probability", "other"]
COPY_HELP = "Copy the suggested images to DIR/CLASS, by their nearest class. Correct the folders, then enroll DIR."


def suggest(
    images: Annotated[list[Path], Argument(metavar="IMAGE...", help="Unlabelled image files or folders of images.")],
    support: Annotated[Path | None, Option(help="Folder with the examples as CLASS/IMAGE files.")] = None,
    gallery: Annotated[Path | None, Option(help="Gallery file with the examples, from `gaussproto enroll`.")] = None,
    number: Annotated[int, Option("--number", "-n", help="Number of images to suggest.", min=1)] = 10,
    encoder: Encoder = None,
    ink: InkOption = None,
    prepare: PrepareOption = None,
    image_size: ImageSize = None,
    mean: Colours = None,
    std: Colours = None,
    prototype: PrototypeOption = None,
    views: ViewsOption = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    recursive: Annotated[bool, Option("--recursive", help="Also search the folders inside folders.")] = False,
    strict: Strict = False,
    copy_to: Annotated[Path | None, Option(metavar="DIR", help=COPY_HELP)] = None,
    json: Json = False,
    csv: Annotated[bool, Option("--csv", help=f"Print CSV with the columns {', '.join(COLUMNS)}.")] = False,
) -> None:
    """Name the images that would teach the classifier most, so that you label these first.

    They are images that the classifier is uncertain of, of good precision and
    unlike each other. Pass the examples as a folder with --support, or as a
    gallery file with --gallery.
    """
    if (support is None) == (gallery is None):
        found = "neither" if gallery is None else "both"
        raise InputError(f"pass the examples with either --support DIR or --gallery FILE (found {found})")
    if json and csv:
        raise InputError("--json and --csv cannot be combined: choose one")
    if copy_to is not None and copy_to.exists() and not copy_to.is_dir():
        raise InputError(f"{copy_to} is a file, not a folder: choose another folder with --copy-to")
    files = bulk.find_files(images, recursive)
    chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device, prototype, views)
    with console.progress_bars() as bars:
        clf = make_classifier(gallery, chosen)
        if support is not None:
            fit_examples(clf, examples_in(support), strict)
            say_encoder(clf, chosen)
        bars("embedding", 0, len(files))
        try:
            found_images = clf.suggest(files, number)
        except InputError:
            problems = {} if strict else bulk.problems_of(files)
            good = [file for file in files if file not in problems]
            if not problems or not good:
                raise
            console.say(f"warning: left out {len(problems)} of {len(files)} images that cannot be read")
            found_images = clf.suggest(good, number)
        bars("embedding", len(files), len(files))
    if copy_to is not None:
        pairs = [(Path(each.name), str(each.label)) for each in found_images]
        copies = set(bulk.copy_sorted(pairs, copy_to))
    if json:
        console.print_json({"images": [_entry(rank, each) for rank, each in enumerate(found_images, start=1)]})
    elif csv:
        entries = (_entry(rank, each) for rank, each in enumerate(found_images, start=1))
        console.print_csv(COLUMNS, [[entry[column] for column in COLUMNS] for entry in entries])
    elif not found_images:
        console.say(f"none of the {console.number(len(files), 'image')} has ink: nothing to suggest")
    else:
        rows = [
            [str(rank), each.name, f"{each.value:.3f}", str(each.label), f"{each.probability:.3f}", str(each.other)]
            for rank, each in enumerate(found_images, start=1)
        ]
        console.print_table("", ["", "image", "value", "nearest class", "probability", "or"], rows)
    if copy_to is not None:
        console.say(
            f"{len(copies)} copies are in {copy_to}, by their nearest class: correct them before you enroll them"
        )


def _entry(rank: int, each: Suggestion) -> dict[str, Any]:
    return {
        "rank": rank,
        "image": each.name,
        "value": round(each.value, 6),
        "label": each.label,
        "probability": round(each.probability, 6),
        "other": each.other,
    }
