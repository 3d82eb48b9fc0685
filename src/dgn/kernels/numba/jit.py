"""The decorators with which all CPU kernels are compiled."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from numba import njit


def cached_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` without the GIL, with NumPy's error model and an on-disk cache.

    Where neither the package nor the user's home directory is writable, every process compiles for itself.
    """
    build = partial(njit, nogil=True, error_model="numpy", **options)

    def compile_kernel(function: Callable[..., Any]) -> Any:
        try:
            return build(cache=True)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
            _warn_no_cache()
            return build()(function)

    return compile_kernel


@cache
def _warn_no_cache() -> None:
    warnings.warn(
        "numba cache: expected a writable folder for compiled kernels, got none; every process compiles them again, "
        "which takes up to a minute: set NUMBA_CACHE_DIR to a folder",
        stacklevel=2,
    )


jit = cached_njit()
inline_jit = cached_njit(forceinline=True)
