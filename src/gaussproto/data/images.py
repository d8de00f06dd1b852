"""Images in memory: uint8, grouped by class, so that an episode is one indexing call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from gaussproto.errors import InputError

Progress = Callable[[str, int, int | None], None]  # what is being done, how much is done, how much there is if known


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with the class, class name and alphabet of each; the images of one class stand together.

    Args:
        images: (N, channels, H, W), uint8; ink or object bright, background dark.
        counts: (C,) how many images each class has; they add up to N.
        classes: the name of each class.
        alphabets: the group each class belongs to (an alphabet, or any set of classes that should not be split).
        characters: the class that each class is a rotation of, or itself; if not given, none is a rotation.

    >>> pixels = torch.zeros(5, 1, 28, 28, dtype=torch.uint8)
    >>> images = LabelledImages(pixels, torch.tensor([2, 3]), classes=("a", "b"), alphabets=("x", "x"))
    >>> images.labels.tolist()
    [0, 0, 1, 1, 1]
    >>> images.gather(torch.tensor([1, 0]), torch.tensor([[2, 0], [0, 1]])).shape
    torch.Size([2, 2, 1, 28, 28])
    """

    images: Tensor
    counts: Tensor
    classes: tuple[str, ...]
    alphabets: tuple[str, ...]
    characters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.characters:
            object.__setattr__(self, "characters", self.classes)  # the way to set what is frozen
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            found = f"{tuple(self.images.shape)} of {self.images.dtype}"
            raise InputError(f"images must be (N, channels, H, W) of uint8 (found {found})")
        C = len(self.classes)
        if self.counts.shape != (C,) or len(self.alphabets) != C or int(self.counts.sum()) != len(self.images):
            raise InputError(
                f"counts, classes and alphabets must be of one length and the counts add up to the {len(self.images)} "
                f"images (found {tuple(self.counts.shape)}, {C}, {len(self.alphabets)} and {int(self.counts.sum())})"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def way(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @cached_property
    def starts(self) -> Tensor:
        """(C,) where the images of each class begin."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def labels(self) -> Tensor:
        """(N,) the class of each image."""
        return torch.arange(self.way).repeat_interleave(self.counts)

    @property
    def dense(self) -> Tensor:
        """(C, drawings, channels, H, W), a view; only where every class has as many images."""
        if self.counts.unique().numel() != 1:
            low, high = int(self.counts.min()), int(self.counts.max())
            raise InputError(f"classes have from {low} to {high} images; a dense tensor needs equal counts")
        return self.images.view(self.way, -1, *self.images.shape[1:])

    def fingerprint(self) -> str:
        """The same for the same classes and counts in the same order."""
        content = json.dumps([self.classes, self.counts.tolist(), self.images.shape[1:]])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def gather(self, classes: Tensor, drawings: Tensor) -> Tensor:
        """The chosen drawings, (C, K), of the chosen classes, (C,), as (C, K, channels, H, W)."""
        return self.images[(self.starts[classes, None] + drawings).to(self.images.device)]

    def to(self, device: str) -> LabelledImages:
        """The images on another device; what chooses among them stays here."""
        return replace(self, images=self.images.to(device))

    def select(self, chosen: Sequence[int]) -> LabelledImages:
        """Only these classes, in this order."""
        starts, counts = self.starts[list(chosen)], self.counts[list(chosen)]
        index = torch.cat([torch.arange(a, a + n) for a, n in zip(starts.tolist(), counts.tolist(), strict=True)])
        return LabelledImages(
            self.images[index],
            counts,
            tuple(self.classes[c] for c in chosen),
            tuple(self.alphabets[c] for c in chosen),
            tuple(self.characters[c] for c in chosen),
        )

    def with_rotations(self) -> LabelledImages:
        """Each class turned by 90, 180 and 270 degrees is a class of its own: four times as many."""
        if self.images.shape[-1] != self.images.shape[-2]:
            raise InputError(f"rotations as classes need square images; these are {tuple(self.images.shape[-2:])}")
        turns = range(4)
        return LabelledImages(
            torch.cat([self.images.rot90(turn, dims=(-2, -1)) for turn in turns]),
            self.counts.repeat(4),
            tuple(name + (f" turned {90 * turn}" if turn else "") for turn in turns for name in self.classes),
            self.alphabets * 4,
            self.characters * 4,
        )


def as_float(images: Tensor) -> Tensor:
    """Brightness from 0 to 1, as float32; float images pass as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images
