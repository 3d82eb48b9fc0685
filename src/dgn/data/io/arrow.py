"""Arrow list columns from and to arrays."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


def flat_lists(name: str, column: Any) -> tuple[Any, Array]:
    """The concatenated values of a list column (Arrow), and the length of each list."""
    import pyarrow
    import pyarrow.compute
    from pyarrow import types

    array = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if not (types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)):
        raise ValueError(f"{name}: expected a list column, got {array.type}; give one list per graph")
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{name}: expected a list in every row, got null in row {row}; remove the row, or give []")
    length = pyarrow.compute.list_value_length(array)
    return array.flatten(), length.to_numpy(zero_copy_only=False).astype(np.int64)


def integers(name: str, values: Any) -> Array:
    """Arrow integers as int64."""
    from pyarrow import types

    # A column in which every list is empty has no type.
    if not (types.is_integer(values.type) or types.is_null(values.type)) or (values.null_count and len(values)):
        raise ValueError(f"{name}: expected integers, got {values.type} with {values.null_count} missing")
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)


def edge_pairs(name: str, column: Any) -> tuple[Array, Array]:
    """``edge_index`` [2, E] from a column of pairs of lists, and the number of edges in each row."""
    outer, pairs = flat_lists(name, column)
    nodes, count = flat_lists(name, outer)
    invalid = pairs != 2
    if not invalid.any():
        invalid = count[0::2] != count[1::2]
    if invalid.any():
        raise ValueError(
            f"{name}: expected two lists of equal length, the sources and the targets, got others in row "
            f"{int(np.flatnonzero(invalid)[0])}; store the transpose of a list of pairs"
        )
    edges = count[0::2]
    values = integers(name, nodes)
    # Sources and targets alternate, graph by graph.
    source = np.arange(edges.sum()) + np.repeat(edges.cumsum() - edges, edges)
    return np.stack([values[source], values[source + np.repeat(edges, edges)]]), edges


def numbers(column: Any) -> Array | None:
    """A numeric column as an array; None for other types and for columns with nulls."""
    from pyarrow import types

    dtype = column.type
    if not (types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype)) or column.null_count:
        return None
    return np.asarray(column.to_numpy(zero_copy_only=False) if not hasattr(column, "chunks") else column.to_numpy())


def list_values(name: str, column: Any) -> tuple[Array, Array] | None:
    """The concatenated numbers of a list column, [rows, ...], and the length of each list; None for other columns.

    Nested lists must have equal lengths.
    """
    try:
        values, count = flat_lists(name, column)
        flat = numbers(values)
        if flat is not None:
            return flat, count
        nested = list_values(name, values)
    except ValueError:
        return None
    if nested is None:
        return None
    inner, lengths = nested
    if (lengths != lengths[:1]).any():
        return None
    width = int(lengths[0]) if len(lengths) else 0
    return inner.reshape(len(lengths), width, *inner.shape[1:]), count


def list_column(values: Tensor, pointer: Tensor) -> Any:
    """A list column of the rows of ``values``: list r holds rows ``pointer[r]`` to ``pointer[r + 1]`` (exclusive).

    >>> list_column(torch.tensor([[1, 2], [3, 4], [5, 6]]), torch.tensor([0, 1, 3])).to_pylist()
    [[[1, 2]], [[3, 4], [5, 6]]]
    """
    import pyarrow

    array = pyarrow.array(values.reshape(-1).numpy())
    for size in reversed(values.shape[1:]):
        array = pyarrow.FixedSizeListArray.from_arrays(array, size)
    return pyarrow.ListArray.from_arrays(pyarrow.array(pointer.to(torch.int32).numpy()), array)
