"""``dgn predict``: predictions or embeddings for a table of molecules or a file of graphs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dgn.cli.display import echo, make_console
from dgn.cli.fit import check_columns

if TYPE_CHECKING:
    from dgn.molecules.featurize import Valence
    from dgn.molecules.model_io import Model
    from dgn.molecules.predict import PredictOptions
    from dgn.training.model import TrainedModel

LARGE = 500_000  # bytes of a table above which worker processes pay for their start
MOST = 16  # workers by default: each takes some hundred megabytes

OutputFile = Annotated[
    Path,
    typer.Option("--out", "-o", help="File to write: .csv, .csv.gz; for molecules also .xlsx, for graphs .parquet."),
]
SmilesColumns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of SMILES; twice for pairs.", show_default="that of the model"),
]


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Folder that 'dgn fit' or 'dgn train' wrote, or the name of a pretrained network."
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Molecules: .csv, .csv.gz, .xlsx, .smi, .sdf, .parquet; graphs: .parquet, .safetensors, .npz, .pt.",
        ),
    ],
    out: OutputFile,
    smiles: SmilesColumns = None,
    interval: Annotated[float, typer.Option(help="Coverage of the conformal intervals, between 0 and 1.")] = 0.9,
    valence: Annotated[
        str,
        typer.Option(help="Molecules with impossible valences: refuse, or keep (predict, with the problem beside)."),
    ] = "refuse",
    embedding: Annotated[
        bool, typer.Option("--embedding", help="Write what the head of the network reads, not its predictions.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes of a table; 0: none.", min=0, show_default="by size of the table"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Write predictions for the rows of a table of molecules, or for all graphs or nodes of a file.

    A model of 'dgn fit' adds the standard deviation over the ensemble and, for regression, a conformal interval. Rows
    that cannot be read are kept and marked.

    For example: dgn predict molecules-model new.csv --out predictions.csv
    """
    from dgn.models.load import load_by_name
    from dgn.models.predict_table import as_table_model
    from dgn.molecules.predict import PredictOptions
    from dgn.training.devices import choose_device
    from dgn.training.model import TrainedModel

    first, partner = check_columns(smiles)
    options = PredictOptions(first, interval, workers or 0, embedding, cast("Valence", valence), partner)
    choose_device(device)
    if holds_graphs(file):
        loaded = load_by_name(model, device)
        if not isinstance(loaded, TrainedModel):
            raise ValueError(
                f"{file}: expected a table of molecules for a model of 'dgn fit', got graphs; give a table with SMILES"
            )
        _predict_graphs(loaded, file, out, embedding, quiet)
        return
    _check_table(file, out, smiles or [])
    loaded = load_by_name(model, device)
    if isinstance(loaded, TrainedModel):
        if not loaded.signature.featurization:
            raise ValueError(
                f"{file}: expected a file of graphs, as {loaded.signature.dataset} has no SMILES, got a table; give "
                "packed graphs, a parquet table of graphs or a PyG file"
            )
        loaded = as_table_model(loaded)
    _predict_table(loaded, file, out, options, workers is None, quiet)


def holds_graphs(file: Path) -> bool:
    """Whether a file holds graphs, by its suffix or the columns of a parquet table; else it is a table of molecules."""
    from dgn.data.io.sources import SUFFIXES, TABLE

    if file.suffix == TABLE and file.exists():
        from dgn.data.io.parquet import STRUCTURE, open_parquet

        names = open_parquet(file).schema_arrow.names
        return STRUCTURE[0] in names or set(STRUCTURE[1:3]) <= set(names)
    return file.suffix in SUFFIXES and file.suffix != TABLE


def _predict_graphs(model: "TrainedModel", file: Path, out: Path, embedding: bool, quiet: bool) -> None:
    from dgn.data.io.sources import graph_chunks
    from dgn.data.precompute.progress import progress_bar
    from dgn.models.predict_file import check_name, predict_file

    check_name(out)
    if out.exists() and file.exists() and out.samefile(file):
        raise ValueError(f"out: expected another file than the graphs, got {out}; choose another name")
    total = 0 if quiet else graph_chunks(file).total
    with progress_bar("predicting", total, "graphs", not quiet) as advance:
        rows = predict_file(model, file, out, embedding, advance)
    echo(make_console(), f"{count(rows)} in {out}")


def _check_table(file: Path, out: Path, smiles: list[str]) -> None:
    from dgn.molecules.predict import check_output
    from dgn.molecules.table import open_table

    check_output(out, file)
    opened = open_table(file)
    for name in smiles:
        opened.position(name)


def _predict_table(
    model: "Model", file: Path, out: Path, options: "PredictOptions", choose_workers: bool, quiet: bool
) -> None:
    from dataclasses import replace

    from dgn.data.precompute.progress import progress_bar
    from dgn.molecules.conformal import too_few
    from dgn.molecules.predict import predict_table
    from dgn.molecules.table import open_table

    opened = open_table(file)
    size = file.stat().st_size * (4 if file.suffix in (".gz", ".parquet", ".xlsx") else 1)
    if choose_workers:
        options = replace(options, workers=min(MOST, os.cpu_count() or 1) if size > LARGE else 0)
    total = 0 if quiet else sum(1 for _ in opened.rows())
    with progress_bar("predicting", total, "molecules", not quiet) as advance:
        summary = predict_table(model, opened, out, options, advance)
    console = make_console()
    if opened.note:
        echo(console, opened.note)
    if summary.smiles not in (options.smiles, model.smiles):
        echo(console, f"SMILES: column {summary.smiles}, as the table has no column {model.smiles}")
    echo(console, f"{count(summary.rows)} in {out}")
    if model.task == "regression" and (reason := too_few(model.scores, options.interval)) is not None:
        echo(console, f"{reason}; try a smaller --interval")
    if summary.unreadable:
        shown = ", ".join(map(str, summary.lines)) + (", ..." if summary.unreadable > len(summary.lines) else "")
        echo(
            console,
            f"{count(summary.unreadable)} without a prediction (line{'s' * (summary.unreadable > 1)} {shown}); "
            "see the column problem",
        )


def count(rows: int) -> str:
    """A number of rows with its unit.

    >>> count(1), count(2)
    ('1 row', '2 rows')
    """
    return f"{rows} row{'s' * (rows != 1)}"
