"""Damage every kind of file at random and count what happens: `python -m benchmarks.fuzz --trials 500`.

Each damaged file is read as a user's command reads it. Its content is compared with that of the intact file:

    detected   an InputError, so one sentence
    warning    the cache is prepared again, or lines of the log are left out, and a warning says so
    no effect  the content is the same, for example after a change to spaces, or to the checksum of an old file
    silent     the content is another one, and nothing was said
    crash      any other exception

The last two must never happen. In a crafted file the values are hostile, but the checksum is right. It may be refused
or, if the value makes sense, accepted. It must not crash.
"""

from __future__ import annotations

import json
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import gaussproto as gp
from benchmarks.command import parser, run
from gaussproto.arrays import read_arrays, write_arrays
from gaussproto.classifier.encoders.find import find_encoder
from gaussproto.classifier.encoders.onnx_check import LENGTH, with_checksum
from gaussproto.cli import console
from gaussproto.config import read_config
from gaussproto.data.cache import cache_folder, cached_images
from gaussproto.data.omniglot import Part, decode_verified
from gaussproto.errors import InputError
from gaussproto.files import read_json, write_json
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.split import parse_split

DAMAGES = ("flip", "header", "cut", "longer", "zeros", "swap", "crafted")
OUTCOMES = ("detected", "warning", "no effect", "accepted", "silent", "crash")
CUT = 200  # bytes at the start, where the header is
HOSTILE = (
    None, -1, 0, 10**30, 1e308, float("nan"), float("inf"), True, "", "x", "a\x00b", "../x", "\ud800", [], {}, [[]],
    [None] * 3, {"x": 1}, "1" * 5000, "module:Class", "os:system",
)  # fmt: skip


@dataclass
class Kind:
    """A kind of file: a valid one, how it is read, and how its values are crafted."""

    name: str
    path: Path
    read: Callable[[Path], Any]  # returns what can be compared by `same`
    craft: Callable[[np.random.Generator, Path], None]


@dataclass
class Trial:
    """One damaged file and what happened."""

    kind: str
    damage: str
    outcome: str
    detail: str = ""


def kinds(folder: Path) -> list[Kind]:
    """Make one valid file of each kind."""
    config = gp.preset("demo", rotations=False, filters=(4, 4, 4), embedding_dim=4, way=5, episodes=20)
    images = gp.load_data(config.data).test.select(range(12))
    where = RunFolder(gp.train(config, images, folder / "run").folder)
    gp.export_onnx(where.kept(where.read_metrics().training.kept[0].episode), folder / "it.onnx")
    head = gp.train_head(np.random.default_rng(0).normal(size=(12, 6)), np.arange(12) % 3, embedding_dim=3, episodes=3)
    head.save(folder / "head.safetensors")
    clf = gp.GaussianPrototypeClassifier(where.last, ink="bright").fit(images.images[:40], images.labels[:40].tolist())
    clf.save(folder / "it.gallery")
    cached_images("fuzz", 28, lambda: images)
    write_json(folder / "split.json", {"train": ["a", "b", "c"], "test": ["d", "e"]})
    part = omniglot_zip(folder / "omniglot.zip")
    small = images.images[:3]

    def read_cache(path: Path) -> Any:
        (cache_folder() / "fuzz.safetensors").write_bytes(path.read_bytes())
        return [*vars(cached_images("fuzz", 28, lambda: images)).values()]

    def read_log(path: Path) -> Any:
        (path.parent / where.metrics.name).write_bytes(where.metrics.read_bytes())
        return [record.model_dump() for record in RunFolder(path.parent).read_log()]

    cache = folder / "cache.safetensors"
    cache.write_bytes((cache_folder() / "fuzz.safetensors").read_bytes())
    return [
        Kind("weights", where.kept(20), lambda path: answers(path, small), craft_arrays),
        Kind("checkpoint", where.last, read_checkpoint, craft_arrays),
        Kind("head", folder / "head.safetensors", lambda path: answers(path, torch.ones(2, 6)), craft_arrays),
        Kind("gallery", folder / "it.gallery", lambda path: read_gallery(path, where.last, small), craft_arrays),
        Kind("ONNX", folder / "it.onnx", lambda path: answers(path, small), craft_onnx),
        Kind("cache", cache, read_cache, craft_arrays),
        Kind("config.json", where.config, lambda path: read_config(path).model_dump(), craft_json),
        Kind("split.json", folder / "split.json", lambda path: parse_split(path), craft_json),
        Kind("metrics.json", where.metrics, lambda p: RunFolder(p.parent).read_metrics().model_dump(), craft_json),
        Kind("log.jsonl", where.log_file, read_log, craft_log),
        Kind("Omniglot zip", folder / "omniglot.zip", lambda path: [*vars(decode_verified(part, path, 28)).values()],
             craft_zip),
    ]  # fmt: skip


def answers(path: Path, inputs: torch.Tensor) -> Any:
    encoder = find_encoder(path)
    return [*encoder.embed(inputs.numpy()), encoder.digest, encoder.image_size, encoder.calibration]


def read_checkpoint(path: Path) -> Any:
    checkpoint = load_checkpoint(path)
    return [checkpoint.config.model_dump(), vars(checkpoint.position), checkpoint.tensors, checkpoint.network() and 0]


def read_gallery(path: Path, weights: Path, inputs: torch.Tensor) -> Any:
    clf = gp.load(path, weights)
    return [clf.classes_.tolist(), clf.example_names_, clf.reject, clf.predict_proba(inputs)]


def omniglot_zip(path: Path) -> Part:
    """Write a zip like Omniglot's, with one alphabet of two characters, and return its description."""
    rng = np.random.default_rng(0)
    part = Part("images_background", "Toy:2", "", "")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for character in part.characters:
            for i in range(1, 21):
                content = BytesIO()
                Image.fromarray(rng.random((105, 105)) < 0.9).save(content, "png")
                archive.writestr(f"{part.name}/{character}/0001_{i:02d}.png", content.getvalue())
    try:
        decode_verified(part, path, 28)
    except InputError as error:
        start = str(error).split("found ")[1][:12]
    return _with_digest(part, path, start)


def _with_digest(part: Part, path: Path, start: str) -> Part:
    import hashlib

    from gaussproto.data.omniglot import published_files

    digest = hashlib.sha256()
    for name, content in published_files(part, path).items():
        digest.update(name.encode() + Image.open(BytesIO(content)).convert("1").tobytes())
    assert digest.hexdigest().startswith(start)
    return Part(part.name, part.alphabets, "", digest.hexdigest())


def damaged(rng: np.random.Generator, kind: Kind, damage: str, path: Path) -> None:
    """Write a damaged copy of a file to `path`."""
    content = bytearray(kind.path.read_bytes())
    n = len(content)
    at = int(rng.integers(n))
    if damage == "crafted":
        path.write_bytes(content)
        return kind.craft(rng, path)
    if damage == "flip":
        content[at] ^= 1 << rng.integers(8)
    elif damage == "header":
        content[int(rng.integers(min(n, CUT)))] = rng.integers(256)
    elif damage == "cut":
        del content[at:]
    elif damage == "longer":
        content += rng.bytes(1 + int(rng.integers(100)))
    elif damage == "zeros":
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    elif damage == "swap":
        size = max(1, n // 10)
        a, b = sorted(rng.integers(n - size, size=2).tolist())
        content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]
    path.write_bytes(content)
    return None


def craft_arrays(rng: np.random.Generator, path: Path) -> None:
    """Change a value in the metadata, or the type, shape or values of an array, and write the right checksum."""
    file = read_arrays(path, "file", "pt")
    if file.metadata and rng.random() < 0.6:
        key = rng.choice(list(file.metadata))
        tree = json.loads(file.metadata[key])
        file.metadata[key] = json.dumps(craft(rng, tree))
    else:
        name = rng.choice(list(file.arrays))
        array = file.arrays[name]
        changes = (
            lambda: array[:0] if array.dim() else array[None],
            lambda: array.flatten()[: array.numel() // 2],
            lambda: array[None],
            lambda: array.double(),
            lambda: array.to(torch.uint8),
            lambda: array.float() * torch.nan,
            lambda: torch.full_like(array, 100),
            lambda: -array.float(),
            lambda: torch.zeros(0),
        )
        file.arrays[name] = changes[int(rng.integers(len(changes)))]().contiguous()
        if rng.random() < 0.2:
            del file.arrays[name]
    write_arrays(path, file.arrays, file.metadata)


def craft_json(rng: np.random.Generator, path: Path) -> None:
    write_json(path, craft(rng, read_json(path)))


def craft_log(rng: np.random.Generator, path: Path) -> None:
    from gaussproto.runs.log import CHECKSUM
    from gaussproto.runs.log import with_checksum as of_line

    lines = path.read_text().splitlines()
    i = int(rng.integers(len(lines)))
    lines[i] = of_line(json.dumps(craft(rng, json.loads(lines[i].rpartition(CHECKSUM)[0] + "}"))))
    path.write_text("\n".join(lines) + "\n")


def craft_onnx(rng: np.random.Generator, path: Path) -> None:
    """Damage an ONNX file and write the right checksum."""
    content = bytearray(path.read_bytes()[:-LENGTH])
    content[int(rng.integers(len(content)))] ^= 1 << rng.integers(8)
    path.write_bytes(with_checksum(bytes(content)))


def craft_zip(rng: np.random.Generator, path: Path) -> None:
    """Replace one drawing by other content."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(files))
    picture = BytesIO()
    Image.new("1", [(105, 105), (1, 1), (5000, 5000)][rng.integers(3)]).save(picture, "png")
    content = [b"", b"text", picture.getvalue(), files[name][:50], bytes(10**7)][rng.integers(5)]
    new = [name, f"{name}.png", "../x.png", f"{name}/", "\x1b[31m.png"][rng.integers(5)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in files:
            archive.writestr(new if each == name else each, content if each == name else files[each])


def craft(rng: np.random.Generator, tree: Any) -> Any:
    """Return JSON with one value, at a random place, replaced by a hostile one, removed or repeated."""
    places = list(_places(tree))
    if not places:
        return HOSTILE[int(rng.integers(len(HOSTILE)))]
    holder, key = places[int(rng.integers(len(places)))]
    if rng.random() < 0.1:
        del holder[key]
    else:
        holder[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(value)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor | np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((np.asarray(a) == np.asarray(b)).all())
    return bool(a == b)


def trials(folder: Path, count: int, seed: int = 0) -> Iterator[Trial]:
    """Yield `count` trials of each kind of damage for each kind of file."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds(folder):
            expected = kind.read(kind.path)
            place = folder / "damaged" / kind.name
            place.mkdir(parents=True)
            for damage in DAMAGES:
                for _ in range(count):
                    yield trial(rng, kind, damage, place / kind.path.name, expected)


def trial(rng: np.random.Generator, kind: Kind, damage: str, path: Path, expected: Any) -> Trial:
    damaged(rng, kind, damage, path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = kind.read(path)
        except InputError as error:
            return Trial(kind.name, damage, "crash" if "\n" in str(error) else "detected", str(error))
        except Exception as error:  # what must not happen is counted
            return Trial(kind.name, damage, "crash", repr(error))
    if any(words in str(one.message) for one in said for words in ("prepared again", "left out", "have a gap")):
        return Trial(kind.name, damage, "warning")
    if same(found, expected):
        return Trial(kind.name, damage, "no effect")
    return Trial(kind.name, damage, "accepted" if damage == "crafted" else "silent", repr(found)[:500])


def table(results: list[Trial]) -> list[list[str]]:
    """Return a row for each kind of file: the number of trials by outcome, first for damage, then for crafted files."""
    rows = []
    for kind in dict.fromkeys(one.kind for one in results):
        hurt, crafted = (
            Counter(one.outcome for one in results if one.kind == kind and (one.damage == "crafted") == is_crafted)
            for is_crafted in (False, True)
        )
        columns = [*(hurt[outcome] for outcome in OUTCOMES if outcome != "accepted")]
        columns += [crafted["detected"], crafted["warning"], crafted["silent"] + crafted["crash"]]
        rows.append([kind, *map(str, columns)])
    return rows


COLUMNS = ["file", *(o for o in OUTCOMES if o != "accepted"), "crafted: detected", "crafted: warning", "crafted: crash"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=500, help="of each damage of each kind of file")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder, console.progress_bars() as bars:
        for one in trials(Path(folder), chosen.trials, chosen.seed):
            results.append(one)
            bars(f"damaging the {one.kind}", sum(each.kind == one.kind for each in results), 7 * chosen.trials)
    console.print_table("", COLUMNS, table(results), right=1)
    for one in (one for one in results if one.outcome in ("silent", "crash")):
        console.say(f"{one.outcome}: {one.kind}, {one.damage}: {one.detail}")


if __name__ == "__main__":
    run(main)
