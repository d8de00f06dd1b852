"""The command line's options: those that commands share, and one for every setting of a run."""

import inspect
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from typer import Argument, Option

from gaussproto.config import SECTIONS, setting_fields
from gaussproto.errors import InputError
from gaussproto.setting_types import Choices

Json = Annotated[bool, Option("--json", help="Print one JSON object on stdout and nothing else there.")]
DataRoot = Annotated[
    Path | None, Option(help="Folder with Omniglot's zips or extracted folders. Default: GAUSSPROTO_DATA.")
]
Target = Annotated[
    str, Argument(metavar="RUN_OR_WEIGHTS", help="A run folder, a .safetensors file, or bundled weights.")
]


def complete(names: Collection[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def with_settings(command: Callable[..., None]) -> inspect.Signature:
    """The signature of a command whose `**settings` are options: all of `config.py`, described as there."""
    signature = inspect.signature(command, eval_str=True)
    parameters = list(signature.parameters.values())[:-1]
    for name, field in setting_fields().items():
        panel = next((panel for panel, section in SECTIONS.items() if name in section.model_fields), "training")
        option = Option(help=_help(field), rich_help_panel=f"Settings: {panel}")
        kind: Any = Annotated[_option_type(field) | None, option]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    return signature.replace(parameters=parameters)


def _help(field: FieldInfo) -> str:
    """The description of a setting, and the names that it takes if the description leaves some out."""
    choices = next((item for item in field.metadata if isinstance(item, Choices)), ())
    described = all(name in str(field.description) for name in choices)
    return str(field.description) if described else f"{field.description} ({', '.join(choices)})"


def _option_type(field: FieldInfo) -> Any:
    """The type of a setting on the command line: a string where the setting has its own syntax."""
    annotation = field.annotation
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) is Literal:
        return annotation if isinstance(get_args(annotation)[0], str) else int
    return annotation if annotation in (int, float, bool, str) else str


def parse_numbers(text: str, what: str) -> list[int]:
    bounds = [part.partition("-") for part in text.split(",")]
    with suppress(ValueError):
        ranges = [range(int(low), int(high or low) + 1) for low, _, high in bounds]
        if all(ranges):
            return list(dict.fromkeys(chain(*ranges)))
    raise InputError(f"--{what} takes numbers such as 1,5 or 1-19 (found {text!r})")
