"""Views of an image: the image itself, and moved a little in four directions. The mean of their embeddings is steadier.

An encoder halves an image several times, and leaves out the last row and column of an odd side. So it sees other parts
of an image that moves by a few pixels.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded

A = TypeVar("A")  # torch.Tensor or numpy.ndarray

VIEWS = (1, 5)
MOVED = 3 / 28  # of the side; chosen on held-out alphabets (docs/training.md)
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right


def check_views(views: Any) -> None:
    if isinstance(views, bool) or views not in VIEWS:
        raise InputError(f"views must be 1 (the image itself) or 5 (also moved in four directions) (found {views!r})")


def moved(images: Any, down: int, right: int) -> Any:
    """Move images (..., H, W) by whole pixels. The edge fills what becomes free.

    >>> import numpy as np
    >>> moved(np.array([[1, 2, 3], [4, 5, 6]]), 0, 1).tolist()
    [[1, 1, 2], [4, 4, 5]]
    """
    H, W = images.shape[-2:]
    rows = [min(max(row - down, 0), H - 1) for row in range(H)]
    columns = [min(max(column - right, 0), W - 1) for column in range(W)]
    return images[..., rows, :][..., columns]


def views_of(images: Any, views: int) -> Iterator[Any]:
    """Yield images (..., H, W), and if there are 5 views, the images moved up, down, left and right."""
    yield images
    H, W = images.shape[-2:]
    for down, right in DIRECTIONS[: views - 1]:
        yield moved(images, down * max(1, round(MOVED * H)), right * max(1, round(MOVED * W)))


def embed_views(embed: Callable[[A], Embedded[A]], views: int, images: A) -> Embedded[A]:
    """Embed each image in several views, and return the mean embedding and the mean precision.

    The mean of precision matrices is a precision matrix too, so it suits every covariance.
    """
    if views == 1:
        return embed(images)
    return Embedded.join(map(embed, views_of(images, views)), lambda parts: sum(parts) / len(parts))
