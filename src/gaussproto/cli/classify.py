"""The command `classify`, which classifies images by a few examples of each class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from gaussproto.bulk.answers import COLUMNS, answers_of, csv_lines
from gaussproto.cli import bulk, console
from gaussproto.cli.answers import folders_of, on_sheet, row_of
from gaussproto.cli.embed import OnOption, Processes, say_result, with_rate
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
from gaussproto.cli.remote import Remote
from gaussproto.errors import InputError
from gaussproto.training.memory import use_large_pages

if TYPE_CHECKING:
    from gaussproto.classifier.confidence import Confidence
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

NO_CHOICE = Choice(None, None, None, None, None, None, None, "cpu")
CHUNK = 256  # images between two steps of the progress bar
BLANK, BLANK_REJECTED = "a blank image has no meaningful class", "a blank image counts as unknown"

REJECT_HELP = (
    "Report images that are far from every class as unknown. RATE: fraction of known images that may be wrongly "
    "rejected, e.g. 0.05."
)
GALLERY_HELP = "Gallery file with the examples, from `gaussproto enroll`. With --server: the name or id of its gallery."
SERVER_HELP = "Classify with a gallery of this server, which `gaussproto serve` runs, instead of on this machine."
SHEET_HELP = "Write an HTML page with small pictures of the images, grouped by class, the least certain first."
OUT_HELP = (
    "Write the answers to this .csv or .parquet file, with flat memory. IMAGE may then also be a list: .txt, .csv or "
    ".parquet with the column path. After a stop, start the same command again: it continues."
)
COPY_HELP = "Copy each image to DIR/CLASS, to DIR/unknown, DIR/blank or DIR/unreadable."
EXPLAIN_HELP = (
    "Draw each image with its nearest classes and the weights of their examples (.png or .svg). With several images, "
    "write OUT-NAME.png for each."
)


def classify(
    images: Annotated[list[Path], Argument(metavar="IMAGE...", help="Image files or folders of images to classify.")],
    support: Annotated[Path | None, Option(help="Folder with the examples as CLASS/IMAGE files.")] = None,
    gallery: Annotated[Path | None, Option(help=GALLERY_HELP)] = None,
    server: Annotated[str | None, Option(metavar="URL", help=SERVER_HELP)] = None,
    token: Annotated[str | None, Option(help="Token of the server.", envvar="GAUSSPROTO_TOKEN")] = None,
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
    top: Annotated[int, Option(help="Number of classes to list for each image.", min=1)] = 3,
    reject: Annotated[float | None, Option(metavar="RATE", help=REJECT_HELP)] = None,
    explain: Annotated[Path | None, Option(metavar="OUT.png", help=EXPLAIN_HELP)] = None,
    sheet: Annotated[Path | None, Option(metavar="OUT.html", help=SHEET_HELP)] = None,
    copy_to: Annotated[Path | None, Option(metavar="DIR", help=COPY_HELP)] = None,
    json: Json = False,
    csv: Annotated[bool, Option("--csv", help=f"Print CSV with the columns {', '.join(COLUMNS)}.")] = False,
    out: Annotated[Path | None, Option(metavar="FILE", help=OUT_HELP)] = None,
    on: OnOption = "local",
    processes: Processes = None,
) -> None:
    """Classify images by a few examples of each class, without training.

    Pass the examples as a folder with --support, or as a gallery file with --gallery. With --server, a server uses one
    of its galleries.
    """
    from gaussproto.bulk.classify import check_answers_file, classify_files
    from gaussproto.classifier.explain import check_picture
    from gaussproto.classifier.profile import warn_at_the_end

    if server is None and (support is None) == (gallery is None):
        found = "neither" if gallery is None else "both"
        raise InputError(f"pass the examples with either --support DIR or --gallery FILE (found {found})")
    if json and csv:
        raise InputError("--json and --csv cannot be combined: choose one")
    chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device, prototype, views)
    if out is not None:
        if server or csv or explain or sheet or copy_to:
            raise InputError("--out writes only one file: leave out --server, --csv, --explain, --sheet and --copy-to")
        check_answers_file(out)  # before the examples are read
        use_large_pages()
        with console.progress_bars() as bars:
            clf = _classifier(support, gallery, chosen, strict, reject)
            how: Any = {"on": on, "processes": processes, "strict": strict, "progress": with_rate(bars)}
            result = classify_files(clf, images, out, top=top, recursive=recursive, **how)
        return say_result(result, json)
    if on != "local" or processes is not None:
        raise InputError("--on and --processes are for many images: add --out FILE")
    files = bulk.find_files(images, recursive)
    if sheet is not None and sheet.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the contact sheet must end in .html (found {sheet}): change its name")
    if copy_to is not None and copy_to.exists() and not copy_to.is_dir():
        raise InputError(f"{copy_to} is a file, not a folder: choose another folder with --copy-to")
    if explain is not None:
        check_picture(explain)
    if server is not None and (gallery is None or support or reject or explain or chosen != NO_CHOICE):
        remedy = "with --server, pass --gallery NAME, and leave out --support and the options of the encoder"
        raise InputError(f"a server decides how it classifies: {remedy}")
    answers: list[dict[str, Any]] = []
    pictures: list[Path] = []
    with console.progress_bars() as bars:
        if server is not None:
            remote = Remote(server, str(gallery), token)
            classes = remote.classes
            for some in remote.classify(files, top, strict):
                answers += some
                bars("classifying", len(answers), len(files))
        else:
            clf = _classifier(support, gallery, chosen, strict, reject)
            classes = len(clf.classes_)
            chunk = CHUNK if explain is None else len(files)
            with warn_at_the_end(BLANK if reject is None else BLANK_REJECTED):
                for start in range(0, len(files), chunk):
                    some, confidence = _classify(clf, files[start : start + chunk], top, strict, explain is not None)
                    answers += some
                    bars("classifying", len(answers), len(files))
            if explain is not None and confidence is not None:
                pictures = clf.explain(confidence, explain, top)
        if all("problem" in answer for answer in answers):
            raise InputError(f"{answers[0]['image']} {answers[0]['problem']}")
        if sheet is not None:
            from gaussproto.report.sheet import write_sheet

            bars("writing the sheet", 0, 1)
            write_sheet([on_sheet(answer) for answer in answers], sheet, classes)
            bars("writing the sheet", 1, 1)
        copies = set()
        if copy_to is not None:
            for copy in bulk.copy_sorted(list(folders_of(answers)), copy_to):
                copies.add(copy)
                bars("copying", len(copies), len(answers))
    if json:
        console.print_json({"classes": classes, "images": answers})
    elif csv:
        console.print_csv(COLUMNS, list(csv_lines(answers)))
    else:
        columns = ["image", "class", "probability", "other classes"][: 3 if top == 1 else 4]
        console.print_table("", columns, [row_of(answer)[: len(columns)] for answer in answers])
    unreadable = sum("problem" in answer for answer in answers)
    if unreadable:
        console.say(f"{unreadable} of {len(answers)} images could not be read")
    if pictures:
        console.say(f"wrote {pictures[0]}" + (f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""))
    if sheet is not None:
        console.say(f"wrote {sheet}")
    if copy_to is not None:
        console.say(f"{len(copies)} copies are in {copy_to}")
    return None


def _classifier(
    support: Path | None, gallery: Path | None, chosen: Choice, strict: bool, reject: float | None
) -> GaussianPrototypeClassifier:
    clf = make_classifier(gallery, chosen)
    if support is not None:
        fit_examples(clf, examples_in(support), strict)
        say_encoder(clf, chosen)
    if reject is not None:
        clf.set_params(reject=reject)
    return clf


def _classify(
    clf: GaussianPrototypeClassifier, files: list[Path], top: int, strict: bool, explained: bool
) -> tuple[list[dict[str, Any]], Confidence | None]:
    """Return an answer for each file, and if it is `explained`, the confidence of those that can be read."""

    def classified(files: list[Path]) -> tuple[list[dict[str, Any]], Confidence | None]:
        confidence = clf.confidence(files) if explained else None
        return list(answers_of(confidence.top(clf.classes_, top) if confidence else clf.top(files, top))), confidence

    try:
        return classified(files)
    except InputError:
        problems = {} if strict else bulk.problems_of(files)
        if not problems:
            raise
    good = [file for file in files if file not in problems]
    answers: dict[str, dict[str, Any]] = {
        str(file): {"image": str(file), "problem": why} for file, why in problems.items()
    }
    found, confidence = classified(good) if good else ([], None)
    answers |= {answer["image"]: answer for answer in found}
    return [answers[str(file)] for file in files], confidence
