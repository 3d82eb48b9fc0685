"""Numba's compiler, as all kernels for the CPU use it."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from numba import njit


def compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: compiled without the interpreter lock, arithmetic as NumPy's, kept on disk for the next process.

    Where neither the package nor the home of the user can be written to, every process compiles for itself.
    """

    build = partial(njit, nogil=True, error_model="numpy", **options)

    def compile_kernel(function: Callable[..., Any]) -> Any:
        try:
            return build(cache=True)(function)
        except RuntimeError as no_place:
            if "no locator" not in str(no_place):
                raise
            _warn()
            return build()(function)

    return compile_kernel


@cache
def _warn() -> None:
    warnings.warn(
        "compiled kernels: expected a folder to keep them in, got none that can be written to; they are compiled anew "
        "in every process, which takes up to a minute: set NUMBA_CACHE_DIR to a folder",
        stacklevel=2,
    )


compiled = compiler()
inlined = compiler(forceinline=True)
