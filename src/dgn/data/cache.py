"""A cache of solved chunks: found by what was asked, by what, and of which graphs; never trusted unchecked."""

import hashlib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dgn.data.chunks import ChunkDirections, Request
from dgn.data.files import digest, read_tensors, write_tensors
from dgn.data.packed import PackedGraphs

FORMAT = "dgn directions 2"
SOLVER = 1  # raise it when results change for a reason that is not in the sources below
SOURCES = ("spectral", "graph", "fields")  # packages whose code makes the numbers
LIBRARIES = ("numba", "numpy", "scipy", "torch")


@cache
def solver_version() -> str:
    """A digest of all that decides the bits of a result besides its input: sources and libraries."""
    found = hashlib.sha256(f"{FORMAT} {SOLVER}".encode())
    package = Path(__file__).parents[1]
    for path in sorted(path for name in SOURCES for path in (package / name).rglob("*.py")):
        found.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    for library in LIBRARIES:
        found.update(f"{library} {_version(library)}".encode())
    return found.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def chunk_key(graphs: PackedGraphs, request: Request) -> str:
    """The name of a chunk's result: a digest of the request, the solver and the content of the graphs.

    The content is the structure and the weights; names and the type of integers do not matter.
    """
    content = {"node": graphs.node_pointer, "edge": graphs.edge_pointer, "index": graphs.edge_index.long()}
    if request.edge_weight is not None:
        content["weight"] = graphs.edges[request.edge_weight].double()
    asked = {**asdict(request), "edge_weight": request.edge_weight is not None, "solver": solver_version()}
    return digest(content, {name: repr(value) for name, value in asked.items()})


@dataclass(frozen=True)
class Cache:
    """A folder of solved chunks, one checksummed file each; any of them may be deleted at any time."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def read(self, key: str) -> ChunkDirections | None:
        """The result under a key; nothing if there is none, or if the file is damaged or belongs to another key."""
        if not self.path(key).exists():
            return None
        try:
            tensors, about = read_tensors(self.path(key), FORMAT)
        except (ValueError, OSError):
            return None  # damaged: computed again and written anew
        return ChunkDirections.of(tensors) if about.get("key") == key else None

    def write(self, key: str, found: ChunkDirections) -> None:
        """Keep a result, unless a graph failed: what failed is tried again next time."""
        if not found.failures:
            write_tensors(self.path(key), found.tensors(), {"format": FORMAT, "key": key})
