"""The commands `classify` and `enroll`, which classify images by examples and store examples in a gallery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.text import Text
from typer import Argument, Option

from gaussproto.cli import console
from gaussproto.cli.examples import Listed
from gaussproto.cli.options import Device, Json
from gaussproto.errors import InputError

if TYPE_CHECKING:
    from gaussproto.classifier.confidence import Confidence
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

DEFAULT_ENCODER = "omniglot-small"
CHUNK = 256  # images between two steps of the progress bar

ENCODER_HELP = "Bundled weights, .safetensors or ONNX file, or run folder. Default: the encoder of the gallery, or "
Encoder = Annotated[str | None, Option(help=f"{ENCODER_HELP}{DEFAULT_ENCODER}.")]
EngineOption = Annotated[
    Literal["torch", "onnx"] | None,
    Option(help="Library that runs the network: torch (default) or onnx, which starts faster. ONNX files use onnx."),
]
InkOption = Annotated[
    Literal["auto", "detect", "bright", "dark"] | None,
    Option(
        metavar="INK",
        help="Ink of the images: bright (on a dark background), dark (on a light one), detect (decide for each image) "
        "or auto (what the weights expect). Default: auto.",
    ),
]
REJECT_HELP = (
    "Report images that are far from every class as unknown. RATE: fraction of known images that may be wrongly "
    "rejected, e.g. 0.05."
)
EXPLAIN_HELP = (
    "Draw each image with its nearest classes and the weights of their examples (.png or .svg). With several images, "
    "write OUT-NAME.png for each."
)
CSV_COLUMNS = ["image", "rank", "label", "probability", "distance", "unknown"]


def classify(
    images: Annotated[list[Path], Argument(metavar="IMAGE...", help="Image files or folders of images to classify.")],
    support: Annotated[Path | None, Option(help="Folder with the examples as CLASS/IMAGE files.")] = None,
    gallery: Annotated[Path | None, Option(help="Gallery file with the examples, from `gaussproto enroll`.")] = None,
    encoder: Encoder = None,
    ink: InkOption = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    top: Annotated[int, Option(help="Number of classes to list for each image.", min=1)] = 3,
    reject: Annotated[float | None, Option(metavar="RATE", help=REJECT_HELP)] = None,
    explain: Annotated[Path | None, Option(metavar="OUT.png", help=EXPLAIN_HELP)] = None,
    json: Json = False,
    csv: Annotated[bool, Option("--csv", help=f"Print CSV with the columns {', '.join(CSV_COLUMNS)}.")] = False,
) -> None:
    """Classify images by a few examples of each class, without training.

    Pass the examples as a folder with --support, or as a gallery file with --gallery.
    """
    from gaussproto.classifier.explain import check_picture
    from gaussproto.classifier.inputs import list_images

    if (support is None) == (gallery is None):
        found = "neither" if gallery is None else "both"
        raise InputError(f"pass the examples with either --support DIR or --gallery FILE (found {found})")
    if json and csv:
        raise InputError("--json and --csv cannot be combined: choose one")
    files = [file for path in images for file in list_images(path)[0]]
    if explain is not None:
        check_picture(explain)
    with console.progress_bars() as bars:
        clf = _classifier(gallery, encoder, ink, engine, device)
        if support is not None:
            clf.fit(support)
        if reject is not None:
            clf.set_params(reject=reject)
        answers: list[dict[str, Any]] = []
        chunk = CHUNK if explain is None else len(files)
        for start in range(0, len(files), chunk):
            confidence = clf.confidence(files[start : start + chunk])
            answers += _answers(clf, confidence, top)
            bars("classifying", len(answers), len(files))
        if explain is not None:
            pictures = clf.explain(confidence, explain, top)
    if json:
        console.print_json({"classes": len(clf.classes_), "images": answers})
    elif csv:
        console.print_csv(CSV_COLUMNS, list(_csv_lines(answers)))
    else:
        columns = ["image", "class", "probability", "other classes"][: 3 if top == 1 else 4]
        console.print_table("", columns, [_row(answer)[: len(columns)] for answer in answers])
    if explain is not None:
        console.say(f"wrote {pictures[0]}" + (f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""))


def enroll(
    gallery: Annotated[Path, Argument(metavar="GALLERY", help="Gallery file to create or extend.")],
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder with the examples as CLASS/IMAGE files.")],
    encoder: Encoder = None,
    ink: InkOption = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Add examples to a gallery file, creating it if needed. Duplicates are skipped.

    Afterwards, `gaussproto classify --gallery` needs this file, but not the images.
    """
    from gaussproto.classifier.gallery import gallery_lock
    from gaussproto.data.picture import class_files

    files = [(file, name) for name, some in class_files(folder).items() for file in some]
    total = len(files)
    with console.progress_bars() as bars, gallery_lock(gallery):
        exists = gallery.exists()
        clf = _classifier(gallery if exists else None, encoder, ink, engine, device)
        bars("enrolling", 0, total)
        if exists:
            files = _not_known(clf, files)
        if files:
            clf.partial_fit([file for file, _ in files], [name for _, name in files])
            clf.save(gallery)
        bars("enrolling", total, total)
    parts = clf.classes_.tolist(), clf.example_labels_.tolist(), clf.example_names_, clf.example_weights_.tolist()
    listed = Listed(*parts)
    if json:
        counts = {"classes": len(clf.classes_), "added": len(files), "known": total - len(files)}
        return console.print_json({"gallery": str(gallery)} | counts | {"examples": listed.as_json()})
    listed.print_classes()
    added, skipped = f"added {len(files)} examples", f"skipped {total - len(files)} duplicates"
    return console.say(f"{gallery}: {added}, {skipped}; the gallery has {len(clf.classes_)} classes")


def _classifier(
    gallery: Path | None, encoder: str | None, ink: Any, engine: Any, device: str
) -> GaussianPrototypeClassifier:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier
    from gaussproto.classifier.load import load

    if gallery is None:
        return GaussianPrototypeClassifier(encoder or DEFAULT_ENCODER, ink=ink or "auto", engine=engine, device=device)
    clf = load(gallery, encoder, engine, device)
    if ink not in (None, "auto", clf.encoder_.ink):
        remedy = "leave out --ink, or create another gallery"
        raise InputError(f"{gallery} was made with --ink {clf.encoder_.ink} (found --ink {ink}): {remedy}")
    if clf.encoder_.takes_vectors:
        raise InputError(f"the examples in {gallery} are vectors, not images: use the gallery from Python")
    return clf


def _answers(clf: GaussianPrototypeClassifier, found: Confidence, k: int) -> Iterator[dict[str, Any]]:
    """Yield for each image its k nearest classes, nearest first, and whether it is unknown."""
    labels = clf.classes_.tolist()
    for name, d, p, unknown in zip(found.names, found.distances, found.probabilities, found.unknown, strict=True):
        nearest = d.argsort(kind="stable")[:k]
        top = [{"label": labels[c], "probability": float(p[c]), "distance": float(d[c])} for c in nearest]
        yield {"image": name, "unknown": bool(unknown), "top": top}


def _csv_lines(answers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for answer in answers:
        for rank, entry in enumerate(answer["top"], start=1):
            numbers = (f"{entry[key]:.6f}" for key in ("probability", "distance"))
            yield [answer["image"], rank, str(entry["label"]), *numbers, str(answer["unknown"]).lower()]


def _row(answer: dict[str, Any]) -> list[str | Text]:
    best, *others = [(str(entry["label"]), f"{entry['probability']:.3f}") for entry in answer["top"]]
    if answer["unknown"]:
        nearest = ", ".join(map(" ".join, (best, *others)))
        return [answer["image"], Text("unknown", style="italic"), "", f"nearest: {nearest}"]
    return [answer["image"], *best, ", ".join(map(" ".join, others))]


def _not_known(clf: GaussianPrototypeClassifier, files: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Return the files whose embedding differs from all examples of the same class."""
    from gaussproto.classifier.examples import not_known

    x, names = clf.transform([file for file, _ in files]), [name for _, name in files]
    return [files[i] for i in not_known(clf.example_embeddings_, clf.example_labels_.tolist(), x, names)]
