"""The command `export`: an encoder as an ONNX file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gaussproto.cli import console
from gaussproto.cli.options import Json


def export(
    weights: Annotated[
        str, typer.Argument(metavar="WEIGHTS", help="Bundled weights, a weights file, or a run folder.")
    ],
    out: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="The file to write.")],
    json: Json = False,
) -> None:
    """Write the encoder to an ONNX file: images in, embeddings and precisions out, for programs without torch."""
    from gaussproto.export import export_onnx

    made = export_onnx(weights, out)
    if json:
        return console.print_json(asdict(made) | {"path": str(out)})
    rows = [
        [what, name, ", ".join(map(str, shape))]
        for what, some in (("in", made.inputs), ("out", made.outputs))
        for name, shape in some.items()
    ]
    console.print_table("", ["", "name", "shape"], rows)
    return console.say(f"{out}: {made.bytes / 1e6:.1f} MB; the same as torch within {made.difference:.0e}")
