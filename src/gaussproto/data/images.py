"""Images in memory: uint8 and grouped by class, so that an episode is one indexing call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from gaussproto.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class LabelledImages:
    """Images grouped by class, with the name and the alphabet of each class.

    Args:
        images: (N, channels, H, W), uint8, with bright ink on a dark ground.
        counts: (C,) the number of images of each class; their sum is N.
        classes: the name of each class.
        alphabets: the group that each class belongs to: an alphabet, or any set of classes that should stay together.
        characters: the class that each class is a rotation of, or itself. By default, no class is a rotation.

    >>> pixels = torch.zeros(5, 1, 28, 28, dtype=torch.uint8)
    >>> images = LabelledImages(pixels, torch.tensor([2, 3]), classes=("a", "b"), alphabets=("x", "x"))
    >>> images
    LabelledImages(5 images of 2 classes in 1 alphabet, 1 x 28 x 28)
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
            object.__setattr__(self, "characters", self.classes)  # the dataclass is frozen
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            kind = f"{self.images.dtype} of shape {tuple(self.images.shape)}"
            raise InputError(f"images must be a uint8 tensor of shape (N, channels, H, W) (found {kind})")
        C, total = len(self.classes), int(self.counts.sum())
        if self.counts.shape != (C,) or len(self.alphabets) != C or total != len(self.images):
            raise InputError(
                "counts, classes and alphabets must have the same length, and the counts must add up to the "
                f"{len(self.images)} images (found counts of shape {tuple(self.counts.shape)} with the sum {total}, "
                f"{C} classes and {len(self.alphabets)} alphabets)"
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        numbers = (len(self), "image", "s"), (self.way, "class", "es"), (len(set(self.alphabets)), "alphabet", "s")
        images, classes, alphabets = (f"{n:,} {noun}{'' if n == 1 else plural}" for n, noun, plural in numbers)
        return f"LabelledImages({images} of {classes} in {alphabets}, {' x '.join(map(str, self.images.shape[1:]))})"

    @property
    def way(self) -> int:
        return len(self.classes)

    @cached_property
    def starts(self) -> Tensor:
        """(C,) the index of the first image of each class."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def labels(self) -> Tensor:
        return torch.arange(self.way).repeat_interleave(self.counts)

    @property
    def dense(self) -> Tensor:
        """(C, drawings, channels, H, W), a view; every class must have the same number of images."""
        low, high = self.counts.min(), self.counts.max()
        if low < high:
            raise InputError(f"classes have from {low} to {high} images, not the same number of each: use gather")
        return self.images.view(self.way, -1, *self.images.shape[1:])

    def fingerprint(self) -> str:
        """A hash of the names, the counts and the size of the images, in their order."""
        content = json.dumps([self.classes, self.counts.tolist(), self.images.shape[1:]])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def gather(self, classes: Tensor, drawings: Tensor) -> Tensor:
        """Drawings (C, K) of classes (C,), both given as indices: (C, K, channels, H, W)."""
        return self.images[(self.starts[classes, None] + drawings).to(self.images.device)]

    def to(self, device: str) -> LabelledImages:
        return replace(self, images=self.images.to(device))

    def select(self, chosen: Sequence[int]) -> LabelledImages:
        starts, counts = self.starts[list(chosen)], self.counts[list(chosen)]
        index = torch.cat([torch.arange(a, a + n) for a, n in zip(starts.tolist(), counts.tolist(), strict=True)])
        names = (tuple(of_all[c] for c in chosen) for of_all in (self.classes, self.alphabets, self.characters))
        return LabelledImages(self.images[index], counts, *names)

    def with_rotations(self) -> LabelledImages:
        """Add each class turned by 90, 180 and 270 degrees as a new class: four times as many classes."""
        H, W = self.images.shape[-2:]
        if H != W:
            raise InputError(f"rotations need square images (found {H} x {W} pixels): resize them")
        turns = range(4)
        return LabelledImages(
            torch.cat([self.images.rot90(turn, dims=(-2, -1)) for turn in turns]),
            self.counts.repeat(4),
            tuple(name + (f" turned {90 * turn}" if turn else "") for turn in turns for name in self.classes),
            self.alphabets * 4,
            self.characters * 4,
        )

    def unturned(self) -> list[int]:
        return [c for c, name in enumerate(self.classes) if name == self.characters[c]]

    def sample_of_classes(self, most: int) -> LabelledImages:
        """At most `most` of the unturned classes, evenly spaced."""
        classes = self.unturned()
        step = max(1.0, len(classes) / most)
        return self.select([classes[int(i * step)] for i in range(min(most, len(classes)))])
