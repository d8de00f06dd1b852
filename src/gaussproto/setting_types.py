"""The types of settings (choices, names of objects, values with their own syntax) and settings as text."""

from collections.abc import Container, Iterable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError

from gaussproto.errors import InputError, did_you_mean
from gaussproto.formulas.covariance import COVARIANCES, TRANSFORMS, Covariance, Transform
from gaussproto.formulas.distance import DISTANCES, Distance
from gaussproto.formulas.named import find_callable, name_of

Weighting = Literal["prototype_and_distance", "prototype"]
Norm = Literal["running", "batch"]  # inductive: each image independently; transductive: a group of images together
Ink = Literal["detect", "bright", "dark"]

FILTERS = {"small": (64, 64, 64), "big": (128, 256, 512)}  # of the encoder's blocks before the last


class Choices(tuple[str, ...]):
    """The built-in names of a setting that also accepts an object or its import path `module:name`."""


CovarianceName = Annotated[str, BeforeValidator(partial(name_of, Covariance, COVARIANCES)), Choices(COVARIANCES)]
TransformName = Annotated[str, BeforeValidator(partial(name_of, Transform, TRANSFORMS)), Choices(TRANSFORMS)]
DistanceName = Annotated[str, BeforeValidator(partial(name_of, Distance, DISTANCES)), Choices(DISTANCES)]


def _check_encoder(value: Any) -> Any:
    if isinstance(value, str) and value not in FILTERS:
        if ":" not in value:
            hint = did_you_mean(value, FILTERS, "choose small or big, or name your own as module:name")
            raise InputError(f"unknown encoder {value!r}: {hint}")
        find_callable(value, "encoder")
    return value


def _parse_damage(value: Any) -> Any:
    """Parse `7:0.1,5:0.05` or a mapping from size to fraction."""
    if isinstance(value, str):
        pairs = [part.split(":") for part in value.split(",") if part.strip()]
        if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
            raise ValueError(f"write it as SIZE:FRACTION,SIZE:FRACTION, e.g. 7:0.1,5:0.05 (found {value!r})")
        value = dict(pairs)
    return tuple(value.items()) if isinstance(value, Mapping) else value


Filters = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    BeforeValidator(lambda value: tuple(value.split(",")) if isinstance(value, str) else value),
]
Damage = Annotated[
    tuple[tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(ge=0, le=1)]], ...],
    BeforeValidator(_parse_damage),
    PlainSerializer(lambda pairs: {str(size): fraction for size, fraction in pairs}),
]
EncoderName = Annotated[str, BeforeValidator(_check_encoder), Choices(FILTERS)]


def stretch(stages: list[dict[str, Any]], episodes: int) -> None:
    """Scale the stages in place so that they have `episodes` episodes in total."""
    if not isinstance(episodes, int) or episodes < 1:
        raise InputError(f"setting episodes: must be a whole number of at least 1 (found {episodes!r})")
    ends = list(accumulate(stage["episodes"] for stage in stages))
    for stage, (start, end) in zip(stages, pairwise([0, *ends]), strict=True):
        stage["episodes"] = round(episodes * end / ends[-1]) - round(episodes * start / ends[-1])
    if min(stage["episodes"] for stage in stages) < 1:
        raise InputError(f"{episodes} episodes are too few for the {len(stages)} stages: use more episodes")


def setting_problem(error: ValidationError, sections: Container[str]) -> str:
    problem = error.errors()[0]
    message = problem["msg"].removeprefix("Value error, ")
    where = next((str(name) for name in reversed(problem["loc"]) if isinstance(name, str)), "")
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where and where not in sections else message
    value = problem["input"]
    return f"setting {where}: {message[0].lower()}{message[1:]}" + ("" if value is None else f" (found {value!r})")


def setting_text(name: str, value: Any) -> str:
    """Format a setting, given as JSON stores it.

    >>> setting_text("rotations", True), setting_text("filters", [64, 64]), setting_text("max_shot", None)
    ('yes', '64, 64', 'not set')
    >>> setting_text("split", {"train": ["ant", "bee", "cat"], "test": ["owl", "fox"]})
    '3 classes train, 2 classes test'
    """
    if name == "stages":
        return ", then ".join(map(_stage_text, value))
    if name == "split" and value:
        return ", ".join(f"{len(classes):,} classes {use}" for use, classes in value.items() if classes is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "not set" if value is None else str(value)


def _stage_text(stage: Mapping[str, Any]) -> str:
    damage = stage["damage"] and f"damage {damage_text(stage['damage'].items())}"
    parts = f"{stage['episodes']:,} episodes", damage, stage["transform"]
    return "; ".join(filter(None, parts))


def damage_text(pairs: Iterable[tuple[Any, float]]) -> str:
    """Format pairs of size and fraction.

    >>> damage_text([(7, 0.1), (5, 0.05)])
    '10 % to 7 px, 5 % to 5 px'
    """
    return ", ".join(f"{100 * share:g} % to {size} px" for size, share in pairs) or "none"
