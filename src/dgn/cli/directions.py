"""``dgn directions``: precompute the eigenvectors of a dataset."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from dgn.cli.display import make_console
from dgn.cli.errors import echo_error

if TYPE_CHECKING:
    from dgn.data.precompute.summary import Summary
    from dgn.spectral.laplacians import Normalization

SHOWN = 10  # failures printed


class Laplacian(StrEnum):
    """Normalization of the Laplacian."""

    none = "none"
    rw = "rw"
    sym = "sym"


class Engine(StrEnum):
    """Execution engine."""

    local = "local"
    ray = "ray"


def command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="Graphs: .safetensors or .npz (packed), .parquet (one row per graph), .pt (PyG)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .safetensors (packed) or .parquet.")],
    k: Annotated[int, typer.Option("-k", help="Number of directions.", min=1)] = 2,
    normalization: Annotated[
        Laplacian, typer.Option(help="L = D - A (none), D^-1 L (rw), D^-1/2 L D^-1/2 (sym).")
    ] = Laplacian.none,
    edge_weight: Annotated[
        str | None, typer.Option(help="Name of the edge weights.", show_default="edge_weight, if present")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Threads of this machine, or a Ray cluster.")] = Engine.local,
    address: Annotated[
        str | None, typer.Option(help="A running Ray cluster: auto, or host:port.", show_default="a local one")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Chunks solved in parallel.", min=1, show_default="one per core")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache folder of solved chunks.", show_default="directions in $DGN_CACHE or ~/.cache/dgn"),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add Laplacian eigenvectors and their fields to every graph of a file.

    Solved chunks are cached: after an interruption, the same command resumes.

    Graphs that fail are listed at the end with exit code 1; the others are written.
    """
    from dgn.data.datasets.paths import cache_root
    from dgn.data.io.sources import directions_of_file
    from dgn.data.precompute.directions import Options

    folder = None if no_cache else cache or cache_root() / "directions"
    options = Options(folder, workers, "ray" if engine is Engine.ray else "local", address)
    laplacian = cast("Normalization", None if normalization is Laplacian.none else normalization.value)
    summary = directions_of_file(source, out, k, laplacian, edge_weight, options, progress=not quiet)
    make_console().print(_table(summary, out))
    if summary.failures:
        for index, reason in list(summary.failures.items())[:SHOWN]:
            echo_error(f"graph {index}: {reason}")
        echo_error(
            f"{len(summary.failures)} of {summary.graphs} graphs could not be solved; their field is zero in {out}"
        )
        raise typer.Exit(1)


def _table(summary: "Summary", out: Path) -> Table:
    table = Table(title=f"Directions in {out}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    rows = {
        "graphs": f"{summary.graphs:,}",
        "connected components": f"{summary.components:,}",
        "components with repeated lambda_1": f"{summary.repeated:,}",
        "eigenvectors of arbitrary sign": f"{summary.undecided:,}",
        "graphs that failed": f"{len(summary.failures):,}",
        "chunks from the cache": f"{summary.cached:,} of {summary.chunks:,}",
        "seconds": f"{summary.seconds:.2f}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
