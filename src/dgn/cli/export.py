"""``dgn export``: a trained network for programs without Python."""

from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import echo, make_console


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder that 'dgn train' wrote, or the name of a pretrained network.")
    ],
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="File to write: .onnx.")],
) -> None:
    """Write a network as ONNX, with eigenvectors and structural encodings as inputs.

    The file is compared with the model on a hundred random graphs before it is written.

    For example: dgn export runs/zinc/plus/seed-1 --onnx zinc.onnx
    """
    from dgn.models.load import load_by_name
    from dgn.models.onnx import EXAMPLES, export_onnx
    from dgn.training.model import TrainedModel

    if onnx.suffix != ".onnx":
        raise ValueError(f"--onnx: expected a name that ends in .onnx, got {onnx.name!r}; change it")
    loaded = load_by_name(model, "cpu")
    if not isinstance(loaded, TrainedModel):
        raise ValueError(f"{model}: expected a model of 'dgn train', got one of 'dgn fit'; export a trained network")
    difference = export_onnx(loaded, onnx)
    echo(make_console(), f"wrote {onnx}; largest difference on {EXAMPLES} graphs: {difference:.1g}")
