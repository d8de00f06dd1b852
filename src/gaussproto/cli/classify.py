"""The commands `classify` and `enroll`, which classify images by examples and store examples in a gallery."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from rich.text import Text
from typer import Argument, Option

from gaussproto.cli import bulk, console
from gaussproto.cli.options import Device, Json
from gaussproto.errors import InputError

if TYPE_CHECKING:
    from gaussproto.classifier.confidence import Confidence
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier
    from gaussproto.report.sheet import Answer

T = TypeVar("T")
Examples = list[tuple[Path, str]]

SHOWN = 5e-4  # the least probability on a contact sheet
BLANK = "blank"  # an image without ink
CHUNK = 256  # images between two steps of the progress bar
SAME = 1e-4  # relative difference below which two embeddings belong to the same image, up to rounding

Encoder = Annotated[
    str | None,
    Option(
        help="drawings-small, drawings-big, photo, a .safetensors or ONNX file, or a run folder. Default: that of the "
        "gallery, or the one that fits the examples."
    ),
]
PrepareOption = Annotated[
    Literal["auto", "ink", "none"] | None,
    Option(
        metavar="PREPARE",
        help="Preparation of drawings: ink (find the ink, remove uneven light, specks and frames, centre it in one "
        "size), none, or auto (what the weights expect). Default: auto.",
    ),
]
ImageSize = Annotated[int | None, Option(help="Side in pixels that images are resized to. Default: of the encoder.")]
Colours = Annotated[
    str | None, Option(metavar="R,G,B", help="For an ONNX model of another library. Default: ImageNet's.")
]
Strict = Annotated[bool, Option("--strict", help="Stop at the first file that cannot be read.")]
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
SHEET_HELP = "Write an HTML page with small pictures of the images, grouped by class, the least certain first."
COPY_HELP = "Copy each image to DIR/CLASS, to DIR/unknown with --reject, or to DIR/unreadable."
EXPLAIN_HELP = (
    "Draw each image with its nearest classes and the weights of their examples (.png or .svg). With several images, "
    "write OUT-NAME.png for each."
)
CSV_COLUMNS = ["image", "rank", "label", "probability", "distance", "unknown", "problem"]


def classify(
    images: Annotated[list[Path], Argument(metavar="IMAGE...", help="Image files or folders of images to classify.")],
    support: Annotated[Path | None, Option(help="Folder with the examples as CLASS/IMAGE files.")] = None,
    gallery: Annotated[Path | None, Option(help="Gallery file with the examples, from `gaussproto enroll`.")] = None,
    encoder: Encoder = None,
    ink: InkOption = None,
    prepare: PrepareOption = None,
    image_size: ImageSize = None,
    mean: Colours = None,
    std: Colours = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    recursive: Annotated[bool, Option("--recursive", help="Also search the folders inside folders.")] = False,
    strict: Strict = False,
    top: Annotated[int, Option(help="Number of classes to list for each image.", min=1)] = 3,
    reject: Annotated[float | None, Option(metavar="RATE", help=REJECT_HELP)] = None,
    explain: Annotated[Path | None, Option(metavar="OUT.png", help=EXPLAIN_HELP)] = None,
    sheet: Annotated[Path | None, Option(metavar="OUT.html", help=SHEET_HELP)] = None,
    copy_to: Annotated[Path | None, Option(metavar="DIR", help=COPY_HELP)] = None,
    json: Json = False,
    csv: Annotated[bool, Option("--csv", help=f"Print CSV with the columns {', '.join(CSV_COLUMNS)}.")] = False,
) -> None:
    """Classify images by a few examples of each class, without training.

    Pass the examples as a folder with --support, or as a gallery file with --gallery.
    """
    from gaussproto.classifier.explain import check_picture

    if (support is None) == (gallery is None):
        found = "neither" if gallery is None else "both"
        raise InputError(f"pass the examples with either --support DIR or --gallery FILE (found {found})")
    if json and csv:
        raise InputError("--json and --csv cannot be combined: choose one")
    files = bulk.find_files(images, recursive)
    if sheet is not None and sheet.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the contact sheet must end in .html (found {sheet}): change its name")
    if copy_to is not None and copy_to.exists() and not copy_to.is_dir():
        raise InputError(f"{copy_to} is a file, not a folder: choose another folder with --copy-to")
    if explain is not None:
        check_picture(explain)
    with console.progress_bars() as bars:
        chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device)
        clf = _classifier(gallery, chosen)
        if support is not None:
            _fit(clf, examples_in(support), strict)
            _say_encoder(clf, chosen)
        if reject is not None:
            clf.set_params(reject=reject)
        answers: list[dict[str, Any]] = []
        chunk = CHUNK if explain is None else len(files)
        for start in range(0, len(files), chunk):
            some, confidence = _classify(clf, files[start : start + chunk], top, strict)
            answers += some
            bars("classifying", len(answers), len(files))
        pictures = clf.explain(confidence, explain, top) if explain is not None and confidence is not None else []
        if sheet is not None:
            from gaussproto.report.sheet import write_sheet

            bars("writing the sheet", 0, 1)
            write_sheet([_on_sheet(answer) for answer in answers], sheet, len(clf.classes_))
            bars("writing the sheet", 1, 1)
        if copy_to is not None:
            for i, _ in enumerate(bulk.copy_sorted(list(_sorted(answers)), copy_to), start=1):
                bars("copying", i, len(answers))
    if json:
        console.print_json({"classes": len(clf.classes_), "images": answers})
    elif csv:
        console.print_csv(CSV_COLUMNS, list(_csv_lines(answers)))
    else:
        columns = ["image", "class", "probability", "other classes"][: 3 if top == 1 else 4]
        console.print_table("", columns, [_row(answer)[: len(columns)] for answer in answers])
    unreadable = sum("problem" in answer for answer in answers)
    if unreadable:
        console.say(f"{unreadable} of {len(answers)} images could not be read")
    if pictures:
        console.say(f"wrote {pictures[0]}" + (f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""))
    if sheet is not None:
        console.say(f"wrote {sheet}")
    if copy_to is not None:
        console.say(f"copied {len(answers)} images to {copy_to}")


def enroll(
    gallery: Annotated[Path, Argument(metavar="GALLERY", help="Gallery file to create or extend.")],
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder with the examples as CLASS/IMAGE files.")],
    encoder: Encoder = None,
    ink: InkOption = None,
    prepare: PrepareOption = None,
    image_size: ImageSize = None,
    mean: Colours = None,
    std: Colours = None,
    engine: EngineOption = None,
    device: Device = "cpu",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Add examples to a gallery file, creating it if needed. Duplicates are skipped.

    Afterwards, `gaussproto classify --gallery` needs this file, but not the images.
    """
    from gaussproto.files import lock_beside, locked

    files = examples_in(folder)
    total = len(files)
    lock = locked(lock_beside(gallery), gallery, "wait until it has finished")
    with console.progress_bars() as bars, lock:
        exists = gallery.exists()
        chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device)
        clf = _classifier(gallery if exists else None, chosen)
        bars("enrolling", 0, total)
        if exists:
            files = _tolerant(lambda some: _not_known(clf, some), files, strict)
        if files:
            _fit(clf, files, strict)
            clf.save(gallery)
        if not exists:
            _say_encoder(clf, chosen)
        bars("enrolling", total, total)
    if json:
        examples = zip(clf.example_labels_.tolist(), clf.example_names_, clf.example_weights_.tolist(), strict=True)
        weights = [{"label": label, "image": image, "weight": weight} for label, image, weight in examples]
        counts = {"classes": len(clf.classes_), "added": len(files), "known": total - len(files)}
        return console.print_json({"gallery": str(gallery)} | counts | {"examples": weights})
    console.print_table("", ["class", "examples", "lightest example", "weight"], list(_lightest(clf)), right=3)
    console.say("weight: how much the lightest example counts in the prototype of its class (1 is average)")
    added, skipped = f"added {len(files)} examples", f"skipped {total - len(files)} duplicates"
    return console.say(f"{gallery}: {added}, {skipped}; the gallery has {len(clf.classes_)} classes")


@dataclass(frozen=True)
class Choice:
    """The options that choose an encoder and how images are read."""

    encoder: str | None
    ink: Any
    prepare: Any
    image_size: int | None
    mean: str | None
    std: str | None
    engine: Any
    device: str


def _colours(name: str, text: str | None) -> tuple[float, ...] | None:
    from gaussproto.classifier.encoders.other import check_colours

    return None if text is None else check_colours(name, text.split(","), ())


def _classifier(gallery: Path | None, chosen: Choice) -> GaussianPrototypeClassifier:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier
    from gaussproto.classifier.load import load

    if gallery is None:
        return GaussianPrototypeClassifier(
            chosen.encoder or "auto",
            ink=chosen.ink or "auto",
            prepare=chosen.prepare or "auto",
            image_size=chosen.image_size,
            engine=chosen.engine,
            device=chosen.device,
            mean=_colours("mean", chosen.mean),
            std=_colours("std", chosen.std),
        )
    clf = load(gallery, chosen.encoder, chosen.engine, chosen.device)
    for name in ("ink", "prepare", "image_size"):
        found, made = getattr(chosen, name), getattr(clf.encoder_, name)
        if found not in (None, "auto", made):
            option = "--" + name.replace("_", "-")
            remedy = f"leave out {option}, or create another gallery"
            raise InputError(f"{gallery} was made with {option} {made} (found {option} {found}): {remedy}")
    if chosen.mean or chosen.std:
        raise InputError(f"{gallery} stores mean and std: leave out --mean and --std")
    if clf.encoder_.takes_vectors:
        raise InputError(f"the examples in {gallery} are vectors, not images: use the gallery from Python")
    return clf


def _say_encoder(clf: GaussianPrototypeClassifier, chosen: Choice) -> None:
    """Say which encoder the examples chose, and how to choose another."""
    if chosen.encoder is None:
        kind, other = ("photos", "drawings-small") if clf.encoder_.source == "photo" else ("drawings", "photo")
        console.say(f"the examples look like {kind}: using {clf.encoder_.source} (--encoder {other} for the other)")


def examples_in(folder: Path) -> list[tuple[Path, str]]:
    from gaussproto.data.picture import class_files

    return [(file, name) for name, some in class_files(folder).items() for file in some]


def _fit(clf: GaussianPrototypeClassifier, examples: list[tuple[Path, str]], strict: bool) -> None:
    def fit(some: list[tuple[Path, str]]) -> None:
        clf.partial_fit([file for file, _ in some], [name for _, name in some])

    _tolerant(fit, examples, strict)


def _tolerant(work: Callable[[Examples], T], examples: Examples, strict: bool) -> T:
    """Return `work(examples)`. If some files cannot be read, warn and leave them out, unless `strict`."""
    try:
        return work(examples)
    except InputError:
        good = examples if strict else bulk.without_unreadable(examples)
        if len(good) == len(examples):
            raise
        return work(good)


def _classify(
    clf: GaussianPrototypeClassifier, files: list[Path], top: int, strict: bool
) -> tuple[list[dict[str, Any]], Confidence | None]:
    """Return an answer for each file, and the confidence of those that can be read."""
    try:
        confidence = clf.confidence(files)
        return list(_answers(clf, confidence, top)), confidence
    except InputError:
        problems = {} if strict else bulk.problems_of(files)
        if not problems:
            raise
    good = [file for file in files if file not in problems]
    answers: dict[str, dict[str, Any]] = {
        str(file): {"image": str(file), "problem": why} for file, why in problems.items()
    }
    found = clf.confidence(good) if good else None
    if found is not None:
        answers |= {answer["image"]: answer for answer in _answers(clf, found, top)}
    return [answers[str(file)] for file in files], found


def _kind(answer: dict[str, Any]) -> str | None:
    """Return why an image gets no class, or None."""
    return BLANK if answer["blank"] else "unknown" if answer["unknown"] else None


def _on_sheet(answer: dict[str, Any]) -> Answer:
    from gaussproto.report.sheet import Answer

    if "problem" in answer:
        return Answer(answer["image"], "unreadable", others=answer["problem"])
    best, *others = answer["top"]
    shown = [best, *others] if _kind(answer) else others
    text = ", ".join(
        f"{entry['label']} {100 * entry['probability']:.1f} %" for entry in shown if entry["probability"] >= SHOWN
    )
    kind = _kind(answer) or "class"
    return Answer(answer["image"], kind, str(best["label"]), best["probability"], text)


def _sorted(answers: list[dict[str, Any]]) -> Iterator[tuple[Path, str]]:
    """Yield each file and the folder that --copy-to puts it into."""
    for answer in answers:
        folder = "unreadable" if "problem" in answer else _kind(answer) or str(answer["top"][0]["label"])
        yield Path(answer["image"]), folder


def _answers(clf: GaussianPrototypeClassifier, found: Confidence, k: int) -> Iterator[dict[str, Any]]:
    """Yield for each image its k nearest classes, nearest first, and whether it is unknown."""
    labels = clf.classes_.tolist()
    parts = found.names, found.distances, found.probabilities, found.unknown, found.blank
    for name, d, p, unknown, blank in zip(*parts, strict=True):
        nearest = d.argsort(kind="stable")[:k]
        top = [{"label": labels[c], "probability": float(p[c]), "distance": float(d[c])} for c in nearest]
        yield {"image": name, "unknown": bool(unknown), "blank": bool(blank), "top": top}


def _csv_lines(answers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for answer in answers:
        if "problem" in answer:
            yield [answer["image"], "", "", "", "", "", answer["problem"]]
            continue
        for rank, entry in enumerate(answer["top"], start=1):
            numbers = (f"{entry[key]:.6f}" for key in ("probability", "distance"))
            problem = "found no ink" if answer["blank"] else ""
            yield [answer["image"], rank, str(entry["label"]), *numbers, str(answer["unknown"]).lower(), problem]


def _row(answer: dict[str, Any]) -> list[str | Text]:
    if "problem" in answer:
        return [answer["image"], Text("unreadable", style="italic"), "", answer["problem"]]
    best, *others = [(str(entry["label"]), f"{entry['probability']:.3f}") for entry in answer["top"]]
    if kind := _kind(answer):
        nearest = ", ".join(map(" ".join, (best, *others)))
        return [answer["image"], Text(kind, style="italic"), "", f"nearest: {nearest}"]
    return [answer["image"], *best, ", ".join(map(" ".join, others))]


def _not_known(clf: GaussianPrototypeClassifier, files: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Return the files whose embedding differs from all examples of the same class."""
    import numpy as np

    members = defaultdict[str, list[int]](list)
    for i, label in enumerate(clf.example_labels_.tolist()):
        members[str(label)].append(i)
    new = []
    for x, (file, name) in zip(clf.transform([file for file, _ in files]), files, strict=True):
        distances = np.linalg.norm(clf.example_embeddings_[members[name]] - x, axis=1)
        if (distances > SAME * (1e-12 + np.linalg.norm(x))).all():
            new.append((file, name))
    return new


def _lightest(clf: GaussianPrototypeClassifier) -> Iterator[list[str]]:
    """Yield for each class its number of examples, the one with the lowest weight, and this weight."""
    lightest, counts = dict[Any, int](), Counter(clf.example_labels_.tolist())
    for i, label in enumerate(clf.example_labels_.tolist()):
        if label not in lightest or clf.example_weights_[i] < clf.example_weights_[lightest[label]]:
            lightest[label] = i
    for label in clf.classes_.tolist():
        i, count = lightest[label], counts[label]
        yield [str(label), str(count), clf.example_names_[i], f"{clf.example_weights_[i] * count:.2f}"]
