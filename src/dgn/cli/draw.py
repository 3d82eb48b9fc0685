"""``dgn draw``: a molecule or another graph with its directions, as a picture or a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console

from dgn.cli.directions import Laplacian

if TYPE_CHECKING:
    from dgn.spectral.laplacian import Normalization


def command(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="SMILES, or files: .graphml, or many graphs (.safetensors, .npz, .parquet, .pt) with --graph.",
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
        Laplacian, typer.Option(help="L = D - A (none), D^-1 L (rw), D^-1/2 L D^-1/2 (sym).")
    ] = Laplacian.none,
    graph: Annotated[
        int | None, typer.Option(help="Which graph of a file of many, from 0.", min=0, show_default="the first")
    ] = None,
) -> None:
    """Draw atoms coloured by an eigenvector, bonds as arrows of its field, B_av, B_dx and the spectrum.

    With --html the field can be turned, distorted and hardened, and its effect on a signal be seen.
    """
    from dgn.drawing.page import write_page
    from dgn.drawing.picture import check_picture, draw_picture
    from dgn.drawing.sources import read_scene

    if out is None and html is None:
        raise ValueError("out: expected --out picture.svg, --html page.html or both, got neither; name a file")
    if out is not None:
        check_picture(out)
        if len(given) > 1:
            raise ValueError(f"out: expected one graph for a picture, got {len(given)}; draw each, or take --html")
    kind = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    scenes = [read_scene(one, graph) for one in given]
    if out is not None:
        draw_picture(scenes[0], out, k, kind)
    if html is not None:
        write_page(scenes, html, k, kind)
    written = " and ".join(str(path) for path in (out, html) if path is not None)
    Console().print(f"drawn: {written}", soft_wrap=True, highlight=False)
