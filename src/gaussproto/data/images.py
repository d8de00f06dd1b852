"""Images in memory, uint8 and grouped by class, so that one indexing call returns an episode."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gaussproto.config import GIVEN, DataConfig, EpisodeConfig
from gaussproto.errors import InputError

VARIED = EpisodeConfig().varied


@dataclass(frozen=True, eq=False, repr=False)
class LabelledImages:
    """Images grouped by class, with the name and the alphabet of each class.

    Use `LabelledImages.from_labels` to make them from images in any order.

    Args:
        images: (N, channels, H, W), uint8, with bright ink on a dark background, sorted by class.
        counts: (C,) number of images of each class; the sum is N.
        classes: name of each class.
        alphabets: group of each class: an alphabet, or any set of classes that should stay together.
        characters: the class that each class is a rotation of, or itself. By default, no class is a rotation.
        source: the configuration that `load_data` loaded the images with. A run records it.
        variants: (N, variants, channels, H, W), uint8, other versions of each image. An episode often takes one of them
            instead of the image.

    Examples:
        >>> import torch
        >>> import gaussproto as gp
        >>> pixels = torch.zeros(5, 1, 28, 28, dtype=torch.uint8)
        >>> images = gp.LabelledImages(pixels, torch.tensor([2, 3]), classes=("a", "b"), alphabets=("x", "x"))
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
    source: DataConfig | None = None
    variants: Tensor | None = None

    @classmethod
    def from_labels(cls, images: Any, labels: Any) -> LabelledImages:
        """Group images by their labels.

        Args:
            images: a uint8 array or tensor (N, H, W) or (N, channels, H, W), with bright ink on a dark background.
            labels: (N,) label of each image, of any hashable type. Class names are the labels as text.

        Returns:
            The images, grouped by class, in one alphabet.

        Examples:
            >>> import numpy as np
            >>> import gaussproto as gp
            >>> gp.LabelledImages.from_labels(np.zeros((3, 28, 28), np.uint8), ["b", "a", "b"]).classes
            ('a', 'b')
        """
        from gaussproto.data.labels import classes_of, read_labels  # imports scikit-learn

        try:
            pixels = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
        except (TypeError, ValueError) as error:
            raise InputError(f"images must be one array of pixels ({error}): resize them to the same size") from None
        if pixels.dim() == 3:
            pixels = pixels[:, None]
        if pixels.dim() == 4 and pixels.shape[1] not in (1, 3) and pixels.shape[3] in (1, 3):
            raise InputError(
                f"images must have the shape (N, channels, H, W) (found {tuple(pixels.shape)}): move the channels to "
                "the second axis with images.transpose(0, 3, 1, 2)"
            )
        given = read_labels(labels)
        if len(given) != len(pixels):
            found = f"found {len(pixels)} and {len(given)}"
            raise InputError(f"images and labels must have the same length ({found}): pass one label for each image")
        classes = classes_of(given)
        index = {label: c for c, label in enumerate(classes)}
        numbers = torch.tensor([index[label] for label in given], dtype=torch.int64)
        names = tuple(map(str, classes))
        counts = torch.bincount(numbers, minlength=len(names))
        return cls(pixels[numbers.argsort(stable=True)], counts, names, ("given",) * len(names))

    def __post_init__(self) -> None:
        if not self.characters:
            object.__setattr__(self, "characters", self.classes)  # the dataclass is frozen
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            kind = f"{self.images.dtype} of shape {tuple(self.images.shape)}"
            raise InputError(f"images must be a uint8 tensor of shape (N, channels, H, W) (found {kind})")
        if len(set(self.classes)) < len(self.classes):
            twice = Counter(self.classes).most_common(1)[0][0]
            raise InputError(f"the class {twice!r} appears more than once: give every class its own name")
        if self.counts.is_floating_point() or bool((self.counts < 0).any()):
            raise InputError(f"counts must be whole numbers of at least 0 (found {self.counts.tolist()[:5]})")
        C, total = len(self.classes), int(self.counts.sum())
        if self.counts.shape != (C,) or len(self.alphabets) != C or total != len(self.images):
            raise InputError(
                f"every class needs one count and one alphabet (found counts of shape {tuple(self.counts.shape)}, {C} "
                f"classes and {len(self.alphabets)} alphabets), and the counts must add up to the {len(self.images)} "
                f"images (found {total}): use LabelledImages.from_labels"
            )
        if self.variants is not None:
            N, *shape = self.images.shape
            found = tuple(self.variants.shape)
            if self.variants.dtype != torch.uint8 or len(found) != 5 or [found[0], *found[2:]] != [N, *shape]:
                expected = ", ".join(map(str, (N, "variants", *shape)))
                kind = f"{self.variants.dtype} of shape {found}"
                raise InputError(f"variants must be a uint8 tensor of shape ({expected}) (found {kind})")

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        numbers = (len(self), "image", "s"), (self.way, "class", "es"), (len(set(self.alphabets)), "alphabet", "s")
        images, classes, alphabets = (f"{n:,} {noun}{'' if n == 1 else plural}" for n, noun, plural in numbers)
        return f"LabelledImages({images} of {classes} in {alphabets}, {' x '.join(map(str, self.images.shape[1:]))})"

    @property
    def way(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def config(self) -> DataConfig:
        """The data configuration that a run records: `source`, or if it is None, the appearance of the images."""
        if self.source is not None:
            return self.source
        channels, H, W = self.images.shape[1:]
        if channels not in (1, 3):
            raise InputError(f"images must have 1 or 3 channels (found {channels} in the shape {(channels, H, W)})")
        return DataConfig(
            data=GIVEN, image_size=min(H, W), channels=channels, ink="detect" if channels == 1 else "bright"
        )

    @cached_property
    def starts(self) -> Tensor:
        """(C,) index of the first image of each class."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def labels(self) -> Tensor:
        """(N,) class index of each image."""
        return torch.arange(self.way).repeat_interleave(self.counts)

    @property
    def dense(self) -> Tensor:
        """(C, drawings, channels, H, W) a view of the images. Every class must have the same number of them."""
        low, high = self.counts.min(), self.counts.max()
        if low < high:
            raise InputError(f"all classes must have the same number of images (found {low} to {high}): use `gather`")
        return self.images.view(self.way, -1, *self.images.shape[1:])

    def fingerprint(self, pixels: bool = True) -> str:
        """Return a hash of the class names, their order, the counts, the image size and the pixels."""
        content = json.dumps([self.classes, self.counts.tolist(), self.images.shape[1:]])
        digest = hashlib.sha256(content.encode())
        if not pixels:
            return digest.hexdigest()[:16]
        for tensor in (self.images, self.variants):
            if tensor is not None:
                digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def has_fingerprint(self, fingerprint: str) -> bool:
        """Return whether these images have a fingerprint. Those of earlier versions are shorter, without the pixels."""
        return fingerprint == self.fingerprint(pixels=len(fingerprint) > 16)

    @cached_property
    def groups(self) -> Tensor:
        """(C,) index of the group of each class: the classes of one alphabet in one rotation."""
        turns = (name.removeprefix(character) for name, character in zip(self.classes, self.characters, strict=True))
        keys = list(zip(self.alphabets, turns, strict=True))
        number = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        return torch.tensor([number[key] for key in keys])

    def gather(
        self,
        classes: Tensor,
        drawings: Tensor,
        generator: torch.Generator | None = None,
        varied: float = VARIED,
    ) -> Tensor:
        """Return images (C, K, channels, H, W), given the indices of classes (C,) and of their drawings (C, K).

        With a generator, the fraction `varied` of the images is replaced by one of their variants, if they have any.
        """
        index = (self.starts[classes, None] + drawings).to(self.images.device)
        drawn = self.images[index]
        if self.variants is not None and generator is not None:
            replaced = (torch.rand(index.shape, generator=generator) < varied).to(index.device)
            which = torch.randint(self.variants.shape[1], index.shape, generator=generator).to(index.device)
            drawn[replaced] = self.variants[index[replaced], which[replaced]]
        return drawn

    def to(self, device: str) -> LabelledImages:
        """Move the images to a device."""
        variants = None if self.variants is None else self.variants.to(device)
        return replace(self, images=self.images.to(device), variants=variants)

    def select(self, chosen: Sequence[int]) -> LabelledImages:
        """Return the images of the classes with these indices, in this order."""
        starts, counts = self.starts[list(chosen)], self.counts[list(chosen)]
        index = torch.cat([torch.arange(a, a + n) for a, n in zip(starts.tolist(), counts.tolist(), strict=True)])
        every = (self.classes, self.alphabets, self.characters)
        classes, alphabets, characters = (tuple(names[c] for c in chosen) for names in every)
        variants = None if self.variants is None else self.variants[index]
        return LabelledImages(self.images[index], counts, classes, alphabets, characters, variants=variants)

    def with_rotations(self) -> LabelledImages:
        """Add each class rotated by 90, 180 and 270 degrees as new classes, which gives four times as many."""
        H, W = self.images.shape[-2:]
        if H != W:
            raise InputError(
                f"rotations need square images (found {H} x {W} pixels): resize them, or turn off rotations"
            )
        turns = range(4)

        def turned(pixels: Tensor) -> Tensor:
            return torch.cat([pixels.rot90(turn, dims=(-2, -1)) for turn in turns])

        return LabelledImages(
            turned(self.images),
            self.counts.repeat(4),
            tuple(name + (f" turned {90 * turn}" if turn else "") for turn in turns for name in self.classes),
            self.alphabets * 4,
            self.characters * 4,
            variants=None if self.variants is None else turned(self.variants),
        )

    def unturned(self) -> list[int]:
        """Return the indices of the classes that are not rotations."""
        return [c for c, name in enumerate(self.classes) if name == self.characters[c]]

    def sample_of_classes(self, most: int) -> LabelledImages:
        """Return at most `most` of the classes that are not rotations, evenly spaced."""
        classes = self.unturned()
        step = max(1.0, len(classes) / most)
        return self.select([classes[int(i * step)] for i in range(min(most, len(classes)))])
