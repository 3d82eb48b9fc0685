"""Graphs from packed files, parquet tables and PyG files, and directions from file to file."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from dgn.data.datasets.paths import read_source
from dgn.data.io.parquet import STRUCTURE, batches, graphs_of, open_parquet, table_of, with_direction_columns
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import Request
from dgn.data.precompute.directions import Options, check_weights, find_directions, make_request, with_directions
from dgn.data.precompute.progress import progress_bar
from dgn.data.precompute.summary import Summary
from dgn.spectral.laplacians import Normalization

PACKED, TABLE, PYG = (".safetensors", ".npz"), ".parquet", ".pt"


def load_graphs(path: Path) -> PackedGraphs:
    """The graphs of a packed file, a parquet table, or PyG's ``.pt`` (a processed dataset or a list of Data)."""
    if path.suffix in PACKED:
        return read_source(path)
    if path.suffix == TABLE:
        return graphs_of(open_parquet(path).read())
    if path.suffix == PYG:
        return PackedGraphs.from_data(_read_pyg(path))
    raise ValueError(
        f"{path}: expected a file called .safetensors, .npz, .parquet or .pt, got {path.suffix or 'no suffix'}; in "
        "Python, PackedGraphs.from_data takes any PyG dataset"
    )


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
    options = options or Options()
    if source.suffix == out.suffix == TABLE:
        file = open_parquet(source)
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
        for table in batches(file):
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
    from pyarrow.parquet import ParquetWriter

    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    remaining = iter(tables)
    first = next(remaining)
    try:
        with ParquetWriter(unfinished, first.schema, compression="zstd") as writer:
            for table in chain([first], remaining):
                writer.write_table(table)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _read_pyg(path: Path) -> Iterator[Any]:
    import torch
    from torch_geometric.data import InMemoryDataset
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a PyG file, found nothing; check the path")
    try:
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, weights_only=True)
    except UnpicklingError as error:
        raise ValueError(
            f"{path}: expected a processed dataset or a list of Data, got a pickle that could execute code; load it "
            "yourself and pass it to PackedGraphs.from_data"
        ) from error
    except (RuntimeError, EOFError, KeyError) as error:  # raised by PyTorch for any other bytes
        raise ValueError(f"{path}: expected a complete file of PyTorch, got {error!r}; write it again") from error
    if isinstance(content, list):
        return iter(content)
    if not isinstance(content, tuple) or len(content) < 2:
        raise ValueError(
            f"{path}: expected a processed dataset or a list of Data, got {type(content).__name__}; save a list of Data"
        )
    dataset = InMemoryDataset()
    dataset.load(str(path))
    return iter(dataset)
