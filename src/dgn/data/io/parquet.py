"""Graphs in parquet tables: one row per graph, lists for its nodes and edges.

Columns that are read: ``edge_index``, a pair of lists of nodes, or ``source`` and ``target``, a list each, and
``num_nodes``; without it, one more than the highest node that has an edge. Nodes are counted from 0 in each graph.
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

ROWS, BYTES = 2**14, 2**28  # read at a time, whichever is less
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
    except ArrowInvalid as problem:
        raise ValueError(f"{path}: expected a parquet table, got {problem}; make it again") from problem


def batches(file: Any) -> Iterator[Any]:
    """Some thousand rows of a file at a time (``pyarrow.Table``), so that it may be larger than memory.

    How many depends on the file alone: the chunks, and so the keys of the cache, are the same on every run.
    """
    import pyarrow

    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups) // max(file.metadata.num_rows, 1)
    if not file.metadata.num_rows:
        yield file.schema_arrow.empty_table()
    for batch in file.iter_batches(batch_size=max(1, min(ROWS, BYTES // max(size, 1)))):
        yield pyarrow.Table.from_batches([batch])


def graphs_of(table: Any) -> PackedGraphs:
    """The graphs of a table, with every other column of numbers, or of a list of numbers per graph, node or edge.

    >>> import pyarrow
    >>> graphs_of(pyarrow.table({"source": [[0, 1], [0]], "target": [[1, 0], [1]], "num_nodes": [2, 3], "y": [1, 2]}))
    PackedGraphs(graphs=2, nodes=5, edges=3; graphs=[y])
    """
    index, edges = _edges(table)
    if "num_nodes" in table.column_names:
        nodes = integers("num_nodes", table["num_nodes"].combine_chunks())
    else:
        highest = np.zeros(len(edges), dtype=np.int64)
        np.maximum.at(highest, np.repeat(np.arange(len(edges)), edges), index.max(axis=0) + 1)
        nodes = highest
    packed = PackedGraphs(_pointer(nodes), _pointer(edges), torch.from_numpy(index))
    return packed.with_values(**_values(table, nodes, edges))


def _edges(table: Any) -> tuple[Array, Array]:
    """``edge_index`` [2, E] and the number of edges of each row."""
    names = table.column_names
    if "edge_index" in names:
        return edge_pairs("edge_index", table["edge_index"])
    if "source" not in names or "target" not in names:
        raise ValueError(
            f"columns: expected edge_index, or source and target, got {', '.join(names)}; rename the columns that hold "
            "the ends of the edges"
        )
    (source, edges), (target, others) = (flat_lists(name, table[name]) for name in ("source", "target"))
    if (edges != others).any():
        row = int(np.flatnonzero(edges != others)[0])
        raise ValueError(f"row {row}: expected as many sources as targets, got {edges[row]} and {others[row]}")
    return np.stack([integers("source", source), integers("target", target)]), edges


def _values(table: Any, nodes: Array, edges: Array) -> dict[str, dict[str, Tensor]]:
    """The other columns of numbers, as values of nodes, edges and graphs."""
    found: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    # Beside edge_index, a column called target holds what is to be learnt.
    ends = STRUCTURE[:1] if "edge_index" in table.column_names else STRUCTURE[1:3]
    for name in table.column_names:
        if name in (*ends, "num_nodes"):
            continue
        alone = numbers(table[name])
        if alone is not None:
            found["graphs"][name] = torch.tensor(alone)
            continue
        lists = list_values(name, table[name])
        if lists is None:
            continue
        values, count = lists
        fits = {"nodes": np.array_equal(count, nodes), "edges": np.array_equal(count, edges)}
        of_edges = "edge" in name or name == "field"
        likely = "edges" if fits["edges"] and (of_edges or not fits["nodes"]) else "nodes"
        if fits[likely]:
            found[likely][name] = torch.tensor(values)
        elif len(count) and (count == count[0]).all():
            found["graphs"][name] = torch.tensor(values.reshape(len(count), -1))
    return found


def with_direction_columns(table: Any, graphs: PackedGraphs, found: ChunkDirections) -> Any:
    """The table with columns for the directions, in place of any of the same name.

    ``potential`` is a list of k numbers per node, ``field`` per edge, ``eigenvalues`` and ``repeated`` per connected
    component; ``component`` numbers that of each node within its graph.
    """
    components = pad(found.components.cumsum(0), (1, 0))
    columns = {
        "potential": list_column(found.potential, graphs.node_pointer),
        "field": list_column(found.field, graphs.edge_pointer),
        "component": list_column(found.component, graphs.node_pointer),
        "eigenvalues": list_column(found.eigenvalues, components),
        "repeated": list_column(found.repeated, components),
    }
    table = table.drop_columns([name for name in columns if name in table.column_names])
    for name, column in columns.items():
        table = table.append_column(name, column)
    # What other libraries noted about the columns no longer holds.
    return table.replace_schema_metadata(None)


def table_of(graphs: PackedGraphs) -> Any:
    """Packed graphs as a table: the ends of their edges, their numbers of nodes, and all their values."""
    check_package("parquet", "pyarrow")
    import pyarrow

    names = [*STRUCTURE, *graphs.graphs, *graphs.nodes, *graphs.edges]
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise ValueError(
            f"{twice[0]}: expected values of one kind under a name that no other column of a table has, got more; "
            "rename them, or write a .safetensors file"
        )
    nodes, edges, each = graphs.node_pointer, graphs.edge_pointer, torch.arange(len(graphs) + 1)
    columns: dict[str, Any] = {
        name: list_column(graphs.edge_index[row], edges) for row, name in enumerate(STRUCTURE[1:3])
    }
    columns["num_nodes"] = pyarrow.array(nodes.diff().numpy())
    columns |= {name: list_column(value, each).flatten() for name, value in graphs.graphs.items()}
    for values, pointer in ((graphs.nodes, nodes), (graphs.edges, edges)):
        columns |= {name: list_column(value, pointer) for name, value in values.items()}
    return pyarrow.table(columns)


def _pointer(count: Array) -> Tensor:
    return pad(torch.tensor(count).cumsum(0), (1, 0))
