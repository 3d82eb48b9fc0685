"""The arrays of an ``.npz``: bounded before they are unpacked, and verified while they are."""

import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

LIMIT = 32  # GB unpacked, unless the environment variable below is set
VARIABLE = "DGN_MAX_NPZ_GB"
# Raised by zipfile, zlib and NumPy for bytes that are damaged or of another format.
DAMAGED = (
    ArithmeticError, EOFError, KeyError, MemoryError, NotImplementedError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def load_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name; a truncated or corrupt file is refused, and pickled objects are.

    A file that would unpack to more than 32 GB (``DGN_MAX_NPZ_GB``) is refused before memory is taken.
    """
    limit = _limit()
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                check_entries(archive)
                size = sum(entry.file_size for entry in archive.infolist())
                if size <= limit * 1e9:
                    return {entry.removesuffix(".npy"): _read(archive, entry) for entry in archive.namelist()}
        except DAMAGED as error:
            raise ValueError(
                f"{path}: expected a complete file, got a corrupt one ({error or type(error).__name__}); copy it again"
            ) from error
    raise ValueError(
        f"{path}: expected at most {limit:g} GB unpacked, got {size / 1e9:.1f} GB; set {VARIABLE} to read it anyway"
    )


def check_entries(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with fewer entries than it states: damaged lengths hide entries from Python's reader."""
    assert archive.fp is not None
    archive.fp.seek(-22 - len(archive.comment), os.SEEK_END)  # the end record, 22 bytes and a comment
    stated = int.from_bytes(archive.fp.read(12)[-2:], "little")
    if stated not in (len(archive.infolist()), 2**16 - 1):  # the latter in archives of 64 bits
        raise ValueError(f"{len(archive.infolist())} of {stated} entries")


def _read(archive: zipfile.ZipFile, entry: str) -> NDArray[Any]:
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        size = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and size != archive.getinfo(entry).file_size - file.tell():
            raise ValueError(f"{entry}: an array of {size} bytes in a file of another size")
    with archive.open(entry) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        file.read(1)  # beyond the end, where the checksum is compared
        return array


def _limit() -> float:
    text = os.environ.get(VARIABLE, str(LIMIT))
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise ValueError(f"{VARIABLE}: expected a number of gigabytes above 0, got {text!r}; for example {LIMIT}")
    return limit
