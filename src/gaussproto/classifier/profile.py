"""What a set of images looks like: it decides between drawings and photos, and tells if new images fit the examples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from gaussproto.classifier.encoders.photo import PHOTO
from gaussproto.data.look import COLOURS, Look, Traits
from gaussproto.errors import IN_PYTHON, ImageWarning, visible

DRAWINGS = "drawings-small"  # `auto` chooses it, or the photo encoder
MOST, FEW = 0.8, 0.2  # shares of the images
SIZE_FACTOR = 1.6  # between the sizes of the ink
SHARE_FACTOR = 3.0  # between the shares of ink: more than a bold marker makes of a pen
SMALL = 0.25  # of the side of the examples


class Profile(BaseModel):
    """Averages over the images of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: int = Field(ge=1)  # that the averages were computed from
    drawings: float = Field(ge=0, le=1)  # share that look like drawings
    colour: float = Field(ge=0, le=1)  # share with several colours
    dark: float = Field(ge=0, le=1)  # share with dark ink on a light ground
    ink_share: float = Field(ge=0, le=1)  # medians from here on
    ink_size: float = Field(ge=0, le=1)
    side: float = Field(gt=0)

    @classmethod
    def of(cls, traits: Sequence[Traits]) -> Profile:
        inked = [each for each in traits if each.ink_share > 0] or traits
        return cls(
            images=len(traits),
            drawings=float(np.mean([each.is_drawing for each in traits])),
            colour=float(np.mean([each.colours >= COLOURS for each in traits])),
            dark=float(np.mean([each.dark for each in inked])),
            ink_share=float(np.median([each.ink_share for each in inked])),
            ink_size=float(np.median([each.ink_size for each in inked])),
            side=float(np.median([each.side for each in traits])),
        )

    @property
    def mixed(self) -> str | None:
        """How many images look like the other kind, if they are many: a set of drawings and photos fits no encoder."""
        kind, share = ("photos", 1 - self.drawings) if self.encoder == DRAWINGS else ("drawings", self.drawings)
        return (
            f"{round(share * self.images)} of {self.images} sampled examples look like {kind}" if share > FEW else None
        )

    @property
    def encoder(self) -> str:
        """The encoder for these images."""
        return DRAWINGS if self.drawings >= 0.5 else PHOTO


@dataclass
class _Gathered:
    """What is known of images that came in several parts."""

    blank: list[np.ndarray] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    traits: list[Traits] = field(default_factory=list)
    judged_by: tuple[Profile | None, Look] | None = None


_gathering: ContextVar[_Gathered | None] = ContextVar("gathering", default=None)


@contextmanager
def warn_at_the_end(of_blank: str) -> Iterator[None]:
    """Gather what `warn_of_blank` and `warn_if_unlike` get in the block, and warn once of all images together.

    `of_blank` says what happens to blank images.
    """
    token = _gathering.set(gathered := _Gathered())
    try:
        yield
    finally:
        _gathering.reset(token)
    if gathered.judged_by is not None:
        examples, look = gathered.judged_by
        warn_if_unlike(examples, gathered.traits, look)
    if gathered.blank:
        warn_of_blank(np.concatenate(gathered.blank), gathered.names, f": {of_blank}")


def warn_of_blank(blank: np.ndarray, names: Sequence[str], answer: str = IN_PYTHON) -> None:
    """Warn of images (N,) in which no ink was found."""
    if gathered := _gathering.get():
        gathered.blank.append(blank)
        gathered.names += names
    elif blank.any():
        i = int(blank.argmax())
        first = visible(names[i]) or f"image {i}"
        which = first if len(names) == 1 else f"{int(blank.sum())} of {len(names)} images, for example {first}"
        warnings.warn(f"found no ink in {which}{answer}", ImageWarning, stacklevel=4)


def warn_if_unlike(examples: Profile | None, traits: Sequence[Traits], look: Look) -> None:
    """Warn of new images that do not look like the examples. Galleries of earlier versions have no profile."""
    if gathered := _gathering.get():
        gathered.traits += traits
        gathered.judged_by = examples, look
        return
    how = difference(examples, Profile.of(traits), look) if examples else None
    if how:
        warnings.warn(f"the new images do not look like the examples: {how}", ImageWarning, stacklevel=4)


def difference(examples: Profile, new: Profile, look: Look) -> str | None:
    """Return in a sentence how new images differ from the examples in a way that matters to a network, or None."""
    if examples.colour <= FEW and new.colour >= MOST:
        return "the examples are grey, but the new images have several colours"
    if examples.colour >= MOST and new.colour <= FEW:
        return "the examples have several colours, but the new images are grey"
    if look.channels == 1 and min(examples.ink_share, new.ink_share) > 0:
        if look.ink != "detect" and abs(examples.dark - new.dark) >= MOST - FEW:
            kinds = ("dark", "bright") if examples.dark > new.dark else ("bright", "dark")
            return f"the ink of the examples is {kinds[0]}, but that of the new images is {kinds[1]}"
        if look.prepare == "none" and not 1 / SIZE_FACTOR < new.ink_size / examples.ink_size < SIZE_FACTOR:
            sizes = (f"{100 * each.ink_size:.0f} %" for each in (examples, new))
            return "the ink spans {} of the side of the examples, but {} of that of the new images".format(*sizes)
        spread = new.ink_share / examples.ink_share * (examples.ink_size / new.ink_size) ** 2  # at the same size
        if not 1 / SHARE_FACTOR < spread < SHARE_FACTOR:
            how = f"{spread:.1f} times as" if spread > 1 else f"1/{1 / spread:.1f} as"
            return f"at the same size, the new images have {how} much ink as the examples"
    if look.channels == 3 and new.side < SMALL * examples.side:
        return f"the new images have {new.side:.0f} pixels a side, but the examples {examples.side:.0f}"
    return None
