"""Files of benchmarks, and a cache of converted graphs."""

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgn.data.packed import PackedGraphs


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


def read_source(path: Path, read: Callable[[Path], PackedGraphs] = PackedGraphs.load) -> PackedGraphs:
    """The graphs in a file; a truncated or corrupt ``.npz`` is refused by name."""
    if path.suffix == ".npz" and path.exists():
        check_complete(path)
    return read(path)


def check_complete(path: Path) -> None:
    """Refuse a truncated or corrupt ``.npz`` by name."""
    try:
        with zipfile.ZipFile(path) as arrays:
            corrupt = arrays.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        corrupt = str(error)
    if corrupt is not None:
        raise ValueError(f"{path}: expected a complete file, got a corrupt one ({corrupt}); copy it again")


def cached_graphs(file: Path, source: str, make: Callable[[], PackedGraphs]) -> PackedGraphs:
    """The graphs in ``file`` if it was written for the same ``source``, else those of ``make``, written there.

    A corrupt file is replaced, with a warning.
    """
    if file.exists():
        try:
            cached = PackedGraphs.load(file)
        except ValueError as error:
            warnings.warn(f"converted again: {error}", stacklevel=2)
        else:
            if cached.info.get("source") == source:
                return cached
    graphs = make()
    graphs = replace(graphs, info={**graphs.info, "source": source})
    graphs.save(file)
    return graphs


def describe_files(files: Sequence[Path]) -> str:
    """Names, sizes and modification times of files, which identify their contents."""
    stats = ((file.name, file.stat()) for file in files)
    return "; ".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)
