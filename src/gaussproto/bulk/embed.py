"""Embed many images, and write the embeddings as Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.bulk.parts import ParquetFormat, manifest_of, open_parts
from gaussproto.bulk.pipeline import BulkResult, On, check_options, run
from gaussproto.bulk.read import Prepared
from gaussproto.bulk.sources import list_sources
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.find import AUTO, Engine, InkParameter, PrepareParameter, find_encoder
from gaussproto.classifier.inputs import read_traits, sample_of
from gaussproto.classifier.profile import Profile
from gaussproto.data.look import Look
from gaussproto.data.picture import open_image
from gaussproto.errors import InputError
from gaussproto.progress import Progress, silent

PATH = "path"  # the column that names the image


class EmbedWork:
    """Turns a chunk of images into a table of embeddings."""

    def __init__(self, encoder: Encoder, device: str) -> None:
        import pyarrow as pa

        self.embed, self.look, self.device = encoder.embed, encoder.look, device
        x, s = self._numbers(np.zeros((1, self.look.channels, self.look.size, self.look.size), dtype=np.uint8))
        self.sizes = {"embedding": x.shape[1]} | ({} if s is None else {"precision": s.shape[1]})
        self.schema = pa.schema(
            [(PATH, pa.string()), ("label", pa.string())]
            + [(name, pa.list_(pa.float32(), size)) for name, size in self.sizes.items()]
            + [("blank", pa.bool_()), ("problem", pa.string())]
        )

    def __call__(self, prepared: Prepared) -> Any:
        import pyarrow as pa

        N, good = len(prepared.paths), prepared.good
        bad = np.ones(N, dtype=bool)
        bad[good] = False
        columns = [pa.array(prepared.paths, pa.string()), pa.array(prepared.labels, pa.string())]
        numbers = self._numbers(prepared.pixels) if len(good) else (None, None)
        for part, size in zip(numbers, self.sizes.values(), strict=False):
            values = np.zeros((N, size), dtype=np.float32)
            if part is not None:
                values[good] = part
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), size, mask=pa.array(bad)))
        blank = np.zeros(N, dtype=bool)
        blank[good] = prepared.blank
        columns += [pa.array(blank, mask=bad), pa.array(prepared.problems, pa.string())]
        return pa.table(columns, schema=self.schema)

    def _numbers(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the embeddings (N, D) and the precisions (N, E). A full precision is flattened to E = D x D."""
        x, s = self.embed(pixels)
        return x.astype(np.float32, copy=False), None if s is None else s.reshape(len(s), -1).astype(np.float32)


def embed_files(
    sources: str | Path | Sequence[str | Path], out: str | Path, encoder: Any = AUTO, *, ink: InkParameter = "auto",
    prepare: PrepareParameter = "auto", image_size: int | None = None, mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None, engine: Engine | None = None, device: str = "cpu", on: On = "local",
    processes: int | None = None, strict: bool = False, progress: Progress = silent,
) -> BulkResult:  # fmt: skip
    """Embed many image files with flat memory, and write Parquet files with a row for each.

    The columns are path, label, embedding, precision (if the encoder predicts one), blank and problem. A file that
    cannot be read gets a row with the reason and no numbers. Call the function again after a stop, or when there are
    more images: finished images are skipped.

    Args:
        sources: image files, folders (with the folders inside), or lists: .txt with a path in each line, .csv or
            .parquet with the column `path` and perhaps `label`. The label of an image in a folder is the name of the
            folder inside it, as in CLASS/IMAGE.
        out: the folder to write to.
        encoder: as for `GaussianPrototypeClassifier`, like the parameters up to `device`. By default the images
            decide between drawings and photos, or the encoder of an earlier call with the same folder is used.
        on: `local` for this machine, or `ray` for a Ray cluster.
        processes: how many processes read images. By default one for each core.
        strict: raise InputError at the first file that cannot be read.
        progress: called with the task, the number of images done, and the total.

    Returns:
        The number of images, and those that cannot be read.

    Examples:
        >>> import gaussproto as gp
        >>> import pyarrow.parquet
        >>> from PIL import Image
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         Image.linear_gradient("L").rotate(90 * i).save(f"{folder}/{i}.png")
        ...     result = gp.embed_files(folder, f"{folder}/out", "drawings-small", prepare="none")
        ...     table = pyarrow.parquet.read_table(f"{folder}/out")
        >>> result.images, table.column_names
        (3, ['path', 'label', 'embedding', 'precision', 'blank', 'problem'])
        >>> table["embedding"].combine_chunks().flatten().to_numpy().reshape(3, -1).shape
        (3, 256)
    """
    out = Path(out)
    format_ = ParquetFormat(PATH)
    check_options(on, processes)
    images = list_sources(sources)
    begun = manifest_of(out)
    if isinstance(encoder, str) and encoder == AUTO:
        encoder = begun.get("encoder") or _encoder_for(list(images))
    opened = find_encoder(encoder, engine, ink, prepare, image_size, device, mean, std)
    if opened.takes_vectors:
        raise InputError("this encoder takes vectors, not images: choose an image encoder, for example drawings-small")
    work = EmbedWork(opened, device)
    with open_parts(out, format_, identity_of(opened), {"encoder": opened.source}) as parts:
        return run("embedding", images, work, parts, out, on=on, processes=processes, strict=strict, progress=progress)


def identity_of(encoder: Encoder) -> dict[str, Any]:
    """Return what decides the numbers that an encoder computes."""
    look: Look = encoder.look
    identity = {"weights": encoder.digest, "image_size": look.size, "ink": look.ink, "prepare": look.prepare}
    return identity | ({"views": encoder.views} if encoder.views > 1 else {})  # earlier versions had no views


def _encoder_for(files: list[str]) -> str:
    """Return the encoder that fits a few of the files. If none of these can be read, look at others, up to all."""
    for first in range(sample_of(len(files)).step):
        if some := readable_sample(files, first):
            return Profile.of(read_traits(some)).encoder
    try:
        return Profile.of(read_traits(files[:1])).encoder
    except InputError as error:
        raise InputError(f"none of the images can be read, for example: {error}") from None


def readable_sample(files: list[str], first: int = 0) -> list[str]:
    """Return a few of the files, evenly spaced from index `first` on, without those that cannot be read."""
    readable = []
    for file in files[first :: sample_of(len(files)).step]:
        with suppress(InputError):
            open_image(Path(file), file)
            readable.append(file)
    return readable
