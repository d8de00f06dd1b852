"""Classify many images, and write the answers as one CSV or Parquet file."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from gaussproto.bulk.answers import COLUMNS, answer_table, answers_of, csv_lines
from gaussproto.bulk.embed import identity_of, readable_sample
from gaussproto.bulk.parts import CsvFormat, Format, ParquetFormat, open_parts
from gaussproto.bulk.pipeline import BulkResult, On, check_options, run
from gaussproto.bulk.read import Prepared
from gaussproto.bulk.sources import list_sources
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.classifier.inputs import Images
from gaussproto.errors import ImageWarning, InputError
from gaussproto.progress import Progress, silent

PARAMETERS = ("reject", "temperature", "distance", "weights", "prototype")


class AnswerWork:
    """Turns a chunk of images into the rows of their answers."""

    def __init__(self, clf: GaussianPrototypeClassifier, top: int, csv: bool) -> None:
        self.clf, self.top, self.csv = clf, top, csv
        self.look, self.device = clf.encoder_.look, clf.device

    def __call__(self, prepared: Prepared) -> Any:
        pairs = zip(prepared.paths, prepared.problems, strict=True)
        answers: dict[int, dict[str, Any]] = {
            i: {"image": path, "problem": problem} for i, (path, problem) in enumerate(pairs) if problem is not None
        }
        good = prepared.good.tolist()
        if good:
            seen = Images([prepared.paths[i] for i in good], None, prepared.pixels, prepared.blank, [])
            found = self.clf.top_of(self.clf.encoder_.embed(prepared.pixels), seen, self.top)
            answers |= dict(zip(good, answers_of(found), strict=True))
        in_order = [answers[i] for i in range(len(prepared.paths))]
        return list(csv_lines(in_order)) if self.csv else answer_table(in_order)


def classify_files(
    clf: GaussianPrototypeClassifier, sources: str | Path | Sequence[str | Path], out: str | Path, *, top: int = 3,
    recursive: bool = True, on: On = "local", processes: int | None = None, strict: bool = False,
    progress: Progress = silent,
) -> BulkResult:  # fmt: skip
    """Classify many image files with flat memory, and write a CSV or Parquet file.

    The columns are image, rank, label, probability, distance, unknown and problem, with a row for each of the nearest
    classes. A file that cannot be read gets a row with the reason. Until the work is finished, its parts are in a
    folder beside `out`, with `.parts` added to the name. Call the function again after a stop to continue.

    Args:
        clf: the fitted classifier.
        sources: as for `embed_files`.
        out: a file that ends in .csv or .parquet. An existing one is replaced at the end.
        top: the number of classes for each image.
        recursive: search the folders inside folders.
        on: as for `embed_files`, like the parameters from here on.
        processes: how many processes read images.
        strict: raise InputError at the first file that cannot be read.
        progress: called with the task, the number of images done, and the total.

    Returns:
        The number of images, and those that cannot be read.

    Examples:
        >>> import gaussproto as gp
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     files = [f"{folder}/{i}.png" for i in range(2)]
        ...     for i, file in enumerate(files):
        ...         Image.linear_gradient("L").rotate(90 * i).save(file)
        ...     clf = gp.GaussianPrototypeClassifier("drawings-small", prepare="none").fit(files, ["down", "left"])
        ...     result = gp.classify_files(clf, folder, f"{folder}/answers.csv", top=1)
        ...     lines = Path(f"{folder}/answers.csv").read_text().splitlines()
        >>> [line.split(",")[2] for line in lines]
        ['label', 'down', 'left']
    """
    check_is_fitted(clf)
    out = Path(out)
    check_options(on, processes)
    check_answers_file(out)
    if clf.encoder_.takes_vectors:
        raise InputError("this classifier takes vectors, not images: use an image encoder")
    csv = out.suffix.lower() == ".csv"
    format_: Format = CsvFormat(COLUMNS) if csv else ParquetFormat(COLUMNS[0])
    images = list_sources(sources, recursive)
    if sample := readable_sample(list(images)):
        _warn(clf, sample)
    settings = identity_of(clf.encoder_) | {name: getattr(clf, name) for name in PARAMETERS}
    settings |= {"top": top, "examples": _digest_of_examples(clf)}
    work = AnswerWork(clf, top, csv)
    with open_parts(out.with_name(f"{out.name}.parts"), format_, settings) as parts:
        result = run(
            "classifying", images, work, parts, out, on=on, processes=processes, strict=strict, progress=progress
        )
        if result.stopped_by is None:
            parts.join(out)
    return result


def _warn(clf: GaussianPrototypeClassifier, sample: list[str]) -> None:
    """Warn as `confidence` does, for example of images unlike the examples. Blank ones are counted in the result."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "found no ink", ImageWarning)
        clf.top(sample, 1)


def check_answers_file(out: Path) -> None:
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"the file with the answers must end in .csv or .parquet (found {out}): change its name")


def _digest_of_examples(clf: GaussianPrototypeClassifier) -> str:
    """Return a digest of the names and labels of the examples, which are the same however they were rounded."""
    examples = [str(clf.classes_.tolist()), str(clf.example_labels_.tolist()), list(clf.example_names_)]
    return hashlib.sha256(json.dumps(examples).encode()).hexdigest()
