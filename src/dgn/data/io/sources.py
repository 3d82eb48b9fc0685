"""Graphs from packed files, parquet tables and PyG files, and directions from file to file."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dgn.data.io.atomic import atomic_file, check_writable
from dgn.data.io.parquet import (
    STRUCTURE,
    batches,
    graphs_of,
    open_parquet,
    read_parquet,
    table_of,
    warn_unverified,
    with_direction_columns,
    write_parquet,
)
from dgn.data.io.pickled import read_data
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import Request
from dgn.data.precompute.directions import Options, check_weights, find_directions, make_request, with_directions
from dgn.data.precompute.progress import progress_bar
from dgn.data.precompute.summary import Summary
from dgn.spectral.laplacians import Normalization

PACKED, TABLE, PYG = (".safetensors", ".npz"), ".parquet", ".pt"
SUFFIXES = (*PACKED, TABLE, PYG)
CHUNK = 2048  # graphs that are processed at once


class GraphChunks(NamedTuple):
    """The number of graphs of a file, and its graphs in chunks."""

    total: int
    chunks: Iterator[PackedGraphs]


def load_graphs(path: Path) -> PackedGraphs:
    """The graphs of a packed file, a parquet table, or PyG's ``.pt`` (a processed dataset or a list of Data)."""
    if path.suffix in PACKED:
        return PackedGraphs.load(path)
    if path.suffix == TABLE:
        return graphs_of(read_parquet(path))
    if path.suffix == PYG:
        return PackedGraphs.from_data(read_data(path))
    raise ValueError(
        f"{path}: expected a file called .safetensors, .npz, .parquet or .pt, got {path.suffix or 'no suffix'}; in "
        "Python, PackedGraphs.from_data takes any PyG dataset"
    )


def graph_chunks(path: Path) -> GraphChunks:
    """The graphs of a file in chunks: a parquet table is streamed, a packed file memory-mapped, others are loaded."""
    if path.suffix == TABLE:
        file = open_parquet(path)
        warn_unverified(path, file)
        return GraphChunks(file.metadata.num_rows, map(graphs_of, batches(path, file)))
    graphs = load_graphs(path)
    starts = range(0, max(1, len(graphs)), CHUNK)  # a chunk without graphs where there are none
    parts = (torch.arange(start, min(start + CHUNK, len(graphs))) for start in starts)
    return GraphChunks(len(graphs), map(graphs.select, parts))


def save_table(graphs: PackedGraphs, path: Path) -> None:
    """Write graphs as a parquet table, atomically."""
    _write(path, [table_of(graphs)])


def directions_of_file(
    source: Path,
    out: Path,
    k: int = 2,
    normalization: Normalization = None,
    edge_weight: str | None = None,
    options: Options | None = None,
    progress: bool = False,
) -> Summary:
    """Write the graphs of ``source`` with their directions to ``out``, a packed file or a parquet table.

    From table to table, rows are streamed in batches and all columns are preserved; otherwise all graphs are read
    into memory. ``out`` is written atomically.
    """
    if out.suffix not in (PACKED[0], TABLE):
        raise ValueError(f"{out}: expected a file called .safetensors or .parquet, got {out.suffix or 'no suffix'}")
    check_writable(out)  # before the work, not after it
    options = options or Options()
    if source.suffix == out.suffix == TABLE:
        file = open_parquet(source)
        warn_unverified(source, file)
        request = make_request(k, normalization, edge_weight, file.schema_arrow.names)
        return _table_to_table(source, file, out, request, options, progress)
    graphs = load_graphs(source)
    request = make_request(k, normalization, edge_weight, graphs.edges)
    table = table_of(graphs) if out.suffix == TABLE else None  # first, as it refuses what a table cannot hold
    with progress_bar("directions", len(graphs), show=progress) as advance:
        directions, summary = find_directions(graphs, request, options, advance)
    if table is not None:
        _write(out, [with_direction_columns(table, graphs, directions)])
    else:
        with_directions(graphs, directions, request).save(out)
    return summary


def _table_to_table(source: Path, file: Any, out: Path, request: Request, options: Options, progress: bool) -> Summary:
    columns = [name for name in (*STRUCTURE, request.edge_weight) if name in file.schema_arrow.names]
    total = Summary()

    def solve_batches(advance: Callable[[int], None]) -> Iterator[Any]:
        nonlocal total
        for table in batches(source, file):
            try:
                graphs = graphs_of(table.select(columns))
                check_weights(request, graphs)
            except ValueError as error:
                raise ValueError(f"{source}, counting rows from {total.graphs}: {error}") from error
            directions, summary = find_directions(graphs, request, options, advance)
            total += summary
            yield with_direction_columns(table, graphs, directions)

    with progress_bar("directions", file.metadata.num_rows, show=progress) as advance, _session(options):
        _write(out, solve_batches(advance))
    return total


def _session(options: Options) -> AbstractContextManager[Any]:
    """One Ray session for all batches of a table."""
    if options.engine != "ray":
        return nullcontext()
    from dgn.data.precompute.ray_cluster import ray_session

    return ray_session(options.address)


def _write(out: Path, tables: Iterable[Any]) -> None:
    """Write the concatenation of tables of one schema, atomically."""
    with atomic_file(out) as unfinished:
        write_parquet(unfinished, tables)
