"""The command `check`, which says how good a folder of examples is and what is wrong in it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from gaussproto.cli import bulk, console
from gaussproto.cli.checked import CSV_COLUMNS, Found, Unreadable, accuracy_text, confused_texts
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
    make_classifier,
    say_encoder,
)
from gaussproto.cli.options import Device, Json
from gaussproto.errors import InputError
from gaussproto.files import is_folder

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

SOURCE_HELP = "Folder with the examples as CLASS/IMAGE files, or a gallery file."
PAGE_HELP = "Write an HTML page with the pictures, the classes that they are in, and the classes that they look like."
MOVES_HELP = "Write a list of moves that would repair the folder. Edit it, then pass it to --apply."
APPLY_HELP = (
    "Show the moves of this list, instead of a check. With --yes, move the files and write a list that undoes it."
)


def check(
    source: Annotated[Path, Argument(metavar="DIR_OR_GALLERY", help=SOURCE_HELP)],
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
    top: Annotated[int, Option(help="Number of suspicious examples to list.", min=0)] = 20,
    page: Annotated[Path | None, Option(metavar="OUT.html", help=PAGE_HELP)] = None,
    moves: Annotated[Path | None, Option(metavar="OUT.csv", help=MOVES_HELP)] = None,
    apply: Annotated[Path | None, Option(metavar="MOVES.csv", help=APPLY_HELP)] = None,
    yes: Annotated[bool, Option("--yes", help="With --apply: really move the files.")] = False,
    json: Json = False,
    csv: Annotated[bool, Option("--csv", help=f"Print CSV with the columns {', '.join(CSV_COLUMNS)}.")] = False,
) -> None:
    """Check examples: how good are they, and which ones are probably wrong?

    Each example is left out in turn and compared with the others. The table
    lists examples that look like another class, poor images, duplicates and
    blank images, the most suspicious first. No file is changed, unless you
    pass --apply and --yes.
    """
    if json and csv:
        raise InputError("--json and --csv cannot be combined: choose one")
    if apply is not None:
        if page or moves or csv:
            raise InputError("--apply does not check the examples: leave out --page, --moves and --csv")
        return _apply(source, apply, yes, json)
    if yes:
        raise InputError("--yes is only for --apply: pass the list of moves with --apply MOVES.csv, or leave it out")
    for path, ending in ((page, ".html"), (moves, ".csv")):
        if path is not None and path.suffix.lower() != ending:
            raise InputError(f"the file {path} must end in {ending}: change its name")
    folder = is_folder(source)
    if moves is not None and not folder:
        raise InputError(f"--moves needs the folder of the images (found the file {source}): pass the folder")
    chosen = Choice(encoder, ink, prepare, image_size, mean, std, engine, device, prototype, views)
    with console.progress_bars() as bars:
        clf = make_classifier(None if folder or not source.exists() else source, chosen, vectors=True)
        unreadable: list[Unreadable] = []
        if folder or not source.exists():
            examples = examples_in(source)
            bars("reading", 0, len(examples))
            unreadable = _fit(clf, examples, strict)
            bars("reading", len(examples), len(examples))
            say_encoder(clf, chosen)
        bars("checking", 0, 1)
        found = Found(clf.check(), clf.example_names_, clf.example_labels_.tolist(), unreadable)
        bars("checking", 1, 1)
        if page is not None:
            from gaussproto.report.check import write_check

            bars("writing the page", 0, 1)
            good = [(row.name, str(row.label)) for row in reversed(found.check.examples) if row.reason is None]
            texts = accuracy_text(found.check), confused_texts(found.check)
            write_check(page, str(source), found.check, list(found.on_page()), good, *texts)
            bars("writing the page", 1, 1)
        if moves is not None:
            from gaussproto.data.moves import write_moves

            write_moves(moves, *(proposed := found.moves(source)))
    if json:
        console.print_json({"source": str(source), "encoder": clf.encoder_.source} | found.as_json())
    elif csv:
        console.print_csv(CSV_COLUMNS, list(found.csv_lines()))
    else:
        console.print_table("", ["", str(source)], found.summary(), whole=1)
        if rows := found.rows(top):
            console.print_table("", ["example", "class", "reason", "suspicion"], rows, right=3)
        if found.listed > len(rows):
            console.say(f"and {found.listed - len(rows):,} more: pass --top, --csv or --page to see them")
    if page is not None:
        console.say(f"wrote {page}")
    if moves is not None:
        how = f"edit it, then run `{_command(source, moves)}`"
        found_moves = console.number(len(proposed[0]), "move")
        console.say(f"wrote {moves} with {found_moves}: {how}" if proposed[0] else f"wrote {moves}: nothing to move")
    return None


def _fit(clf: GaussianPrototypeClassifier, examples: list[tuple[Path, str]], strict: bool) -> list[Unreadable]:
    """Fit the examples. Return those that cannot be read, which are left out unless `strict`."""
    try:
        clf.fit([file for file, _ in examples], [name for _, name in examples])
        return []
    except InputError:
        problems = {} if strict else bulk.problems_of([file for file, _ in examples])
        if not problems:
            raise
    good = [(file, name) for file, name in examples if file not in problems]
    if not good:
        file, why = next(iter(problems.items()))
        raise InputError(f"no example can be read: {file} {why}")
    clf.fit([file for file, _ in good], [name for _, name in good])
    return [Unreadable(file, name, problems[file]) for file, name in examples if file in problems]


def _command(root: Path, moves: Path) -> str:
    return shlex.join(["gaussproto", "check", str(root), "--apply", str(moves)])


def _apply(root: Path, file: Path, yes: bool, json: bool) -> None:
    """Show the moves of a list or, with `yes`, carry them out."""
    from gaussproto.data.moves import apply_moves, plan_moves, read_moves, undo_file

    if not is_folder(root):
        raise InputError(f"--apply needs the folder of the images (found {root}): pass the folder")
    listed = read_moves(file)
    todo = plan_moves(root, listed)
    undo = undo_file(file) if yes and todo else None
    if undo is not None:
        with console.progress_bars() as bars:
            apply_moves(root, todo, undo, lambda n: bars("moving", n, len(todo)))
    if json:
        parts = [{"file": move.file, "to": move.to} for move in todo]
        content = {"moved": yes, "moves": parts, "done_before": len(listed) - len(todo)}
        return console.print_json(content | {"undo": undo and str(undo)})
    if todo:
        console.print_table("", ["file", "to"], [list(move) for move in todo])
    before = f" ({len(listed) - len(todo):,} done before)" if len(todo) < len(listed) else ""
    files = console.number(len(todo), "file")
    if undo is not None:
        how = f"`{_command(root, undo)} --yes` undoes it"
        return console.say(f"moved {files}{before}; {how}")
    if not todo:
        return console.say(f"nothing to move{before}")
    return console.say(f"would move {files}{before}: pass --yes to do it")
