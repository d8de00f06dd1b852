import csv
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("pyarrow", reason="needs the extra: pip install 'gaussproto[gallery]'")
import pyarrow.parquet as pq

from gaussproto import GaussianPrototypeClassifier


@pytest.fixture(scope="session")
def drawings(characters, tmp_path_factory) -> Path:
    """`CLASS/IMAGE.png` of four classes, one blank page, one broken file and one name like a formula: 42 files."""
    root = tmp_path_factory.mktemp("drawings")
    for c in range(4):
        (root / f"c{c}").mkdir()
        for i in range(10):
            name = "=1+1" if (c, i) == (3, 9) else f"{i}"
            Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((50, 40)).save(
                root / f"c{c}" / f"{name}.png"
            )
    Image.new("L", (50, 50), 255).save(root / "c0" / "blank.png")
    (root / "c1" / "broken.png").write_bytes(b"nothing")
    return root


@pytest.fixture(scope="session")
def clf(characters) -> GaussianPrototypeClassifier:
    examples = characters.dense[:4, 15:18].flatten(0, 1)
    return GaussianPrototypeClassifier("drawings-small").fit(examples, [f"c{c}" for c in range(4) for _ in range(3)])


@pytest.fixture
def small(monkeypatch):
    """Chunks of 5 images and parts of 10. Unless a test asks for more, one process does everything."""
    monkeypatch.setattr("gaussproto.bulk.pipeline._cores", lambda: 1)
    monkeypatch.setattr("gaussproto.bulk.pipeline.chunk_size", lambda look: 5)
    monkeypatch.setattr("gaussproto.bulk.parts.ROWS", 10)
    monkeypatch.setattr("gaussproto.bulk.parts.SECONDS", float("inf"))  # however slow the machine is


def rows_of(path: Path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def csv_of(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
