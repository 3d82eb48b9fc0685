"""Predictions or embeddings of a model for all graphs of a file, streamed and written atomically."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dgn.data.io.atomic import atomic_file, check_writable
from dgn.data.io.parquet import parquet_writer
from dgn.data.io.sources import graph_chunks
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_package
from dgn.molecules.predict import open_output
from dgn.training.model import TrainedModel

SUFFIXES = (".csv", ".csv.gz", ".parquet")
Columns = dict[str, Tensor]
Write = Callable[[Columns], None]


def predict_file(
    model: TrainedModel,
    source: Path,
    out: Path,
    embedding: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a row for each graph of a file, or each node where nodes are predicted; returns their number.

    ``source`` is a packed file, a parquet table or a PyG file; ``out`` a .csv, .csv.gz or .parquet. Columns are
    ``graph`` (and ``node``), counted from 0, and those of :func:`columns`. No more than a chunk of graphs is predicted
    at once, and a parquet table is not read as a whole.
    """
    check_name(out)
    first, rows = 0, 0
    names = columns(model, embedding)
    with _writer(out) as write:
        for graphs in graph_chunks(source).chunks:
            values = model.embed(graphs) if embedding else model.predict(graphs)
            table = _index(graphs, first, model.signature.of_nodes)
            if "class" in names:
                table["class"] = values.argmax(dim=1)
            write(table | dict(zip([name for name in names if name != "class"], values.unbind(1), strict=True)))
            first, rows = first + len(graphs), rows + len(values)
            advance(len(graphs))
    return rows


def columns(model: TrainedModel, embedding: bool) -> list[str]:
    """The names of the values: prediction, class and probability of each, or embedding; numbered if several."""
    objective, targets = model.signature.objective, model.signature.inputs.targets
    if embedding:
        return _number("embedding", model.embed([]).size(1))
    if objective.endswith("regression"):
        return _number("prediction", targets)
    return [*(["class"] if objective.endswith("classification") else []), *_number("probability", targets)]


def check_name(out: Path) -> None:
    """Refuse a file that cannot be written; missing folders are created later."""
    if not out.name.lower().endswith(SUFFIXES):
        raise ValueError(f"out: expected a name that ends in .csv, .csv.gz or .parquet, got {out.name!r}; change it")
    check_writable(out)


def _number(name: str, count: int) -> list[str]:
    return [name] if count == 1 and name != "embedding" else [f"{name}_{index}" for index in range(count)]


def _index(graphs: PackedGraphs, first: int, of_nodes: bool) -> Columns:
    """The number of each graph of the file, and of each node in its graph."""
    graph = torch.arange(first, first + len(graphs))
    if not of_nodes:
        return {"graph": graph}
    count = graphs.node_pointer.diff()
    node = torch.arange(graphs.num_nodes) - graphs.node_pointer[:-1].repeat_interleave(count)
    return {"graph": graph.repeat_interleave(count), "node": node}


@contextmanager
def _writer(out: Path) -> Iterator[Write]:
    """A function that appends rows; the file gets its name when all are written."""
    with (
        atomic_file(out) as unfinished,
        _parquet_writer(unfinished) if out.suffix == ".parquet" else _csv_writer(unfinished, out.name) as write,
    ):
        yield write


@contextmanager
def _csv_writer(path: Path, name: str) -> Iterator[Write]:
    header: list[str] = []

    with open_output(path, name) as write_rows:

        def write(table: Columns) -> None:
            if not header:
                header.extend(table)
                write_rows([header])
            cells = [[_digits(value) for value in column.tolist()] for column in table.values()]
            write_rows([list(row) for row in zip(*cells, strict=True)])

        yield write


def _digits(value: float) -> str:
    """The digits of a float32.

    >>> _digits(123456789), _digits(0.1), _digits(1 / 3)
    ('123456789', '0.1', '0.33333333')
    """
    return str(value) if isinstance(value, int) else f"{value:.8g}"


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Write]:
    check_package("parquet", "pyarrow")
    import pyarrow

    with parquet_writer(path) as write:
        yield lambda table: write(pyarrow.table({name: np.asarray(column) for name, column in table.items()}))
