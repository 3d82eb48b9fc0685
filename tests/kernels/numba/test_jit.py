"""Compiled kernels are cached on disk, and still compile where no folder is writable."""

import pytest

pytest.importorskip("numba", reason="needs Numba")

from numba.core.caching import CompileResultCacheImpl

from dgn.kernels.numba import jit


def double(x: float) -> float:
    return 2 * x


def test_a_kernel_is_cached_on_disk() -> None:
    assert jit.jit(double).stats.cache_path


def test_a_kernel_compiles_without_a_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    jit._warn_no_cache.cache_clear()
    with pytest.warns(UserWarning, match=r"^numba cache: .* got none; .*: set NUMBA_CACHE_DIR"):
        kernel = jit.jit(double)
    assert kernel.stats.cache_path is None
    assert kernel(21.0) == 42.0


def test_other_compiler_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(jit, "njit", fail)
    with pytest.raises(RuntimeError, match=r"^broken$"):
        jit.cached_njit()(double)
