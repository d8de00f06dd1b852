"""The options that several commands share, and an option for every setting of a run."""

import inspect
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from typer import Argument, Option

from gaussproto.config import LARGEST_SEED, SECTIONS, setting_fields
from gaussproto.errors import InputError, shortened
from gaussproto.setting_types import Choices

LARGEST_NUMBER = 100_000  # of classes or supports in a group

Json = Annotated[bool, Option("--json", help="Print the result as one JSON object on stdout.")]
DataRoot = Annotated[
    Path | None,
    Option(
        help="Folder with the zip files or extracted folders of Omniglot or CIFAR-100. Default: $GAUSSPROTO_DATA. "
        "Without either, they are downloaded."
    ),
]
Device = Annotated[str, Option(help="Device to compute on: cpu, cuda or mps.")]
Target = Annotated[
    str,
    Argument(metavar="RUN_OR_WEIGHTS", help="Run folder, .safetensors file, or bundled weights (e.g. drawings-small)."),
]


def complete(names: Collection[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def with_settings(command: Callable[..., None]) -> inspect.Signature:
    """Return the signature of a command with its `**settings` replaced by an option for every setting of a run."""
    signature = inspect.signature(command, eval_str=True)
    parameters = list(signature.parameters.values())[:-1]
    for name, field in setting_fields().items():
        panel = next((panel for panel, section in SECTIONS.items() if name in section.model_fields), "training")
        type_ = _option_type(field)
        metavar = "<str>" if get_origin(type_) is Literal else None  # the help lists the names, which are too wide here
        option = Option(help=help_text(field), metavar=metavar, rich_help_panel=f"Settings: {panel}")
        kind: Any = Annotated[type_ | None, option]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    return signature.replace(parameters=parameters)


def help_text(field: FieldInfo) -> str:
    """Return the description of a setting, followed by its built-in names if the description does not list them."""
    literals = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    choices = next((item for item in field.metadata if isinstance(item, Choices)), tuple(map(str, literals)))
    described = all(name in str(field.description) for name in choices)
    return str(field.description) if described else f"{field.description} ({', '.join(choices)})"


def _option_type(field: FieldInfo) -> Any:
    """Return the type of a setting on the command line: a string if the setting has its own syntax."""
    annotation = field.annotation
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) is Literal:
        return annotation if isinstance(get_args(annotation)[0], str) else int
    return annotation if annotation in (int, float, bool, str) else str


def check_seed(seed: int) -> int:
    """Return the seed, or raise InputError if it is out of range. Limits of the option would fill the help."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"--seed must be from 0 to {LARGEST_SEED} (found {seed})")
    return seed


def parse_numbers(text: str, what: str) -> list[int]:
    bounds = [part.partition("-") for part in text.split(",")]
    with suppress(ValueError):
        ranges = [range(int(low), int(high or low) + 1) for low, _, high in bounds]
        if all(ranges) and max(each[-1] for each in ranges) <= LARGEST_NUMBER:
            return list(dict.fromkeys(chain(*ranges)))
    limit = f"whole numbers of at most {LARGEST_NUMBER:,}"
    raise InputError(f"--{what} must be {limit}, e.g. 1,5 or 1-19 (found {shortened(text)})")
