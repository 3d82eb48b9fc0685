"""``dgn predict``: what a model says of a table of molecules."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import make_console, say

LARGE = 500_000  # bytes of a table from which other processes are worth their start
MOST = 16  # processes that are started unasked: each takes some hundred megabytes


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that 'dgn fit' wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Molecules: .csv, .csv.gz, .tsv or .parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv or .csv.gz.")],
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of SMILES.", show_default="that of the model")
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Share of true values that the intervals of numbers are to hold, between 0 and 1.")
    ] = 0.9,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that share the work; 0: this one alone.", min=0, show_default="by size of the table"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add predictions and their uncertainty to a table, row by row.

    Numbers get a spread over the ensemble and a conformal interval, classes a probability and its spread. Rows that
    cannot be read are kept and marked.

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
        opened.place(smiles)
    loaded = load_model(model, device)
    size = table.stat().st_size * (4 if table.suffix in (".gz", ".parquet") else 1)
    if workers is None:
        options = replace(options, workers=min(MOST, os.cpu_count() or 1) if size > LARGE else 0)
    total = 0 if quiet else sum(1 for _ in opened.rows())
    with progress_bar("predicting", total, "molecules", not quiet) as advance:
        found = predict_table(loaded, opened, out, options, advance)
    console = make_console()
    if found.smiles not in (smiles, loaded.smiles):
        say(console, f"SMILES: column {found.smiles}; the model's, {loaded.smiles}, is not here")
    say(console, f"{count(found.rows)} in {out}")
    if loaded.task == "regression" and (why := too_few(loaded.scores, interval)) is not None:
        say(console, f"{why}; try a smaller --interval")
    if found.unreadable:
        shown = ", ".join(map(str, found.lines)) + (", ..." if found.unreadable > len(found.lines) else "")
        say(
            console,
            f"{count(found.unreadable)} without a prediction (line {shown}); the column problem says why",
        )


def count(rows: int) -> str:
    """Rows in words.

    >>> count(1), count(2)
    ('1 row', '2 rows')
    """
    return f"{rows} row{'s' * (rows != 1)}"
