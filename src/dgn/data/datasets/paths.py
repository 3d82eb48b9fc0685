"""Files of benchmarks, and a cache of converted graphs."""

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.cache import warn_unwritable


def cache_root() -> Path:
    """The folder of downloaded, generated and converted data: ``$DGN_CACHE``, or ``~/.cache/dgn``."""
    return Path(os.environ.get("DGN_CACHE") or Path.home() / ".cache" / "dgn")


def find_source(path: Path, names: Sequence[str]) -> Path | None:
    """``path`` if it is a file, else the first of ``names`` in that folder or its subfolders, else None.

    A folder that is itself called by one of the names is returned if nothing in it matches.
    """
    if not path.exists():
        raise FileNotFoundError(f"path: expected a file or folder, found nothing at {path}; check the spelling")
    raw = any(name.startswith("ogbg") for name in names) and (path / "raw").is_dir()  # OGB's folder under any name
    if path.is_file() or raw:
        return path
    candidates = (file for name in names for file in (path / name, *sorted(path.glob(f"*/{name}"))))
    return next((file for file in candidates if file.exists()), path if path.name in names else None)


def cached_graphs(file: Path, source: str, make: Callable[[], PackedGraphs]) -> PackedGraphs:
    """The graphs in ``file`` if it was written for the same ``source``, else those of ``make``, written there.

    A corrupt file is replaced, with a warning; one that cannot be written is reported, and the graphs are used.
    """
    try:
        if file.exists():
            cached = PackedGraphs.load(file)
            if cached.info.get("source") == source:
                return cached
    except (ValueError, OSError) as error:
        warnings.warn(f"converted again: {error}", stacklevel=2)
    graphs = make()
    graphs = replace(graphs, info={**graphs.info, "source": source})
    try:
        graphs.save(file)
    except (ValueError, OSError) as error:
        warn_unwritable(file, error)
    return graphs


def describe_files(files: Sequence[Path]) -> str:
    """Names of files and digests of their contents."""
    return "; ".join(f"{file.name} {_digest(file)}" for file in files)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
