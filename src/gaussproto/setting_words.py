"""Settings as a person says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def setting_words(name: str, value: Any) -> str:
    """A setting of a configuration, as JSON has it.

    >>> setting_words("rotations", True), setting_words("filters", [64, 64]), setting_words("max_shot", None)
    ('yes', '64, 64', 'not set')
    >>> setting_words("split", {"train": ["ant", "bee", "cat"], "test": ["owl", "fox"]})
    '3 classes train, 2 classes test'
    """
    if name == "stages":
        return ", then ".join(map(_stage_words, value))
    if name == "split" and value:
        return ", ".join(f"{len(classes):,} classes {use}" for use, classes in value.items() if classes is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "not set" if value is None else str(value)


def _stage_words(stage: Mapping[str, Any]) -> str:
    damage = ", ".join(f"{100 * share:g} % to {size} px" for size, share in stage["damage"].items())
    words = f"{stage['episodes']:,} episodes" + (f"; damage {damage}" if damage else "")
    return words + (f"; {stage['transform']}" if stage["transform"] else "")
