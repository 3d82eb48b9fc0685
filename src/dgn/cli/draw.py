"""``dgn draw``: a molecule or another graph with its directions, as a picture or a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from dgn.cli.directions import Laplacian
from dgn.cli.display import echo, make_console

if TYPE_CHECKING:
    from dgn.spectral.laplacians import Normalization


def command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="SMILES (in quotes), or a file: .graphml; with many graphs .safetensors, .npz, .parquet or .pt; "
            "with --model a table of SMILES.",
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
    table: Annotated[
        Path | None, typer.Option(help="With --model: shares of all atoms and bonds as a table, .csv.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target column of --model to explain.", show_default="the first")
    ] = None,
) -> None:
    """Draw atoms coloured by an eigenvector, bonds as arrows of its field, B_av, B_dx and the spectrum.

    With --html, a page on which the field can be rotated, distorted and hardened, and applied to a signal.

    With --model, picture, page and table show instead which atoms and bonds raised and lowered the prediction.

    For example: dgn draw "CC(=O)O" --out acid.svg --html acid.html
    """
    from dgn.plot.page import check_page, write_page
    from dgn.plot.picture import draw_picture
    from dgn.plot.sources import read_scene

    outputs = Outputs(out, html, table)
    _check(inputs, outputs, model, target)
    if model is not None and graph is not None:
        raise ValueError("graph: expected an index only with a file of many graphs, got it with --model; leave it out")
    laplacian = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    if model is not None:
        _explain(inputs, model, target, outputs)
    else:
        scenes = [read_scene(source, graph) for source in inputs]
        if html is not None:
            check_page(scenes, html)  # before a picture is written
        if out is not None:
            draw_picture(scenes[0], out, k, laplacian)
        if html is not None:
            write_page(scenes, html, k, laplacian)
    echo(make_console(), f"wrote {' and '.join(str(path) for path in outputs if path is not None)}")


class Outputs(NamedTuple):
    """The files to write: a picture, a page and a table."""

    out: Path | None
    html: Path | None
    table: Path | None


def _check(inputs: list[str], outputs: Outputs, model: Path | None, target: str | None) -> None:
    """Refuse options that do not go together."""
    from dgn.data.io.atomic import check_writable
    from dgn.plot.picture import check_picture

    if not any(outputs):
        raise ValueError("out: expected --out picture.svg, --html page.html or both, got neither; name a file")
    for path, suffix in ((outputs.html, ".html"), (outputs.table, ".csv")):
        if path is not None and model is not None and path.suffix != suffix:
            raise ValueError(f"{path}: expected a file called {suffix}, got {path.suffix or 'no suffix'}; rename it")
    for path in outputs:
        if path is not None:
            check_writable(path)
    if outputs.out is not None:
        check_picture(outputs.out)
        if len(inputs) > 1:
            raise ValueError(f"out: expected one graph for a picture, got {len(inputs)}; draw each, or use --html")
    for name, value in (("target", target), ("table", outputs.table)):
        if value is not None and model is None:
            raise ValueError(f"{name}: expected --model, whose prediction it names, got '{value}' alone; add the model")


def _explain(inputs: list[str], folder: Path, target: str | None, outputs: Outputs) -> None:
    """Draw and tabulate the attribution of an ensemble's predictions."""
    from dgn.data.io.atomic import atomic_file
    from dgn.molecules.explain import explain, read_sources, to_page
    from dgn.molecules.model_io import load_model
    from dgn.plot.sources import FILES
    from dgn.training.run_folder import to_csv, write_text

    for source in inputs:
        if source.endswith(FILES) and not source.endswith(".parquet"):  # a table may be one
            raise ValueError(
                f"model: expected the SMILES of a molecule or a table beside it, got {source}; write the SMILES"
            )
    model = load_model(folder, "cpu")
    smiles, problems = read_sources(model, inputs)
    for problem in problems:
        echo(make_console(), str(problem))
    if not smiles or (outputs.out is not None and len(smiles) > 1):
        expected = "at least one molecule" if not smiles else "one molecule for a picture"
        raise ValueError(f"{inputs[0]}: expected {expected}, got {len(smiles)}; name others, or use --html")
    explanations = explain(model, smiles, target)
    if outputs.out is not None:
        picture = explanations[0].picture(outputs.out.suffix)
        with atomic_file(outputs.out) as unfinished:
            unfinished.write_bytes(picture)
    if outputs.table is not None:
        write_text(outputs.table, to_csv([row for each in explanations for row in each.rows()]))
    if outputs.html is not None:
        write_text(outputs.html, to_page(explanations, f"Why {folder.name} predicts {explanations[0].unit}"))
