"""The commands `classify` and `enroll`: a folder of examples, or a gallery of them, and images to be told apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from gaussproto.cli import console
from gaussproto.cli.options import Json
from gaussproto.errors import InputError

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

DEFAULT_ENCODER = "omniglot-small"
CHUNK = 256  # images between two steps of the progress bar
SAME = 1e-4  # relative difference under which two embeddings are of one image, rounding apart

Encoder = Annotated[
    str | None,
    typer.Option(
        help="Bundled weights, a weights or ONNX file, or a run folder; if not given, that of the gallery, "
        f"else {DEFAULT_ENCODER}."
    ),
]
EngineOption = Annotated[
    Literal["torch", "onnx"] | None,
    typer.Option(help="What computes the network; onnx starts sooner, and is what an ONNX file has anyway."),
]
InkOption = Annotated[
    Literal["auto", "detect", "bright", "dark"] | None,
    typer.Option(help="Dark ink on a light ground or bright on a dark one; auto: as the weights need it."),
]


def classify(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files, or folders of them.")],
    support: Annotated[Path | None, typer.Option(help="The examples: a folder of CLASS/IMAGE files.")] = None,
    gallery: Annotated[Path | None, typer.Option(help="Examples that `gaussproto enroll` has put in a file.")] = None,
    encoder: Encoder = None,
    ink: InkOption = None,
    engine: EngineOption = None,
    top: Annotated[int, typer.Option(help="How many classes to name for each image.", min=1)] = 3,
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Call an image unknown that is far from every class; of images of known classes this share may be, "
            "such as 0.05.",
        ),
    ] = None,
    explain: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.png",
            help="Draw the image, the nearest classes and what their examples counted for; .png or .svg. Of several "
            "images each gets a file: OUT-NAME.png.",
        ),
    ] = None,
    json: Json = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print lines of image, rank, label, probability, distance, unknown.")
    ] = False,
) -> None:
    """Say of images which of a few known classes they are, by a handful of examples of each."""
    if (support is None) == (gallery is None):
        raise InputError("give the examples with either --support DIR or --gallery FILE")
    if json and csv:
        raise InputError("--json and --csv are both asked for: choose one")
    files = _files(images)
    _check_picture(explain)
    with console.progress_bars() as bars:
        clf = _open(gallery, encoder, ink, engine) if gallery else _new(encoder, ink, engine).fit(support)
        if reject is not None:
            clf.set_params(reject=reject)
        found: list[dict[str, Any]] = []
        for start in range(0, len(files), CHUNK):
            found += _answers(clf, files[start : start + CHUNK], top)
            bars("classifying", len(found), len(files))
        if explain is not None:
            pictures = clf.explain(files, explain, top)
    if json:
        console.print_json({"classes": len(clf.classes_), "images": found})
    elif csv:
        lines = [
            [
                answer["image"],
                rank,
                str(entry["label"]),
                f"{entry['probability']:.6f}",
                f"{entry['distance']:.6f}",
                str(answer["unknown"]).lower(),
            ]
            for answer in found
            for rank, entry in enumerate(answer["top"], start=1)
        ]
        console.print_csv(["image", "rank", "label", "probability", "distance", "unknown"], lines)
    else:
        columns = ["image", "class", "probability", "else"][: 3 if top == 1 else 4]
        console.print_table("", columns, [_row(answer)[: len(columns)] for answer in found])
    if explain is not None:
        console.say(f"drawn: {pictures[0]}" + (f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""))


def enroll(
    gallery: Annotated[Path, typer.Argument(help="The file to make, or to add to.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Examples: a folder of CLASS/IMAGE files.")],
    encoder: Encoder = None,
    ink: InkOption = None,
    engine: EngineOption = None,
    json: Json = False,
) -> None:
    """Put examples into a gallery file, new or there already; examples that it has are passed over."""
    from gaussproto.data.picture import class_files
    from gaussproto.files import claimed

    files = [(file, name) for name, some in class_files(folder).items() for file in some]
    total = len(files)
    with console.progress_bars() as bars, claimed(gallery.parent, "wait for it"):
        there = gallery.exists()
        clf = _open(gallery, encoder, ink, engine) if there else _new(encoder, ink, engine)
        bars("enrolling", 0, total)
        if there:
            files = _not_known(clf, files)
        if files:
            clf.partial_fit([file for file, _ in files], [name for _, name in files])
            clf.save(gallery)
        bars("enrolling", total, total)
    if json:
        weights = [
            {"label": label, "image": image, "weight": weight}
            for label, image, weight in zip(
                clf.example_labels_.tolist(), clf.example_names_, clf.example_weights_.tolist(), strict=True
            )
        ]
        counts = {"classes": len(clf.classes_), "added": len(files), "known": total - len(files)}
        return console.print_json({"gallery": str(gallery)} | counts | {"examples": weights})
    rows = [[str(label), str(count), name, f"{weight:.2f}"] for label, count, name, weight in _lightest(clf)]
    console.print_table("", ["class", "examples", "counts least", "weight"], rows, right=3)
    console.say("weight: what the example counts for in its class, an average one being 1")
    return console.say(
        f"{gallery}: {len(files)} examples added, {total - len(files)} were there; {len(clf.classes_)} classes"
    )


def _new(encoder: str | None, ink: Any, engine: Any) -> GaussianPrototypeClassifier:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

    return GaussianPrototypeClassifier(encoder or DEFAULT_ENCODER, ink=ink or "auto", engine=engine)


def _open(gallery: Path, encoder: str | None, ink: Any, engine: Any) -> GaussianPrototypeClassifier:
    from gaussproto.classifier.gallery import load

    clf = load(gallery, encoder, engine)
    if ink not in (None, "auto", clf.embedder_.ink):
        raise InputError(f"{gallery} was made with --ink {clf.embedder_.ink}: leave --ink out, or make another gallery")
    if clf.embedder_.takes_vectors:
        raise InputError(f"{gallery} holds examples that are vectors, not images: use it from Python")
    return clf


def _files(images: list[Path]) -> list[Path]:
    """The files, and those of the folders, that were named."""
    from gaussproto.classifier.inputs import list_images

    return [Path(file) for path in images for file in list_images(path)[0]]


def _check_picture(path: Path | None) -> None:
    """Before anything is embedded."""
    from gaussproto.classifier.explain import check_picture

    if path is not None:
        check_picture(path)


def _answers(clf: GaussianPrototypeClassifier, files: list[Path], k: int) -> list[dict[str, Any]]:
    """For each image the k nearest classes, the nearest first, and whether it is none of them."""
    verdict, labels = clf.judge(files), clf.classes_.tolist()
    answers = []
    for file, d, p, unknown in zip(files, verdict.distances, verdict.probabilities, verdict.unknown, strict=True):
        top = [
            {"label": labels[c], "probability": float(p[c]), "distance": float(d[c])}
            for c in d.argsort(kind="stable")[:k]
        ]
        answers.append({"image": str(file), "unknown": bool(unknown), "top": top})
    return answers


def _not_known(clf: GaussianPrototypeClassifier, files: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Those whose embedding is not that of an example of the same class."""
    import numpy as np

    embeddings = clf.transform([file for file, _ in files])
    labels = np.array([str(label) for label in clf.example_labels_.tolist()])
    new = []
    for x, (file, name) in zip(embeddings, files, strict=True):
        others = clf.example_embeddings_[labels == name]
        apart = np.linalg.norm(others - x, axis=1) > SAME * (1e-12 + np.linalg.norm(x))
        if apart.all():
            new.append((file, name))
    return new


def _lightest(clf: GaussianPrototypeClassifier) -> list[tuple[Any, int, str, float]]:
    """Of each class: how many examples, and which counts least, and for how much of an average one."""
    rows = []
    labels = clf.example_labels_.tolist()
    for label in clf.classes_.tolist():
        own = [i for i, other in enumerate(labels) if other == label]
        least = min(own, key=lambda i: clf.example_weights_[i])
        rows.append((label, len(own), clf.example_names_[least], float(clf.example_weights_[least]) * len(own)))
    return rows


def _row(answer: dict[str, Any]) -> list[str | Text]:
    """The image, its class, the probability of it, and what else it might be."""
    words = [f"{entry['label']!s} {entry['probability']:.3f}" for entry in answer["top"]]
    if answer["unknown"]:
        return [answer["image"], Text("unknown", style="italic"), "", "nearest: " + ", ".join(words)]
    best = answer["top"][0]
    return [answer["image"], str(best["label"]), f"{best['probability']:.3f}", ", ".join(words[1:])]
