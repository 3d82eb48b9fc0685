"""A digest of the content of Arrow tables, which does not depend on how their rows are batched."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np


class TableDigest:
    """The SHA-256 of ``info``, and of names, types and values of tables of one schema that follow each other.

    Each column is hashed by its parts: lists as lengths and concatenated values, numbers as a mask of nulls and bytes,
    others as text.

    >>> import pyarrow
    >>> whole, halves = TableDigest(), TableDigest()
    >>> table = pyarrow.table({"a": [[1, 2], [], [3]], "b": ["x", None, "z"]})
    >>> whole.update(table), halves.update(table[:1]), halves.update(table[1:])
    (None, None, None)
    >>> whole.hexdigest() == halves.hexdigest()
    True
    """

    def __init__(self, info: bytes = b"") -> None:
        self._parts: dict[str, Any] = {"": hashlib.sha256(info)}

    def update(self, table: Any) -> None:
        for index, name in enumerate(table.column_names):
            for chunk in table.column(index).chunks or [table.schema.field(index).type]:
                for part, content in _parts(f"{index} {name}", chunk):
                    self._parts.setdefault(part, hashlib.sha256()).update(content)

    def hexdigest(self) -> str:
        parts = {name: part.hexdigest() for name, part in self._parts.items()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _parts(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """The bytes of an array by the name of the part they belong to; a type alone stands for an array without rows."""
    import pyarrow
    import pyarrow.compute
    from pyarrow import types

    if isinstance(array, pyarrow.DataType):
        array = pyarrow.array([], type=array)
    kind = array.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        length = pyarrow.compute.list_value_length(array).fill_null(-1).to_numpy(zero_copy_only=False)
        yield f"{name} length", length.astype(np.int64).tobytes()
        yield from _parts(f"{name} item", array.flatten())
        return
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        yield f"{name} valid", array.is_valid().to_numpy(zero_copy_only=False).tobytes()
        values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
        yield f"{name} {values.dtype}", values.tobytes()
    else:
        yield f"{name} text", "".join(f"{value!r}\n" for value in array.to_pylist()).encode("utf-8", "surrogateescape")
