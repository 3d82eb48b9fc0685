"""A cache of what was computed for chunks of graphs: found by what was asked, by what, and of which graphs; never
trusted unchecked."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from torch import Tensor

import dgn
from dgn.data.io.files import digest, read_tensors, write_tensors
from dgn.data.packed import PackedGraphs

LIBRARIES = ("numba", "numpy", "scipy", "torch")


@dataclass(frozen=True)
class Kind:
    """What is kept: the format of its files, the packages whose code makes its numbers, and a number to raise when
    results change for a reason that is not in these sources."""

    format: str
    sources: tuple[str, ...]
    revision: int = 1


@cache
def code_version(kind: Kind) -> str:
    """A digest of all that decides the bits of a result besides its input: sources and libraries."""
    found = hashlib.sha256(f"{kind.format} {kind.revision}".encode())
    package = Path(dgn.__file__).parent
    for path in sorted(path for name in kind.sources for path in (package / name).rglob("*.py")):
        found.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    for library in LIBRARIES:
        found.update(f"{library} {_version(library)}".encode())
    return found.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


@dataclass(frozen=True)
class Cache:
    """A folder of results of one kind, one checksummed file for each chunk; any may be deleted at any time."""

    folder: Path
    kind: Kind

    def key(self, graphs: PackedGraphs, asked: Mapping[str, object], edge_weight: str | None = None) -> str:
        """The name of a chunk's result: a digest of what was asked, the code and the content of the graphs.

        The content is the structure and, if named, the weights; names and the type of integers do not matter.
        """
        content = {"node": graphs.node_pointer, "edge": graphs.edge_pointer, "index": graphs.edge_index.long()}
        if edge_weight is not None:
            content["weight"] = graphs.edges[edge_weight].double()
        told = {**asked, "edge_weight": edge_weight is not None, "solver": code_version(self.kind)}
        return digest(content, {name: repr(value) for name, value in told.items()})

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def read(self, key: str) -> dict[str, Tensor] | None:
        """The result under a key; nothing if there is none, or if the file is damaged or belongs to another key."""
        if not self.path(key).exists():
            return None
        try:
            tensors, about = read_tensors(self.path(key), self.kind.format)
        except (ValueError, OSError):
            return None  # damaged: computed again and written anew
        return tensors if about.get("key") == key else None

    def write(self, key: str, found: Mapping[str, Tensor]) -> None:
        write_tensors(self.path(key), found, {"format": self.kind.format, "key": key})
