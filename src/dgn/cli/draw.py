"""``dgn draw``: a molecule or another graph with its directions, as a picture or a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dgn.cli.directions import Laplacian
from dgn.cli.display import echo, make_console

if TYPE_CHECKING:
    from dgn.plot.scene import Scene
    from dgn.spectral.laplacians import Normalization


def command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="SMILES (in quotes), or a file: .graphml; with many graphs .safetensors, .npz, .parquet or .pt.",
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Picture of one graph: .svg or .png.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Interactive page of all graphs: one file that works offline.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of directions.", min=1)] = 2,
    normalization: Annotated[
        Laplacian, typer.Option(help="Laplacian: L = D - A (none), D^-1 L (rw), D^-1/2 L D^-1/2 (sym).")
    ] = Laplacian.none,
    graph: Annotated[
        int | None, typer.Option(help="Index of the graph in a file of many.", min=0, show_default="the first")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder that 'dgn fit' wrote: draw the attribution of its prediction to atoms and bonds."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target column of --model to explain.", show_default="the first")
    ] = None,
) -> None:
    """Draw atoms coloured by an eigenvector, bonds as arrows of its field, B_av, B_dx and the spectrum.

    With --html, a page on which the field can be rotated, distorted and hardened, and applied to a signal.

    With --model, the picture shows instead which atoms and bonds raised and lowered the prediction.

    For example: dgn draw "CC(=O)O" --out acid.svg --html acid.html
    """
    from dgn.plot.page import check_page, write_page
    from dgn.plot.picture import draw_picture
    from dgn.plot.sources import read_scene

    _check(inputs, out, html, model, target)
    laplacian = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    scenes = [read_scene(source, graph) for source in inputs]
    if html is not None:
        check_page(scenes, html)  # before a picture is written
    if out is not None and model is not None:
        _explain(scenes[0], model, target, out)
    elif out is not None:
        draw_picture(scenes[0], out, k, laplacian)
    if html is not None:
        write_page(scenes, html, k, laplacian)
    paths = " and ".join(str(path) for path in (out, html) if path is not None)
    echo(make_console(), f"wrote {paths}")


def _check(inputs: list[str], out: Path | None, html: Path | None, model: Path | None, target: str | None) -> None:
    """Refuse options that do not go together."""
    from dgn.data.io.atomic import check_writable
    from dgn.plot.picture import check_picture

    if out is None and html is None:
        raise ValueError("out: expected --out picture.svg, --html page.html or both, got neither; name a file")
    if out is None and model is not None:
        raise ValueError("model: expected --out picture.svg beside it, got none; name the picture")
    for path in (out, html):
        if path is not None:
            check_writable(path)
    if out is not None:
        check_picture(out)
        if len(inputs) > 1:
            raise ValueError(f"out: expected one graph for a picture, got {len(inputs)}; draw each, or use --html")
    if target is not None and model is None:
        raise ValueError(f"target: expected --model, whose prediction it names, got {target!r} alone; add the model")


def _explain(scene: "Scene", folder: Path, target: str | None, out: Path) -> None:
    """Draw the attribution of an ensemble's prediction: regression in units of the target, classes as log-odds."""
    from dgn.data.datasets.smiles import parse_smiles, standard_smiles
    from dgn.graph.checks import check_option
    from dgn.molecules.model_io import load_model
    from dgn.plot.attribution import attribute, average
    from dgn.plot.highlight import draw_attribution

    if not scene.atoms:
        raise ValueError(f"model: expected the SMILES of a molecule beside it, got {scene.name}; write the SMILES")
    smiles = standard_smiles(parse_smiles(scene.name))  # the order of the network's atoms
    loaded = load_model(folder, "cpu")
    names = tuple(column.name for column in loaded.targets)
    name = names[0] if target is None else target
    check_option("target", name, names)
    column = names.index(name)
    graphs = loaded.ensemble.prepare(smiles)
    shares = [attribute(network, graphs[0], column) for network in loaded.ensemble.networks]
    if loaded.task == "regression":
        attribution = average(shares, float(loaded.scale[column]), float(loaded.center[column]))
        draw_attribution(smiles, attribution, out, name)
    else:
        draw_attribution(smiles, average(shares), out, f"log-odds of {name}")
