"""The precision of each image, from the encoder's raw output; a transform's learned scalars live here."""

import torch
from torch import Tensor, nn

from gaussproto.formulas.covariance import Covariance, Transform


class Precision(nn.Module):
    """From the raw output to the precision of each image.

    >>> from gaussproto.formulas.covariance import Full, Softplus
    >>> Precision(Full(), 3, Softplus())(torch.zeros(2, 6)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, covariance: Covariance, D: int, transform: Transform) -> None:
        super().__init__()
        self.covariance, self.D = covariance, D
        self.transform = LearnedTransform(transform)

    def forward(self, s_raw: Tensor) -> Tensor | None:
        """(N, R) -> (N, E), or (N, D, D) if full, or None."""
        return self.covariance.precision(s_raw, self.transform, self.D)


class LearnedTransform(nn.Module):
    """A transform with its learned scalars as parameters."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.value = transform.value
        for name, start in transform.parameters.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(start)))

    def forward(self, s_raw: Tensor) -> Tensor:
        return self.value(s_raw, **dict(self.named_parameters()))
