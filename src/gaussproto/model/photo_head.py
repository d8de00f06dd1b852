"""The Gaussian head of the photo encoder: from features of a photo to an embedding of fixed length and a precision.

u = v / |v|                      only the direction of the features tells classes apart
y = A (u − mean)
x = sharpness · y / |y|          the embedding
s = exp(small network (v))       the precision, which also sees the length of the features
"""

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.errors import InputError
from gaussproto.model.head import HIDDEN, GaussianHead, HeadSettings, start_as_identity
from gaussproto.model.state import with_weights

METADATA = "gaussproto-photo-head"


class PhotoHead(GaussianHead):
    """A Gaussian head whose embeddings all have the same length. `scripts/photo_head.py` trains the bundled one.

    Args:
        features: the length of the vectors.
        embedding_dim: the size of the embedding, by default that of the vectors.
    """

    def __init__(self, features: int, embedding_dim: int | None = None) -> None:
        super().__init__(features, embedding_dim)
        self.encoder: PhotoVectors = PhotoVectors(features, embedding_dim or features)  # type: ignore[assignment]

    def save(self, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
        """Write the head to a safetensors file. Half precision halves its size."""
        tensors = {name: t.detach().cpu().to(dtype).contiguous() for name, t in self.state_dict().items()}
        settings = HeadSettings(features=self.features, embedding_dim=self.config.embedding_dim)
        write_arrays(Path(path), tensors, {METADATA: settings.model_dump_json()})


class PhotoVectors(nn.Module):
    """The layers of a photo head. A new one copies the directions of the vectors and gives all the same precision."""

    mean: Tensor
    raw_mean: Tensor
    raw_scale: Tensor

    def __init__(self, features: int, D: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))  # of the vectors of length 1
        self.register_buffer("raw_mean", torch.zeros(features))  # of the vectors
        self.register_buffer("raw_scale", torch.ones(()))
        self.embedding = nn.Linear(features, D, bias=False)
        self.sharpness = nn.Parameter(torch.ones(()))
        last = nn.Linear(HIDDEN, 1)
        self.raw = nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), last)
        start_as_identity(self.embedding)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, 3.0)  # near the largest precision

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors (N, features) to x and s_raw, (N, D + 1)."""
        return torch.cat([self.x(vectors), self.s_raw(vectors)], dim=1)

    def x(self, vectors: Tensor) -> Tensor:
        y = self.embedding(F.normalize(vectors, dim=-1) - self.mean)
        return self.sharpness * F.normalize(y, dim=-1)

    def s_raw(self, vectors: Tensor) -> Tensor:
        """Return the logarithm of the precision, (N, 1)."""
        return F.logsigmoid(self.raw((vectors - self.raw_mean) / self.raw_scale))


def load_photo_head(path: Path | str) -> PhotoHead:
    """Read a photo head, in evaluation mode and in single precision."""
    file = read_arrays(Path(path), "photo head", "pt")
    head = photo_head_of(Path(path), file.metadata, file.arrays)
    if head is None:
        raise InputError(f"{path} is not a photo head (found no entry {METADATA}): choose another file")
    return head


def photo_head_of(path: Path, metadata: Mapping[str, str], tensors: dict[str, Tensor]) -> PhotoHead | None:
    """Return the photo head stored in a file that was read, or None if the file holds something else."""
    if METADATA not in metadata:
        return None
    try:
        settings = HeadSettings.model_validate_json(metadata[METADATA])
        single = {name: tensor.float() for name, tensor in tensors.items()}
        head = with_weights(lambda: PhotoHead(settings.features, settings.embedding_dim), single)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the photo head in {path} does not match its settings: copy or train it again") from error
    return head.eval()
