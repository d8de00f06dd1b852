"""The command line's options: those that commands share, and one for every setting of a run."""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from gaussproto.config import DRAWN, SECTIONS, setting_fields
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder that holds Omniglot's zips or extracted folders; else GAUSSPROTO_DATA."),
]


def complete_preset(incomplete: str) -> list[str]:
    """Shell completion of a preset's name."""
    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Shell completion of a data set's name."""
    return [name for name in DRAWN if name.startswith(incomplete)]


def _option_type(field: FieldInfo) -> Any:
    """The type of a setting on the command line; what has a syntax of its own is a string there."""
    annotation = field.annotation
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) is Literal:
        return annotation if isinstance(get_args(annotation)[0], str) else int
    return annotation if annotation in (int, float, bool, str) else str


def train_signature() -> inspect.Signature:
    """`train` takes every setting of a configuration as an option; their words are those of `config.py`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    own: list[tuple[str, Any, Any]] = [
        (
            "name",
            inspect.Parameter.empty,
            Annotated[
                str,
                typer.Argument(
                    metavar="PRESET", help="A preset, a config.json or a run folder.", autocompletion=complete_preset
                ),
            ],
        ),
        ("out", None, Annotated[Path | None, typer.Option(help="The run folder; runs/PRESET if not given.")]),
        ("resume", False, Annotated[bool, typer.Option("--resume", help="Go on where the run stopped.")]),
        ("data_root", None, DataRoot),
        ("device", "cpu", Annotated[str, typer.Option(help="cpu, or cuda where there is a GPU.")]),
        ("json", False, Json),
    ]
    for name, field in setting_fields().items():
        panel = next((panel for panel, section in SECTIONS.items() if name in section.model_fields), "training")
        option = typer.Option(help=field.description, rich_help_panel=f"Settings: {panel}")
        own.append((name, None, Annotated[_option_type(field) | None, option]))
    return inspect.Signature(
        [inspect.Parameter(name, keyword, default=default, annotation=kind) for name, default, kind in own]
    )


def parse_numbers(text: str, what: str) -> list[int]:
    """`1,5` and `1-19` as numbers."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            low, _, high = part.partition("-")
            some = range(int(low), int(high or low) + 1)
            numbers.extend(some)
            if not some:
                raise ValueError
    except ValueError:
        raise InputError(f"--{what} takes numbers such as 1,5 or 1-19 (found {text!r})") from None
    return list(dict.fromkeys(numbers))
