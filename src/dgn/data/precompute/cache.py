"""A cache of results for chunks of graphs, keyed by arguments, code version and graphs, and verified on every read."""

import hashlib
import warnings
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
class CacheFormat:
    """The format of cached files, the packages whose code computes them, and a revision to increase when results
    change for a reason outside these packages."""

    name: str
    sources: tuple[str, ...]
    revision: int = 1


@cache
def code_version(cache_format: CacheFormat) -> str:
    """A digest of everything but the input that determines a result bitwise: sources and library versions."""
    sha = hashlib.sha256(f"{cache_format.name} {cache_format.revision}".encode())
    package = Path(dgn.__file__).parent
    for path in sorted(path for name in cache_format.sources for path in (package / name).rglob("*.py")):
        sha.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    for library in LIBRARIES:
        sha.update(f"{library} {_version(library)}".encode())
    return sha.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


@dataclass(frozen=True)
class Cache:
    """A folder with one checksummed file per chunk; any file may be deleted at any time."""

    folder: Path
    format: CacheFormat

    def key(self, graphs: PackedGraphs, args: Mapping[str, object], edge_weight: str | None = None) -> str:
        """The cache key of a chunk: a digest of the arguments, the code version and the graphs.

        Of the graphs, edges and the weights called ``edge_weight`` count; names and integer dtypes do not.
        """
        content = {"node": graphs.node_pointer, "edge": graphs.edge_pointer, "index": graphs.edge_index.long()}
        if edge_weight is not None:
            content["weight"] = graphs.edges[edge_weight].double()
        settings = {**args, "edge_weight": edge_weight is not None, "solver": code_version(self.format)}
        return digest(content, {name: repr(value) for name, value in settings.items()})

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def read(self, key: str) -> dict[str, Tensor] | None:
        """The tensors under a key; None if there are none, or if the file is corrupt or holds another key."""
        try:
            if not self.path(key).exists():
                return None
            tensors, metadata = read_tensors(self.path(key), self.format.name)
        except (ValueError, OSError):
            return None  # corrupt or unreadable: computed again
        return tensors if metadata.get("key") == key else None

    def write(self, key: str, tensors: Mapping[str, Tensor]) -> None:
        """Write the tensors of a key; a cache that cannot be written is reported, and nothing is lost but time."""
        try:
            write_tensors(self.path(key), tensors, {"format": self.format.name, "key": key}, durable=False)
        except (ValueError, OSError) as error:
            warn_unwritable(self.folder, error)


def warn_unwritable(path: Path, error: Exception) -> None:
    """Warn, in the same words for all files of a folder, that a cache cannot be written."""
    reason = getattr(error, "strerror", None) or str(error)
    warnings.warn(
        f"{path}: expected a cache that can be written, got {reason}; what is computed is used, but not kept",
        stacklevel=3,
    )
