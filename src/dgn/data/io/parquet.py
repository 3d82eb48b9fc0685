"""Graphs in parquet tables: one row per graph, with list columns for nodes and edges.

Edges are in ``edge_index``, a pair of lists of nodes, or in ``source`` and ``target``, a list each. ``num_nodes`` is
optional; without it, a graph ends with the highest node that has an edge. Nodes are numbered from 0 in each graph.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dgn.data.io.arrow import Array, edge_pairs, flat_lists, integers, list_column, list_values, numbers
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import ChunkDirections
from dgn.graph.checks import check_package

ROWS, BYTES = 2**14, 2**28  # per batch, whichever is less
STRUCTURE = ("edge_index", "source", "target", "num_nodes")


def open_parquet(path: Path) -> Any:
    """The open file (``pyarrow.parquet.ParquetFile``)."""
    check_package("parquet", "pyarrow")
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a parquet table of graphs, found nothing; check the path")
    try:
        return ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path}: expected a parquet table, got {error}; write it again") from error


def batches(file: Any) -> Iterator[Any]:
    """Yield tables (``pyarrow.Table``) of some thousand rows, so that a file may be larger than memory.

    Batch sizes depend only on the file: chunks, and so cache keys, are the same on every run.
    """
    import pyarrow

    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups) // max(file.metadata.num_rows, 1)
    if not file.metadata.num_rows:
        yield file.schema_arrow.empty_table()
    for batch in file.iter_batches(batch_size=max(1, min(ROWS, BYTES // max(size, 1)))):
        yield pyarrow.Table.from_batches([batch])


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
        nodes = np.zeros(len(edges), dtype=np.int64)
        np.maximum.at(nodes, np.repeat(np.arange(len(edges)), edges), index.max(axis=0) + 1)
    packed = PackedGraphs(_pointer(nodes), _pointer(edges), torch.from_numpy(index))
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
        is_edge_name = "edge" in name or name == "field"
        likely = "edges" if fits["edges"] and (is_edge_name or not fits["nodes"]) else "nodes"
        if fits[likely]:
            tensors[likely][name] = torch.tensor(values)
        elif len(count) and (count == count[0]).all():
            tensors["graphs"][name] = torch.tensor(values.reshape(len(count), -1))
    return tensors


def with_direction_columns(table: Any, graphs: PackedGraphs, directions: ChunkDirections) -> Any:
    """The table with the columns of the directions; columns of the same name are replaced.

    ``potential`` is a list of k numbers per node, ``field`` per edge, ``eigenvalues`` and ``repeated`` per connected
    component; ``component`` is the index of a node's component within its graph.
    """
    components = pad(directions.components.cumsum(0), (1, 0))
    columns = {
        "potential": list_column(directions.potential, graphs.node_pointer),
        "field": list_column(directions.field, graphs.edge_pointer),
        "component": list_column(directions.component, graphs.node_pointer),
        "eigenvalues": list_column(directions.eigenvalues, components),
        "repeated": list_column(directions.repeated, components),
    }
    table = table.drop_columns([name for name in columns if name in table.column_names])
    for name, column in columns.items():
        table = table.append_column(name, column)
    # Metadata of other libraries no longer describe the columns.
    return table.replace_schema_metadata(None)


def table_of(graphs: PackedGraphs) -> Any:
    """Packed graphs as a table of sources, targets, node counts and all other tensors."""
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
    return pyarrow.table(columns)


def _pointer(count: Array) -> Tensor:
    return pad(torch.tensor(count).cumsum(0), (1, 0))
