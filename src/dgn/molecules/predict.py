"""Predictions for a table of any size, streamed: rows in order, all columns kept, unreadable rows marked."""

import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.datasets.pairs import join_smiles
from dgn.data.io.atomic import atomic_file, check_writable
from dgn.data.precompute.local import torch_threads
from dgn.graph.checks import check_option, check_package
from dgn.molecules.column_choice import SAMPLE
from dgn.molecules.columns import find_smiles
from dgn.molecules.conformal import check_level
from dgn.molecules.ensemble import Chunk, ChunkOutput, predict_chunks
from dgn.molecules.featurize import CHUNK, VALENCES, Valence
from dgn.molecules.model_io import Model, Prediction
from dgn.molecules.rows import read_features
from dgn.molecules.table import Row, Table, write_rows
from dgn.molecules.workbook import open_workbook

DOMAIN = ("similarity", "nearest_training_molecule", "outside_training")
PROBLEM = "problem"


@dataclass(frozen=True)
class PredictOptions:
    """``smiles`` is the column (None: that of the model, or detected), ``interval`` the level of the intervals.

    ``partner`` is the column of second SMILES for a model of pairs (None: that of the model).

    ``workers`` is the number of worker processes that predict (with a GPU: only featurize); 0: none. ``embedding``:
    what the heads of the networks read is written in the place of predictions. Molecules with an impossible ``valence``
    are refused, or kept: predicted with the problem beside.
    """

    smiles: str | None = None
    interval: float = 0.9
    workers: int = 0
    embedding: bool = False
    valence: Valence = "refuse"
    partner: str | None = None

    def __post_init__(self) -> None:
        check_level(self.interval)
        check_option("valence", self.valence, VALENCES)


class PredictSummary(NamedTuple):
    """Rows written, rows without a prediction, the first lines of those, and the column of SMILES."""

    rows: int
    unreadable: int
    lines: tuple[int, ...]
    smiles: str


def predict_smiles(
    model: Model, smiles: Sequence[str], features: NDArray[np.float64] | None = None
) -> tuple[Prediction, list[str]]:
    """Predictions for SMILES in memory, [R, T], NaN for unreadable ones, and the problem of each.

    ``features`` [R, F] are the numbers that the networks read beside the graphs, ``model.features``. Both SMILES of a
    pair are one text (:func:`dgn.data.datasets.pairs.join_smiles`).
    """
    chunks = list(
        predict_chunks(model.ensemble, _chunks(smiles, features), domain=model.domain, models=model.descriptor_models)
    )
    empty = torch.zeros(0, len(model.scale), dtype=torch.float64)
    predictions = [Prediction(empty, empty, empty), *(_align(model, chunk) for chunk in chunks)]
    problems = [problem for chunk in chunks for problem in chunk.problems]
    return Prediction(*(torch.cat(parts) for parts in zip(*predictions, strict=True))), problems


def predict_table(
    model: Model,
    table: Table,
    out: Path,
    options: PredictOptions | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PredictSummary:
    """Write the table with its predictions in new columns, chunk by chunk.

    Regression adds ``_prediction``, ``_spread`` (standard deviation over the ensemble), ``_lower`` and ``_upper``;
    classification ``_probability`` and ``_spread``. Several classes add ``_prediction`` (the most probable one), the
    ``_spread`` of its probability, and the ``_probability_`` of each. The spread of a single member is empty.
    ``DOMAIN`` columns relate a molecule to those of training. The column ``problem`` explains a missing prediction.
    """
    options = options or PredictOptions()
    check_output(out, table.path)
    added = new_columns(model, options.embedding)
    clash = [name for name in added if name in table.columns]
    if clash:
        raise ValueError(
            f"{table.path}: expected no column called {clash[0]!r}, which predictions would overwrite; rename it"
        )
    missing = [name for name in model.features if name not in table.columns]
    if missing:
        raise ValueError(
            f"{table.path}: expected the column {missing[0]!r}, which the model reads beside the graph, got "
            f"{', '.join(table.columns)}; add it"
        )
    column = smiles_column(model, table, options.smiles)
    positions = [table.position(name) for name in (column, *_partner(model, table, options.partner))]
    total, unreadable = 0, 0
    lines: list[int] = []
    with atomic_file(out) as unfinished, open_output(unfinished, out.name) as write:
        write([[*table.columns, *added]])
        for rows, chunk in _stream(model, table, positions, options):
            problems = [row.problem or problem for row, problem in zip(rows, chunk.problems, strict=True)]
            texts = [problem or remark for problem, remark in zip(problems, chunk.remarks, strict=True)]
            cells = _cells(model, chunk, options)
            write([[*r.values, *c, text] for r, c, text in zip(rows, cells, texts, strict=True)])
            bad = [row.line for row, problem in zip(rows, problems, strict=True) if problem]
            total, unreadable = total + len(rows), unreadable + len(bad)
            lines += bad[: max(0, 8 - len(lines))]
            advance(len(rows))
    return PredictSummary(total, unreadable, tuple(lines), column)


def new_columns(model: Model, embedding: bool = False) -> list[str]:
    """The columns that predictions add, or embeddings."""
    if embedding:
        return [*(f"embedding_{index}" for index in range(model.ensemble.embed([]).size(1))), PROBLEM]
    return [*prediction_columns(model), *(() if model.domain is None else DOMAIN), PROBLEM]


def prediction_columns(model: Model) -> list[str]:
    """The columns of :func:`format_prediction`."""
    if model.task == "multiclass":
        name = model.targets[0].name
        return [f"{name}_prediction", f"{name}_spread", *(f"{name}_probability_{label}" for label in model.classes)]
    suffixes = ("prediction", "spread", "lower", "upper") if model.task == "regression" else ("probability", "spread")
    return [f"{target.name}_{suffix}" for target in model.targets for suffix in suffixes]


def smiles_column(model: Model, table: Table, column: str | None = None) -> str:
    """The column of SMILES: ``column``, else that of the model, else one that RDKit can read."""
    if column is not None:
        return table.columns[table.position(column)]
    if model.smiles in table.columns:
        return model.smiles
    if model.partner is not None:
        raise ValueError(
            f"{table.path}: expected the columns {model.smiles} and {model.partner} of pairs, got "
            f"{', '.join(table.columns)}; name both with --smiles, in this order"
        )
    rows = [row.values for row, _ in zip(table.rows(), range(SAMPLE), strict=False)]
    sample = {name: [values[index] for values in rows] for index, name in enumerate(table.columns)}
    return find_smiles(table.columns, sample)


def _partner(model: Model, table: Table, column: str | None) -> list[str]:
    """The column of second SMILES, if the model reads pairs."""
    if model.partner is None:
        if column is not None:
            raise ValueError(f"smiles: expected one column, as the model reads single molecules, got {column!r} too")
        return []
    name = column or model.partner
    if name not in table.columns:
        raise ValueError(
            f"{table.path}: expected the column {name!r} with the second molecule of each pair, got "
            f"{', '.join(table.columns)}; name both with --smiles"
        )
    return [name]


def format_prediction(model: Model, prediction: Prediction, level: float) -> list[list[str]]:
    """Predictions as text, one list per row, to the digits that their scale needs; empty for NaN and infinity."""
    if model.task == "multiclass":
        return _format_classes(model, prediction)
    if model.task == "regression":
        columns = [prediction.mean, prediction.spread, *model.interval(prediction, level)]
    else:
        columns = [prediction.mean, prediction.spread]
    values = torch.stack(columns, dim=2).flatten(1)
    # Digits of a logarithm are those of the value itself.
    scales = [
        math.inf if target.log else scale for target, scale in zip(model.targets, model.scale.tolist(), strict=True)
    ]
    scales = [scale for scale in scales for _ in columns]
    return [[_digits(*pair) for pair in zip(row, scales, strict=True)] for row in values.tolist()]


def _format_classes(model: Model, prediction: Prediction) -> list[list[str]]:
    """The most probable class, the spread of its probability, and the probabilities of all classes."""
    rows = []
    for mean, spread in zip(prediction.mean.tolist(), prediction.spread.tolist(), strict=True):
        best = mean.index(max(mean))
        name = model.classes[best] if math.isfinite(mean[best]) else ""
        rows.append([name, _digits(spread[best], 1.0), *(_digits(value, 1.0) for value in mean)])
    return rows


def _digits(value: float, scale: float) -> str:
    """The value to six digits of ``scale``, at most to 17 digits.

    >>> _digits(-0.123456789, 1.0), _digits(-76123.456789, 0.01), _digits(math.nan, 1.0)
    ('-0.123457', '-76123.456789', '')
    """
    if not math.isfinite(value):
        return ""
    more = min(11.0, math.log10(abs(value) / scale)) if abs(value) > scale else 0.0
    return f"{value:.{6 + math.ceil(more)}g}"


def check_output(out: Path, table: Path) -> None:
    """Refuse a file that cannot be written, or that is the table itself; missing folders are created later."""
    if not out.name.lower().endswith((".csv", ".csv.gz", ".xlsx")):
        raise ValueError(f"out: expected a name that ends in .csv, .csv.gz or .xlsx, got {out.name!r}; change it")
    if out.name.lower().endswith(".xlsx"):
        check_package(".xlsx", "openpyxl")
    check_writable(out)
    if out.exists() and table.exists() and out.samefile(table):
        raise ValueError(f"out: expected another file than the table, got {out}; choose another name")


@contextmanager
def open_output(path: Path, name: str) -> Iterator[Callable[[Sequence[Sequence[str]]], None]]:
    """A function that appends rows to a new file: Excel, or CSV, gzipped, as its final name says.

    Bytes that are not UTF-8 are written back to CSV.
    """
    if name.lower().endswith(".xlsx"):
        with open_workbook(path) as write:
            yield write
        return
    opened = gzip.open if name.lower().endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield partial(write_rows, file)


def _stream(
    model: Model, table: Table, positions: Sequence[int], options: PredictOptions
) -> Iterator[tuple[list[Row], ChunkOutput]]:
    """Chunks of rows with the outputs for them; rows are queued while workers predict them."""
    queue: list[list[Row]] = []

    places = [table.position(name) for name in model.features]

    def chunks() -> Iterator[Chunk]:
        remaining = iter(table.rows())
        while rows := list(islice(remaining, CHUNK)):
            numbers = [read_features([row.values[place] for place in places]) for row in rows]
            lacking = f"no number in {' or '.join(model.features)}"
            rows = [
                r if r.problem or n is not None else r._replace(problem=lacking)
                for r, n in zip(rows, numbers, strict=True)
            ]
            queue.append(rows)
            features = np.array([n or [0.0] * len(places) for n in numbers]) if places else None
            # With missing or extra values, the value at this position may be that of another column.
            texts = [join_smiles([row.values[position].strip() for position in positions]) for row in rows]
            yield Chunk(["" if r.problem else text for r, text in zip(rows, texts, strict=True)], features)

    with torch_threads(1 if options.workers else torch.get_num_threads()):
        domain = None if options.embedding else model.domain
        for chunk in predict_chunks(
            model.ensemble,
            chunks(),
            options.workers,
            options.embedding,
            domain,
            options.valence,
            model.descriptor_models,
        ):
            yield queue.pop(0), chunk


def _cells(model: Model, chunk: ChunkOutput, options: PredictOptions) -> list[list[str]]:
    """The text of predictions or embeddings for all rows of a chunk; empty for unreadable ones."""
    if not options.embedding:
        cells = format_prediction(model, _align(model, chunk), options.interval)
        return [[*row, *more] for row, more in zip(cells, _domain_cells(chunk), strict=True)]
    values = _scatter(chunk.outputs[0], _readable(chunk))
    return [[f"{value:.8g}" if math.isfinite(value) else "" for value in row] for row in values.tolist()]


def _readable(chunk: ChunkOutput) -> Tensor:
    return torch.tensor([not problem for problem in chunk.problems], dtype=torch.bool)


def _domain_cells(chunk: ChunkOutput) -> list[list[str]]:
    """The relation to the training molecules as text, for all rows of a chunk; empty for unreadable ones."""
    comparison = chunk.comparison
    if comparison is None:
        return [[] for _ in chunk.problems]
    similarity = (f"{value:.3f}" for value in comparison.similarity.tolist())
    cells = zip(similarity, comparison.nearest, comparison.outside, strict=True)
    return [[""] * len(DOMAIN) if problem else list(next(cells)) for problem in chunk.problems]


def _align(model: Model, chunk: ChunkOutput) -> Prediction:
    """Predictions for all rows of a chunk, NaN for unreadable ones."""
    prediction = model.combine(chunk.outputs, chunk.comparison)
    return Prediction(*(_scatter(values, _readable(chunk)) for values in prediction))


def _scatter(values: Tensor, mask: Tensor) -> Tensor:
    scattered = values.new_full((len(mask), values.size(1)), float("nan"))
    scattered[mask] = values
    return scattered


def _chunks(smiles: Sequence[str], features: NDArray[np.float64] | None) -> Iterator[Chunk]:
    for start in range(0, len(smiles), CHUNK):
        span = slice(start, start + CHUNK)
        yield Chunk(smiles[span], None if features is None else features[span])
