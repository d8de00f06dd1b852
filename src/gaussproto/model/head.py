"""A small Gaussian head for feature vectors from any backbone. `training/head.py` trains it."""

from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from gaussproto.arrays import write_arrays
from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.model.state import with_weights
from gaussproto.setting_types import LARGEST_WIDTH, first_problem

HIDDEN = 32  # units of the hidden layer that predicts the precision
METADATA = "gaussproto-head"


class HeadSettings(BaseModel):
    """The sizes of a head, as its file states them."""

    model_config = ConfigDict(extra="forbid")

    features: int = Field(ge=1, le=LARGEST_WIDTH)
    embedding_dim: int | None = Field(default=None, ge=1, le=LARGEST_WIDTH)


class GaussianHead(GaussianPrototypicalNetwork):
    """A Gaussian prototypical network that takes feature vectors instead of images.

    Train one with `gaussproto.train_head`. A new head copies the vectors to the embedding and gives all of them the
    same precision.

    Args:
        features: the length of the vectors.
        embedding_dim: the size of the embedding, by default that of the vectors.

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> head = gp.GaussianHead(features=512, embedding_dim=64)
        >>> x, s = head.embed(torch.zeros(3, 512))
        >>> x.shape, s.shape
        (torch.Size([3, 64]), torch.Size([3, 1]))
    """

    def __init__(self, features: int, embedding_dim: int | None = None) -> None:
        D = embedding_dim or features
        config = NetworkConfig(
            embedding_dim=D, covariance="radius", transform="exp", precision_relu=False, weighting="prototype"
        )
        super().__init__(config, backbone=nn.Identity(), features=features)
        self.config = config  # undo the names that the parent recorded for the placeholder backbone
        self.features = features
        self.encoder: _VectorEncoder = _VectorEncoder(features, D)

    def embed(self, images: Tensor) -> Embedded[Tensor]:
        """Map vectors (N, features) to embeddings x (N, D) and precisions s (N, 1)."""
        x, s_raw = self.encoder(images).split(self.sizes, dim=1)
        return Embedded(x, self.precision(s_raw))

    def save(self, path: Path | str) -> None:
        """Write the head to a safetensors file. A classifier takes its path as the encoder."""
        tensors = {name: t.detach().cpu().contiguous().clone() for name, t in self.state_dict().items()}
        settings = HeadSettings(features=self.features, embedding_dim=self.config.embedding_dim)
        write_arrays(Path(path), tensors, {METADATA: settings.model_dump_json()})


def head_of(path: Path, metadata: Mapping[str, str], tensors: dict[str, Tensor]) -> GaussianHead | None:
    """Return the head stored in a file that was read, or None if the file holds something else."""
    if METADATA not in metadata:
        return None
    try:
        settings = HeadSettings.model_validate_json(metadata[METADATA])
        head = with_weights(lambda: GaussianHead(settings.features, settings.embedding_dim), tensors)
    except (RuntimeError, ValueError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(f"the head in {path} does not match its settings ({problem}): train it again") from error
    return head.eval()


def start_as_identity(linear: nn.Linear) -> None:
    """Let a new linear layer copy its inputs. `nn.init.eye_` on the meta device imports the compiler, for a second."""
    with torch.no_grad():
        linear.weight.zero_().fill_diagonal_(1)


class _VectorEncoder(nn.Module):
    """A linear map from centred and scaled vectors to x, and a small network to s_raw, which starts at 0."""

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, D: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(()))  # one scale for all directions keeps the metric of the vectors
        self.embedding = nn.Linear(features, D, bias=False)
        last = nn.Linear(HIDDEN, 1)
        self.raw = nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), last)
        start_as_identity(self.embedding)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def begin(self, vectors: Tensor) -> None:
        """Set the mean and scale of the training vectors and, if D is smaller, start from their principal axes."""
        self.mean.copy_(vectors.mean(dim=0))
        centred = vectors - self.mean
        self.scale.copy_(centred.square().mean().sqrt().clamp_min(1e-12))
        F, D = self.embedding.in_features, self.embedding.out_features
        if F > D:
            _, _, directions = torch.linalg.svd(centred / self.scale, full_matrices=False)
            with torch.no_grad():
                self.embedding.weight[: len(directions)] = directions[:D]

    def forward(self, vectors: Tensor) -> Tensor:
        v = (vectors - self.mean) / self.scale
        return torch.cat([self.embedding(v), self.raw(v)], dim=1)
