"""The decorators with which all CPU kernels are compiled.

Compiled kernels are code: whoever can write to their cache can run code as its owner. They are kept in a folder that
belongs to the user alone, ``~/.cache/dgn/numba``, or in ``NUMBA_CACHE_DIR`` where that is set.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba import njit

_settings: Any = numba.config  # whose names are set when it is loaded


def cached_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` without the GIL, with NumPy's error model and an on-disk cache.

    Where there is no private folder for it, every process compiles for itself.
    """
    build = partial(njit, nogil=True, error_model="numpy", **options)

    def compile_kernel(function: Callable[..., Any]) -> Any:
        folder = _settings.CACHE_DIR or _private_folder()
        try:
            if folder:
                with _cache_in(folder):
                    return build(cache=True)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
        _warn_no_cache()
        return build()(function)

    return compile_kernel


@cache
def _private_folder() -> str:
    """A folder to which nobody else can write; empty if there is none."""
    try:
        folder = Path.home() / ".cache" / "dgn" / "numba"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):  # no home
        return ""
    if os.name == "posix" and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        return ""
    return str(folder) if os.access(folder, os.W_OK) else ""


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """Numba looks for its folder when a function is decorated; those of other packages stay where they are."""
    before, _settings.CACHE_DIR = _settings.CACHE_DIR, folder
    try:
        yield
    finally:
        _settings.CACHE_DIR = before


@cache
def _warn_no_cache() -> None:
    warnings.warn(
        "numba cache: expected a folder for compiled kernels that only you can write to, got none; every process "
        "compiles them again, which takes up to a minute: set NUMBA_CACHE_DIR to a folder",
        stacklevel=2,
    )


jit = cached_njit()
inline_jit = cached_njit(forceinline=True)
