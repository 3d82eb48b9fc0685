"""Files that are written in full or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where what a killed process leaves behind stays
    fcntl = None  # type: ignore[assignment]

SCRATCH = ".dgn-"  # the beginning of the names of folders with files that are being written
FILE = "partial"


@contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary path, whose file replaces ``path`` when the block ends; after an error, ``path`` is unchanged.

    A ``durable`` file is on the disk before it has its name: a power failure leaves the old file or the new one.
    The mode of a file that is replaced is kept, and a symbolic link is followed. The temporary folder is locked while
    it is in use: those that killed processes left behind are removed when the next file is written beside them.
    """
    target = check_writable(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent.absolute())
    with _scratch_folder(target) as folder:
        file = folder / FILE
        yield file
        file.chmod(_mode(target, folder))
        if durable:
            _flush_to_disk(file)
        file.replace(target)
        if durable:
            _flush_to_disk(target.parent)


def check_writable(path: Path) -> Path:
    """The file that ``path`` names, with symbolic links followed; a folder or a device is refused."""
    target = path.resolve() if path.is_symlink() else path
    if target.is_dir():
        raise ValueError(f"{path}: expected a file to write, got a folder; name a file in it")
    if target.exists() and not target.is_file():
        raise ValueError(f"{path}: expected a file to write, got a device or a pipe; choose another path")
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"{path}: expected a folder that can be written to, got {above}; choose another")
    return target


@cache
def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder; once per process and folder."""
    for scratch in folder.glob(f"{SCRATCH}*/"):
        lock = _lock(scratch, wait=False)
        if lock is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(lock)


@contextmanager
def _scratch_folder(target: Path) -> Iterator[Path]:
    """A new locked folder beside ``target``, removed at the end; errors of the system name ``target`` instead."""
    # No process id in the name, as machines may share the folder.
    folder, lock = target.with_name(f"{SCRATCH}{secrets.token_hex(6)}"), None
    try:
        while not folder.exists():  # another process may take it for a leftover before it is locked
            folder.mkdir()
            lock = _lock(folder, wait=True)
        yield folder
    except OSError as error:
        if error.errno is None or not str(error.filename).startswith(str(folder)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, wait: bool) -> int | None:
    """The descriptor of a folder that this process has locked; None where it cannot, as another one has."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # also a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _mode(target: Path, folder: Path) -> int:
    """The mode of the file that is replaced, or that of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    new = folder / "new"
    new.touch()
    return new.stat().st_mode & 0o7777


def _flush_to_disk(path: Path) -> None:
    if path.is_dir() and os.name != "posix":  # only there a folder can be opened
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
