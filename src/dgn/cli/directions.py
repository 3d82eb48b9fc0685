"""``dgn directions``: the eigenvectors of a whole dataset."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from dgn.cli.display import make_console
from dgn.cli.errors import say_error

if TYPE_CHECKING:
    from dgn.data.precompute.summary import Summary
    from dgn.spectral.laplacians import Normalization

SHOWN = 10  # failures that are printed


class Laplacian(StrEnum):
    """Which Laplacian."""

    none = "none"
    rw = "rw"
    sym = "sym"


class Engine(StrEnum):
    """Who does the work."""

    local = "local"
    ray = "ray"


def command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="Graphs: .safetensors or .npz (packed), .parquet (a row each), .pt (PyG)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .safetensors (packed) or .parquet.")],
    k: Annotated[int, typer.Option("-k", help="Number of directions.", min=1)] = 2,
    normalization: Annotated[
        Laplacian, typer.Option(help="L = D - A (none), D^-1 L (rw), D^-1/2 L D^-1/2 (sym).")
    ] = Laplacian.none,
    edge_weight: Annotated[
        str | None, typer.Option(help="Edge values that are weights.", show_default="edge_weight, where there is one")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Threads of this machine, or a Ray cluster.")] = Engine.local,
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster: auto, or host:port.", show_default="a local one")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Chunks solved at a time.", min=1, show_default="one per core")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of solved chunks.", show_default="dgn/directions in the user's cache")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor keep solved chunks.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add Laplacian eigenvectors and their fields to every graph of a file.

    Solved chunks are cached: started again after an interruption, the command goes on where it was.

    Graphs that cannot be solved are named at the end and make the exit code 1; the others are written.
    """
    from dgn.data.io.sources import directions_of_file
    from dgn.data.precompute.directions import Options

    folder = None if no_cache else cache or default_cache()
    options = Options(folder, workers, "ray" if engine is Engine.ray else "local", address)
    kind = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    summary = directions_of_file(source, out, k, kind, edge_weight, options, progress=not quiet)
    make_console().print(_table(summary, out))
    if summary.failures:
        for number, why in list(summary.failures.items())[:SHOWN]:
            say_error(f"graph {number}: {why}")
        say_error(f"{len(summary.failures)} of {summary.graphs} graphs could not be solved; they have zeros in {out}")
        raise typer.Exit(1)


def default_cache() -> Path:
    """``dgn/directions`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgn" / "directions"


def _table(summary: "Summary", out: Path) -> Table:
    table = Table(title=f"Directions in {out}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    rows = {
        "graphs": f"{summary.graphs:,}",
        "connected components": f"{summary.components:,}",
        "components with repeated lambda_1": f"{summary.repeated:,}",
        "vectors of undecided sign": f"{summary.undecided:,}",
        "graphs that failed": f"{len(summary.failures):,}",
        "chunks from the cache": f"{summary.cached:,} of {summary.chunks:,}",
        "seconds": f"{summary.seconds:.2f}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
