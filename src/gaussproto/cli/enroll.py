"""The command `enroll`, which stores examples in a gallery."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from gaussproto.cli import console
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
    without_unreadable_files,
)
from gaussproto.cli.examples import Listed
from gaussproto.cli.options import Device, Json

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier


def enroll(
    gallery: Annotated[Path, Argument(metavar="GALLERY", help="Gallery file to create or extend.")],
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder with the examples as CLASS/IMAGE files.")],
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
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Add examples to a gallery file, creating it if needed. Duplicates are skipped.

    Afterwards, `gaussproto classify --gallery` needs this file, but not the images.
    """
    from gaussproto.classifier.gallery import gallery_lock

    files = examples_in(folder)
    total = readable = len(files)
    with console.progress_bars() as bars, gallery_lock(gallery):
        exists = gallery.exists()
        chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device, prototype, views)
        clf = make_classifier(gallery if exists else None, chosen)
        bars("enrolling", 0, total)
        if exists:
            files, readable = without_unreadable_files(lambda some: (_not_known(clf, some), len(some)), files, strict)
        if files:
            new = fit_examples(clf, files, strict)
            files, readable = new, readable - (len(files) - len(new))
            clf.save(gallery)
        if not exists:
            say_encoder(clf, chosen)
        bars("enrolling", total, total)
    parts = clf.classes_.tolist(), clf.example_labels_.tolist(), clf.example_names_, clf.example_weights_.tolist()
    listed = Listed(*parts)
    if json:
        counts = {"classes": len(clf.classes_), "added": len(files), "known": readable - len(files)}
        counts["unreadable"] = total - readable
        return console.print_json({"gallery": str(gallery)} | counts | {"examples": listed.as_json()})
    listed.print_classes()
    added, skipped = f"added {len(files)} examples", f"skipped {readable - len(files)} duplicates"
    left_out = f", left out {total - readable} unreadable files" if readable < total else ""
    return console.say(f"{gallery}: {added}, {skipped}{left_out}; the gallery has {len(clf.classes_)} classes")


def _not_known(clf: GaussianPrototypeClassifier, files: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Return the files whose embedding differs from all examples of the same class."""
    from gaussproto.classifier.examples import not_known

    x, names = clf.transform([file for file, _ in files]), [name for _, name in files]
    return [files[i] for i in not_known(clf.example_embeddings_, clf.example_labels_.tolist(), x, names)]
