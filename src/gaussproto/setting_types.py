"""The types of settings (choices, names of objects, values with their own syntax) and settings as text."""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError

from gaussproto.errors import InputError, did_you_mean, shortened
from gaussproto.formulas.covariance import COVARIANCES, TRANSFORMS, Covariance, Transform
from gaussproto.formulas.distance import DISTANCES, Distance
from gaussproto.formulas.named import find_callable, name_of

Weighting = Literal["prototype_and_distance", "prototype"]
Norm = Literal["running", "batch"]  # inductive: each image independently; transductive: a group of images together
Ink = Literal["detect", "bright", "dark"]
# "ink": find the drawing, draw it bright, in the centre and in one size; "crop": cut the largest square from the middle
Prepare = Literal["none", "ink", "crop"]

LARGEST_IMAGE = 1024  # side in pixels
LARGEST_WIDTH = 1 << 16  # numbers in a vector, or filters in a block
LARGEST_DEPTH = 100  # residual convolutions in a block
LARGEST_GRID = 32  # areas along a side of an image
LARGEST_COUNT = 10**9  # of classes, images, episodes and so on: a larger one is a mistake

FILTERS = {"small": (64, 64, 64), "big": (128, 256, 512)}  # of the encoder's blocks before the last

_PROBLEMS = {  # the common errors of pydantic, as they continue after the name of a value
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "too_short": "must have a length of at least {min_length}",
    "too_long": "must have a length of at most {max_length}",
    "finite_number": "must be a finite number",
    "model_type": "must be a mapping of names to values",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "extra_forbidden": "is not a known setting",
}


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
            raise ValueError(f"damage must be SIZE:FRACTION,SIZE:FRACTION, e.g. 7:0.1,5:0.05 (found {value!r})")
        value = dict(pairs)
    return tuple(value.items()) if isinstance(value, Mapping) else value


def _without_last_zeros(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Drop the last zeros, so that equal networks have equal settings."""
    return counts[: max((i + 1 for i, n in enumerate(counts) if n), default=0)]


_LIST = BeforeValidator(lambda value: tuple(value.split(",")) if isinstance(value, str) else value)
Filters = Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_WIDTH)], ...], Field(max_length=16), _LIST]
Residual = Annotated[
    tuple[Annotated[int, Field(ge=0, le=LARGEST_DEPTH)], ...],
    Field(max_length=17),
    AfterValidator(_without_last_zeros),
    _LIST,
    BeforeValidator(lambda value: () if value in ("", "none") else value),  # runs first
]
Damage = Annotated[
    tuple[tuple[Annotated[int, Field(ge=1, le=LARGEST_IMAGE)], Annotated[float, Field(ge=0, le=1)]], ...],
    BeforeValidator(_parse_damage),
    PlainSerializer(lambda pairs: {str(size): fraction for size, fraction in pairs}),
]
EncoderName = Annotated[str, BeforeValidator(_check_encoder), Choices(FILTERS)]


def stretch(stages: list[dict[str, Any]], episodes: int) -> None:
    """Scale the stages in place so that they have `episodes` episodes in total."""
    if not isinstance(episodes, int) or not 1 <= episodes <= LARGEST_COUNT:
        raise InputError(f"episodes must be a whole number from 1 to {LARGEST_COUNT:,} (found {shortened(episodes)})")
    ends = list(accumulate(stage["episodes"] for stage in stages))
    for stage, (start, end) in zip(stages, pairwise([0, *ends]), strict=True):
        stage["episodes"] = round(episodes * end / ends[-1]) - round(episodes * start / ends[-1])
    if min(stage["episodes"] for stage in stages) < 1:
        raise InputError(f"{episodes} episodes are too few for the {len(stages)} stages: use more episodes")


def first_problem(error: ValidationError) -> str:
    """Describe the first problem that pydantic found, in plain words.

    >>> from gaussproto.training_settings import EpisodeConfig
    >>> try:
    ...     EpisodeConfig(way=1)
    ... except ValidationError as error:
    ...     print(first_problem(error))
    way must be at least 2 (found 1)
    """
    problem = error.errors()[0]
    kind, place = problem["type"], problem["loc"]
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    name = next((part for part in reversed(place) if isinstance(part, str)), "the content")
    if place and isinstance(place[-1], int):
        name = f"every value of {name}"
    if kind not in _PROBLEMS:
        reason = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}"
        return f"{name} is not valid: {reason} (found {shortened(problem['input'])})"
    limits = {key: f"{limit:g}" if isinstance(limit, float) else limit for key, limit in problem.get("ctx", {}).items()}
    found = "" if kind in ("missing", "extra_forbidden") else f" (found {shortened(problem['input'])})"
    return f"{name} {_PROBLEMS[kind].format(**limits)}{found}"


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
        return ", ".join(map(str, value)) or "none"
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
