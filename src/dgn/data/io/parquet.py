"""Graphs in parquet tables: one row per graph, with list columns for nodes and edges.

Edges are in ``edge_index``, a pair of lists of nodes, or in ``source`` and ``target``, a list each. ``num_nodes`` is
optional; without it, a graph ends with the highest node that has an edge. Nodes are numbered from 0 in each graph.

Tables are written with checksums of their pages and, as the metadata ``dgn.digest``, a digest of their content; both
are verified when they are read.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dgn.data.io.arrow import Array, edge_pairs, flat_lists, integers, list_column, list_values, numbers
from dgn.data.io.table_digest import TableDigest
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import ChunkDirections
from dgn.graph.checks import check_inferred_nodes, check_package

ROWS, BYTES = 2**14, 2**28  # per batch, whichever is less
METADATA, DIGEST = b"dgn", "dgn.digest"  # the keys of our metadata in a schema
STRUCTURE = ("edge_index", "source", "target", "num_nodes")


def open_parquet(path: Path) -> Any:
    """The open file (``pyarrow.parquet.ParquetFile``)."""
    check_package("parquet", "pyarrow")
    from pyarrow.parquet import ParquetFile

    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a parquet table of graphs, found nothing; check the path")
    with _named(path):
        return ParquetFile(path, page_checksum_verification=True)


def read_parquet(path: Path) -> Any:
    """The whole table (``pyarrow.Table``), verified."""
    import pyarrow

    file = open_parquet(path)
    warn_unverified(path, file)
    return pyarrow.concat_tables([file.schema_arrow.empty_table(), *checked_batches(path, file, ROWS)])


def batches(path: Path, file: Any) -> Iterator[Any]:
    """Yield tables (``pyarrow.Table``) of some thousand rows, so that a file may be larger than memory.

    Batch sizes depend only on the file: chunks, and so cache keys, are the same on every run.
    """
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups) // max(file.metadata.num_rows, 1)
    if not file.metadata.num_rows:
        yield file.schema_arrow.empty_table()
    yield from checked_batches(path, file, max(1, min(ROWS, BYTES // max(size, 1))))


def checked_batches(path: Path, file: Any, size: int) -> Iterator[Any]:
    """Yield tables of ``size`` rows; after the last, refuse a file whose content has another digest than it states."""
    import pyarrow

    stated = _stated_digest(file)
    actual = TableDigest(_info(file.schema_arrow))
    actual.update(file.schema_arrow.empty_table())
    remaining = file.iter_batches(batch_size=size)
    while True:
        with _named(path):
            batch = next(remaining, None)
            if batch is None:
                break
            table = pyarrow.Table.from_batches([batch])
            table.validate(full=True)
            if stated is not None:
                actual.update(table)
        yield table
    if stated not in (None, actual.hexdigest()):
        raise ValueError(f"{path}: expected content of digest {stated}, got another; it is corrupt, write it again")


def warn_unverified(path: Path, file: Any) -> None:
    """Warn that a table of another program has no digest of its content."""
    if _stated_digest(file) is None:
        warnings.warn(
            f"{path}: expected a table written by dgn, got one without a digest of its content; it is read, but "
            "nothing vouches for it, and damage may go unnoticed",
            stacklevel=3,
        )


def write_parquet(path: Path, tables: Iterable[Any]) -> None:
    """Write the concatenation of tables of one schema, with checksums."""
    with parquet_writer(path) as write:
        for table in tables:
            write(table)


@contextmanager
def parquet_writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """A function that appends a table to a file; the first one decides the schema."""
    check_package("parquet", "pyarrow")
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        opened: list[tuple[ParquetWriter, TableDigest]] = []

        def write(table: Any) -> None:
            if not opened:
                writer = ParquetWriter(path, table.schema, compression="zstd", write_page_checksum=True)
                opened.append((stack.enter_context(writer), TableDigest(_info(table.schema))))
                opened[0][1].update(table.schema.empty_table())
            writer, digest = opened[0]
            digest.update(table)
            writer.write_table(table)

        yield write
        for writer, digest in opened:
            writer.add_key_value_metadata({DIGEST: digest.hexdigest()})


def _info(schema: Any) -> bytes:
    """The information on graphs in the metadata of a table, as JSON."""
    info: bytes = (schema.metadata or {}).get(METADATA, b"{}")
    return info


def _stated_digest(file: Any) -> str | None:
    stated = (file.metadata.metadata or {}).get(DIGEST.encode())
    return None if stated is None else stated.decode("ascii", "replace")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in Arrow's errors."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{path}: expected a parquet table, got {message}; write it again") from error


def graphs_of(table: Any) -> PackedGraphs:
    """The graphs of a table, with all other numeric columns and columns of numeric lists per graph, node or edge.

    >>> import pyarrow
    >>> graphs_of(pyarrow.table({"source": [[0, 1], [0]], "target": [[1, 0], [1]], "num_nodes": [2, 3], "y": [1, 2]}))
    PackedGraphs(graphs=2, nodes=5, edges=3; graphs=[y])
    """
    index, edges = _edges(table)
    if "num_nodes" in table.column_names:
        nodes = integers("num_nodes", table["num_nodes"].combine_chunks())
    else:
        check_inferred_nodes(int(index.max(initial=-1)), index.shape[1])
        nodes = np.zeros(len(edges), dtype=np.int64)
        np.maximum.at(nodes, np.repeat(np.arange(len(edges)), edges), index.max(axis=0) + 1)
    info = json.loads(_info(table.schema))
    packed = PackedGraphs(_pointer(nodes), _pointer(edges), torch.from_numpy(index), info=info)
    return packed.with_values(**_values(table, nodes, edges))


def _edges(table: Any) -> tuple[Array, Array]:
    """``edge_index`` [2, E] and the number of edges of each row."""
    names = table.column_names
    if "edge_index" in names:
        return edge_pairs("edge_index", table["edge_index"])
    if "source" not in names or "target" not in names:
        raise ValueError(
            f"columns: expected edge_index, or source and target, got {', '.join(names)}; rename the columns with the "
            "nodes of the edges"
        )
    (source, sources), (target, targets) = (flat_lists(name, table[name]) for name in ("source", "target"))
    if (sources != targets).any():
        row = int(np.flatnonzero(sources != targets)[0])
        raise ValueError(f"row {row}: expected as many sources as targets, got {sources[row]} and {targets[row]}")
    return np.stack([integers("source", source), integers("target", target)]), sources


def _values(table: Any, nodes: Array, edges: Array) -> dict[str, dict[str, Tensor]]:
    """The other numeric columns, as node, edge and graph tensors."""
    tensors: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    # Next to edge_index, a column called target holds the values to predict.
    edge_columns = STRUCTURE[:1] if "edge_index" in table.column_names else STRUCTURE[1:3]
    for name in table.column_names:
        if name in (*edge_columns, "num_nodes"):
            continue
        scalars = numbers(table[name])
        if scalars is not None:
            tensors["graphs"][name] = torch.tensor(scalars)
            continue
        lists = list_values(name, table[name])
        if lists is None:
            continue
        values, count = lists
        fits = {"nodes": np.array_equal(count, nodes), "edges": np.array_equal(count, edges)}
        is_edge_name = "edge" in name
        likely = "edges" if fits["edges"] and (is_edge_name or not fits["nodes"]) else "nodes"
        if fits[likely]:
            tensors[likely][name] = torch.tensor(values)
        elif len(count) and (count == count[0]).all():
            tensors["graphs"][name] = torch.tensor(values.reshape(len(count), -1))
    return tensors


def with_direction_columns(table: Any, graphs: PackedGraphs, directions: ChunkDirections) -> Any:
    """The table with the columns of the directions; columns of the same name are replaced.

    ``node_potential`` is a list of k numbers per node, ``edge_field`` per edge, ``eigenvalues`` and ``repeated`` per
    connected component; ``component`` is the index of a node's component within its graph.
    """
    components = pad(directions.components.cumsum(0), (1, 0))
    columns = {
        "node_potential": list_column(directions.potential, graphs.node_pointer),
        "edge_field": list_column(directions.field, graphs.edge_pointer),
        "component": list_column(directions.component, graphs.node_pointer),
        "eigenvalues": list_column(directions.eigenvalues, components),
        "repeated": list_column(directions.repeated, components),
    }
    table = table.drop_columns([name for name in columns if name in table.column_names])
    for name, column in columns.items():
        table = table.append_column(name, column)
    # Metadata of other libraries no longer describe the columns.
    info = json.loads(_info(table.schema))
    return table.replace_schema_metadata(_metadata({name: text for name, text in info.items() if name != "directions"}))


def table_of(graphs: PackedGraphs) -> Any:
    """Packed graphs as a table of sources, targets, node counts and all other tensors; ``info`` is its metadata."""
    check_package("parquet", "pyarrow")
    import pyarrow

    names = [*STRUCTURE, *graphs.graphs, *graphs.nodes, *graphs.edges]
    duplicates = [name for index, name in enumerate(names) if name in names[:index]]
    if duplicates:
        raise ValueError(
            f"{duplicates[0]}: expected a name that no other column of the table has, got a duplicate; rename the "
            "tensor, or write a .safetensors file"
        )
    nodes, edges, rows = graphs.node_pointer, graphs.edge_pointer, torch.arange(len(graphs) + 1)
    columns: dict[str, Any] = {
        name: list_column(nodes_of_edges, edges)
        for name, nodes_of_edges in zip(("source", "target"), graphs.edge_index, strict=True)
    }
    columns["num_nodes"] = pyarrow.array(nodes.diff().numpy())
    columns |= {name: list_column(value, rows).flatten() for name, value in graphs.graphs.items()}
    for values, pointer in ((graphs.nodes, nodes), (graphs.edges, edges)):
        columns |= {name: list_column(value, pointer) for name, value in values.items()}
    return pyarrow.table(columns).replace_schema_metadata(_metadata(graphs.info))


def _metadata(info: Mapping[str, str]) -> dict[bytes, str] | None:
    """The information on graphs as metadata of a table."""
    return {METADATA: json.dumps(dict(info), sort_keys=True)} if info else None


def _pointer(count: Array) -> Tensor:
    return pad(torch.tensor(count).cumsum(0), (1, 0))
