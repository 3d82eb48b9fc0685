"""Predictions for a table of any size: row by row in order, all columns kept, unreadable rows marked."""

import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import torch
from torch import Tensor

from dgn.data.precompute.local import torch_threads
from dgn.molecules.columns import find_smiles
from dgn.molecules.conformal import check_level
from dgn.molecules.ensemble import Answer, predict_chunks
from dgn.molecules.featurize import CHUNK
from dgn.molecules.model_io import Model, Prediction
from dgn.molecules.rows import SAMPLE
from dgn.molecules.table import Row, Table, write_rows

PROBLEM = "problem"


@dataclass(frozen=True)
class PredictOptions:
    """``smiles`` names the column (none: that of the model, or found), ``interval`` is the level of the intervals.

    ``workers`` are processes that do the work (with a GPU: read SMILES); none: this one does it.
    """

    smiles: str | None = None
    interval: float = 0.9
    workers: int = 0

    def __post_init__(self) -> None:
        check_level(self.interval)


class Predicted(NamedTuple):
    """How many rows were written, how many have no prediction, the first lines of those, and the column of SMILES."""

    rows: int
    unreadable: int
    lines: tuple[int, ...]
    smiles: str


def predict_smiles(model: Model, smiles: Sequence[str]) -> tuple[Prediction, list[str]]:
    """Predictions for SMILES in memory, [R, T], NaN where RDKit cannot read one, and what is wrong with each."""
    found = [_complete(model, one) for one in predict_chunks(model.ensemble, _cut(smiles))]
    problems = [problem for _, one in found for problem in one]
    empty = torch.zeros(0, len(model.targets), dtype=torch.float64)
    parts = [torch.cat([empty, *(prediction[number] for prediction, _ in found)]) for number in range(2)]
    return Prediction(*parts), problems


def predict_table(
    model: Model,
    table: Table,
    out: Path,
    options: PredictOptions | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Predicted:
    """Write the table with predictions beside its own columns, a chunk at a time.

    Numbers get ``_prediction``, ``_spread`` (standard deviation over the ensemble), ``_lower`` and ``_upper``; classes
    ``_probability`` and ``_spread``. The column ``problem`` says why a row has none.
    """
    options = options or PredictOptions()
    check_output(out, table.path)
    added = new_columns(model)
    clash = [name for name in added if name in table.columns]
    if clash:
        raise ValueError(f"{table.path}: expected no column called {clash[0]!r}, for predictions go there; rename it")
    column = smiles_column(model, table, options.smiles)
    place = table.place(column)
    total, unreadable = 0, 0
    lines: list[int] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        with open_output(unfinished, out.name) as file:
            write_rows(file, [[*table.columns, *added]])
            for rows, (prediction, problems) in _stream(model, table, place, options):
                texts = spell(model, prediction, options.interval)
                said = [row.problem or problem for row, problem in zip(rows, problems, strict=True)]
                write_rows(file, [[*r.values, *t, p] for r, t, p in zip(rows, texts, said, strict=True)])
                bad = [row.line for row, problem in zip(rows, said, strict=True) if problem]
                total, unreadable = total + len(rows), unreadable + len(bad)
                lines += bad[: max(0, 8 - len(lines))]
                advance(len(rows))
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return Predicted(total, unreadable, tuple(lines), column)


def new_columns(model: Model) -> list[str]:
    """The columns that predictions add."""
    kinds = ("prediction", "spread", "lower", "upper") if model.task == "regression" else ("probability", "spread")
    return [*(f"{target.name}_{kind}" for target in model.targets for kind in kinds), PROBLEM]


def smiles_column(model: Model, table: Table, wanted: str | None = None) -> str:
    """The column of SMILES: the one asked for, the one the model was fitted on, or one that RDKit can read."""
    if wanted is not None:
        return table.columns[table.place(wanted)]
    if model.smiles in table.columns:
        return model.smiles
    rows = [row.values for row, _ in zip(table.rows(), range(SAMPLE), strict=False)]
    sample = {name: [values[place] for values in rows] for place, name in enumerate(table.columns)}
    return find_smiles(table.columns, sample)


def spell(model: Model, prediction: Prediction, level: float) -> list[list[str]]:
    """Predictions as text, a list for each row, with the digits their scale needs; nothing where there is no number."""
    if model.task == "regression":
        half = model.half_width(prediction.spread, level)
        columns = [prediction.mean, prediction.spread, prediction.mean - half, prediction.mean + half]
    else:
        columns = [*prediction]
    values = torch.stack(columns, dim=2).flatten(1)
    scales = model.scale.repeat_interleave(len(columns)).tolist()
    return [[_digits(*pair) for pair in zip(row, scales, strict=True)] for row in values.tolist()]


def _digits(value: float, scale: float) -> str:
    """Six digits, and as many more as a value has before those of the scale, up to all there are.

    >>> _digits(-0.123456789, 1.0), _digits(-76123.456789, 0.01), _digits(math.nan, 1.0)
    ('-0.123457', '-76123.456789', '')
    """
    if not math.isfinite(value):
        return ""
    more = min(11.0, math.log10(abs(value) / scale)) if abs(value) > scale else 0.0
    return f"{value:.{6 + math.ceil(more)}g}"


def check_output(out: Path, table: Path) -> None:
    """Refuse a file that cannot be written, or that is the table itself, before any work; folders may be missing."""
    if not out.name.lower().endswith((".csv", ".csv.gz")):
        raise ValueError(f"out: expected a name that ends in .csv or .csv.gz, got {out.name!r}; change it")
    if out.is_dir():
        raise ValueError(f"out: expected a file, got the folder {out}; name a file in it")
    if out.exists() and table.exists() and out.samefile(table):
        raise ValueError(f"out: expected another file than the table, got {out}; choose another name")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"out: expected a folder that can be written to, got {above}; choose another for {out.name}")


def open_output(path: Path, name: str) -> IO[str]:
    """A text file to write, packed where its final name says so; bytes that were no UTF-8 are written back."""
    import gzip

    opened = gzip.open if name.lower().endswith(".gz") else open
    return opened(path, "wt", encoding="utf-8", errors="surrogateescape", newline="")


def _stream(
    model: Model, table: Table, place: int, options: PredictOptions
) -> Iterator[tuple[list[Row], tuple[Prediction, list[str]]]]:
    """Chunks of rows with their predictions; rows wait here while other processes work on them."""
    waiting: list[list[Row]] = []

    def chunks() -> Iterator[list[str]]:
        remaining = iter(table.rows())
        while rows := list(islice(remaining, CHUNK)):
            waiting.append(rows)
            # Where a value is missing or too much, the one in the column of SMILES may be another's.
            yield ["" if row.problem else row.values[place] for row in rows]

    with torch_threads(1 if options.workers else torch.get_num_threads()):
        for found in predict_chunks(model.ensemble, chunks(), options.workers):
            yield waiting.pop(0), _complete(model, found)


def _complete(model: Model, found: Answer) -> tuple[Prediction, list[str]]:
    readable = torch.tensor([not problem for problem in found.problems], dtype=torch.bool)
    return Prediction(*(_spread_out(values, readable) for values in model.combine(found.said))), found.problems


def _spread_out(values: Tensor, readable: Tensor) -> Tensor:
    whole = values.new_full((len(readable), values.size(1)), float("nan"))
    whole[readable] = values
    return whole


def _cut(smiles: Sequence[str]) -> Iterator[Sequence[str]]:
    return (smiles[begin : begin + CHUNK] for begin in range(0, len(smiles), CHUNK))
