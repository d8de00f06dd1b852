"""Raw encoder output -> precision, the inverse covariance of an embedding.

| covariance | raw numbers | precision s | S |
|---|---|---|---|
| none | 0 | - | the identity |
| radius | 1 | (N, 1) | s I |
| diagonal | D | (N, D) | diag(s) |
| full | D (D + 1) / 2 | (N, D, D) | L L^T |
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.config import Covariance, Transform


def is_dead(mean: float, spread: float) -> bool:
    """Whether precisions of that mean and standard deviation are so alike that they weigh all images alike.

    >>> is_dead(2.0, 0.001), is_dead(2.0, 0.3)
    (True, False)
    """
    return spread < 1e-3 * abs(mean)


def raw_size(covariance: Covariance, D: int) -> int:
    """How many raw numbers the encoder gives for the covariance."""
    return {"none": 0, "radius": 1, "diagonal": D, "full": D * (D + 1) // 2}[covariance]


class Softplus(nn.Module):
    """s = 1 + softplus(s_raw): from 1 without limit; the paper's method a."""

    def forward(self, s_raw: Tensor) -> Tensor:
        """Component-wise."""
        return 1 + F.softplus(s_raw)


class Sigmoid(nn.Module):
    """s = 1 + span * sigmoid(s_raw): from 1 to 2, the paper's method b, or with a span of 4 to 5, its method c."""

    def __init__(self, span: float = 1.0) -> None:
        super().__init__()
        self.span = span

    def forward(self, s_raw: Tensor) -> Tensor:
        """Component-wise."""
        return 1 + self.span * torch.sigmoid(s_raw)


class LearnedSoftplus(nn.Module):
    """s = offset + scale * softplus(s_raw / div), three scalars that start at 1; the paper's method d."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.ones(()))
        self.scale = nn.Parameter(torch.ones(()))
        self.div = nn.Parameter(torch.ones(()))

    def forward(self, s_raw: Tensor) -> Tensor:
        """Component-wise."""
        return self.offset + self.scale * F.softplus(s_raw / self.div)


class Exp(nn.Module):
    """s = exp(s_raw): any positive number, the ratio of two being what the encoder says."""

    LARGEST = 15.0  # e^15 = 3e6: one image may outweigh all others, and float32 keeps their sum exact enough

    def forward(self, s_raw: Tensor) -> Tensor:
        """Component-wise."""
        return s_raw.clamp(-self.LARGEST, self.LARGEST).exp()


def make_transform(name: Transform) -> nn.Module:
    """The transform of that name, its parameters new."""
    make: dict[Transform, Callable[[], nn.Module]] = {
        "softplus": Softplus,
        "sigmoid": Sigmoid,
        "wide_sigmoid": lambda: Sigmoid(span=4.0),
        "learned_softplus": LearnedSoftplus,
        "exp": Exp,
    }
    return make[name]()


class Precision(nn.Module):
    """From the raw output to the precision of each image.

    In a full covariance the transform gives the squared diagonal of the Cholesky factor L, and the rest of L is raw,
    so that a factor without off-diagonal entries is the diagonal covariance.

    >>> Precision("full", 3, "softplus")(torch.zeros(2, 6)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, covariance: Covariance, D: int, transform: Transform) -> None:
        super().__init__()
        self.covariance, self.D = covariance, D
        self.transform = make_transform(transform)

    def forward(self, s_raw: Tensor) -> Tensor | None:
        """(N, R) -> (N, E), or (N, D, D) if full, or None."""
        if self.covariance == "none":
            return None
        if self.covariance != "full":
            s: Tensor = self.transform(s_raw)
            return s
        N, D = len(s_raw), self.D
        diagonal, rest = s_raw.split([D, D * (D - 1) // 2], dim=1)
        row, column = torch.tril_indices(D, D, offset=-1, device=s_raw.device)
        L = torch.diag_embed(self.transform(diagonal).sqrt())  # (N, D, D)
        L = L.index_put((torch.arange(N, device=L.device)[:, None], row, column), rest)
        return L @ L.mT
