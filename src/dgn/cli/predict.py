"""``dgn predict``: predictions for a table of molecules."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import echo, make_console

LARGE = 500_000  # bytes of a table above which worker processes pay for their start
MOST = 16  # workers by default: each takes some hundred megabytes


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that 'dgn fit' wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Molecules: .csv, .csv.gz, .tsv or .parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv or .csv.gz.")],
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of SMILES.", show_default="that of the model")
    ] = None,
    interval: Annotated[float, typer.Option(help="Coverage of the conformal intervals, between 0 and 1.")] = 0.9,
    workers: Annotated[
        int | None,
        typer.Option(help="Worker processes; 0: none.", min=0, show_default="by size of the table"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add predictions and their uncertainty to the rows of a table.

    Regression adds the standard deviation over the ensemble and a conformal interval, classification a probability and
    its standard deviation. Rows that cannot be read are kept and marked.

    For example: dgn predict molecules-model new.csv --out predictions.csv
    """
    from dgn.data.precompute.progress import progress_bar
    from dgn.molecules.conformal import too_few
    from dgn.molecules.model_io import load_model
    from dgn.molecules.predict import PredictOptions, check_output, predict_table
    from dgn.molecules.table import open_table
    from dgn.training.devices import choose_device

    options = PredictOptions(smiles, interval, workers or 0)
    check_output(out, table)
    choose_device(device)
    opened = open_table(table)
    if smiles is not None:
        opened.position(smiles)
    loaded = load_model(model, device)
    size = table.stat().st_size * (4 if table.suffix in (".gz", ".parquet") else 1)
    if workers is None:
        options = replace(options, workers=min(MOST, os.cpu_count() or 1) if size > LARGE else 0)
    total = 0 if quiet else sum(1 for _ in opened.rows())
    with progress_bar("predicting", total, "molecules", not quiet) as advance:
        summary = predict_table(loaded, opened, out, options, advance)
    console = make_console()
    if summary.smiles not in (smiles, loaded.smiles):
        echo(console, f"SMILES: column {summary.smiles}, as the table has no column {loaded.smiles}")
    echo(console, f"{count(summary.rows)} in {out}")
    if loaded.task == "regression" and (reason := too_few(loaded.scores, interval)) is not None:
        echo(console, f"{reason}; try a smaller --interval")
    if summary.unreadable:
        shown = ", ".join(map(str, summary.lines)) + (", ..." if summary.unreadable > len(summary.lines) else "")
        echo(
            console,
            f"{count(summary.unreadable)} without a prediction (line {shown}); see the column problem",
        )


def count(rows: int) -> str:
    """A number of rows with its unit.

    >>> count(1), count(2)
    ('1 row', '2 rows')
    """
    return f"{rows} row{'s' * (rows != 1)}"
