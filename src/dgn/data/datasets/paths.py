"""Where the files of benchmarks are, and graphs that are made once and then read."""

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgn.data.packed import PackedGraphs


def cache_root() -> Path:
    """The folder of downloaded and generated data: ``$DGN_CACHE``, or ``~/.cache/dgn``."""
    return Path(os.environ.get("DGN_CACHE") or Path.home() / ".cache" / "dgn")


def find_source(path: Path, names: Sequence[str]) -> Path | None:
    """``path`` if it is a file, or the first of ``names`` in that folder or in one of its folders, or nothing.

    A folder that has one of the names itself is what was looked for, unless one of them is in it or in one of
    its folders.
    """
    if not path.exists():
        raise FileNotFoundError(f"path: expected a file or folder, found nothing at {path}; check the spelling")
    raw = any(name.startswith("ogbg") for name in names) and (path / "raw").is_dir()  # OGB's folder by any name
    if path.is_file() or raw:
        return path
    found = (place for name in names for place in (path / name, *sorted(path.glob(f"*/{name}"))))
    return next((place for place in found if place.exists()), path if path.name in names else None)


def read_source(path: Path, read: Callable[[Path], PackedGraphs] = PackedGraphs.load) -> PackedGraphs:
    """Read a file; an ``.npz`` that is cut or damaged is refused by name."""
    if path.suffix == ".npz" and path.exists():
        check_complete(path)
    return read(path)


def check_complete(path: Path) -> None:
    """Refuse an ``.npz`` that is cut or damaged, by name."""
    try:
        with zipfile.ZipFile(path) as arrays:
            damaged = arrays.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError) as problem:
        damaged = str(problem)
    if damaged is not None:
        raise ValueError(f"{path}: expected a complete file, got a damaged one ({damaged}); copy it again")


def cached_graphs(file: Path, source: str, make: Callable[[], PackedGraphs]) -> PackedGraphs:
    """Graphs from ``file`` if it was made from the same ``source``, otherwise made now and written there.

    A damaged file is made again, with a warning.
    """
    if file.exists():
        try:
            found = PackedGraphs.load(file)
        except ValueError as problem:
            warnings.warn(f"made again: {problem}", stacklevel=2)
        else:
            if found.info.get("source") == source:
                return found
    made = make()
    made = replace(made, info={**made.info, "source": source})
    made.save(file)
    return made


def describe_files(files: Sequence[Path]) -> str:
    """Names, sizes and times of files: another description means other contents."""
    facts = ((file.name, file.stat()) for file in files)
    return "; ".join(f"{name} {fact.st_size} {fact.st_mtime_ns}" for name, fact in facts)
