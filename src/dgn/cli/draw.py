"""``dgn draw``: a molecule or another graph with its directions, as a picture or a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dgn.cli.directions import Laplacian
from dgn.cli.display import make_console, say

if TYPE_CHECKING:
    from dgn.plot.scene import Scene
    from dgn.spectral.laplacians import Normalization


def command(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="SMILES (in quotes), or a file: .graphml; with many graphs .safetensors, .npz, .parquet or .pt.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Picture of the one graph given: .svg or .png.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Page to explore all graphs given: one file that works offline.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of directions.", min=1)] = 2,
    normalization: Annotated[
        Laplacian, typer.Option(help="Laplacian: L = D - A (none), D^-1 L (rw), D^-1/2 L D^-1/2 (sym).")
    ] = Laplacian.none,
    graph: Annotated[
        int | None, typer.Option(help="Which graph of a file of many, from 0.", min=0, show_default="the first")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder that 'dgn fit' wrote: draw which atoms and bonds its prediction rests on."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Which prediction of --model, by its column.", show_default="the first")
    ] = None,
) -> None:
    """Draw atoms coloured by an eigenvector, bonds as arrows of its field, B_av, B_dx and the spectrum.

    With --html the field can be turned, distorted and hardened, and its effect on a signal be seen.

    With --model the picture shows instead what raised and what lowered a prediction for the molecule.

    For example: dgn draw "CC(=O)O" --out acid.svg --html acid.html
    """
    from dgn.plot.page import check_page, write_page
    from dgn.plot.picture import draw_picture
    from dgn.plot.sources import read_scene

    _check(given, out, html, model, target)
    kind = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    scenes = [read_scene(one, graph) for one in given]
    if html is not None:
        check_page(scenes, html)  # before a picture is written
    if out is not None and model is not None:
        _explain(scenes[0], model, target, out)
    elif out is not None:
        draw_picture(scenes[0], out, k, kind)
    if html is not None:
        write_page(scenes, html, k, kind)
    written = " and ".join(str(path) for path in (out, html) if path is not None)
    say(make_console(), f"drawn: {written}")


def _check(given: list[str], out: Path | None, html: Path | None, model: Path | None, target: str | None) -> None:
    """Refuse wishes that do not go together."""
    from dgn.plot.picture import check_picture

    if out is None and html is None:
        raise ValueError("out: expected --out picture.svg, --html page.html or both, got neither; name a file")
    if out is None and model is not None:
        raise ValueError("model: expected --out picture.svg beside it, got none; name the picture")
    if out is not None:
        check_picture(out)
        if len(given) > 1:
            raise ValueError(f"out: expected one graph for a picture, got {len(given)}; draw each, or take --html")
    if target is not None and model is None:
        raise ValueError(f"target: expected --model, whose prediction it names, got {target!r} alone; add the model")


def _explain(scene: "Scene", folder: Path, target: str | None, out: Path) -> None:
    """Draw what the prediction of a fitted ensemble rests on: numbers in their units, classes as log-odds."""
    from dgn.graph.checks import check_option
    from dgn.molecules.featurize import featurize
    from dgn.molecules.model_io import load_model
    from dgn.plot.attribution import attribute, average
    from dgn.plot.highlight import draw_attribution

    if not scene.atoms:
        raise ValueError(f"model: expected the SMILES of a molecule beside it, got {scene.name}; write the SMILES")
    smiles = scene.name
    loaded = load_model(folder, "cpu")
    names = tuple(each.name for each in loaded.targets)
    name = names[0] if target is None else target
    check_option("target", name, names)
    column = names.index(name)
    graphs, problems = featurize([smiles])  # as the model was fitted, which is not quite as OGB has it
    if problems[0]:
        raise ValueError(f"smiles: expected a molecule that RDKit can read, got {smiles!r}; check its spelling")
    graphs = loaded.ensemble.complete(graphs)
    shares = [attribute(network, graphs[0], column) for network in loaded.ensemble.networks]
    if loaded.task == "regression":
        found = average(shares, float(loaded.scale[column]), float(loaded.center[column]))
        draw_attribution(smiles, found, out, name)
    else:
        draw_attribution(smiles, average(shares), out, f"log-odds of {name}")
