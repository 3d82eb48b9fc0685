"""Kernels that are compiled: kept on disk where there is room, and used all the same where there is none."""

import pytest

pytest.importorskip("numba", reason="needs Numba")

from numba.core.caching import CompileResultCacheImpl

from dgn.kernels.numba import jit as compiled


def double(x: float) -> float:
    return 2 * x


def test_a_kernel_is_kept_on_disk() -> None:
    assert compiled.compiled(double).stats.cache_path


def test_without_a_place_for_it_a_kernel_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    compiled._warn.cache_clear()
    with pytest.warns(UserWarning, match=r"^compiled kernels: .* got none .*: set NUMBA_CACHE_DIR"):
        kernel = compiled.compiled(double)
    assert kernel.stats.cache_path is None
    assert kernel(21.0) == 42.0


def test_other_errors_of_the_compiler_are_not_taken_for_a_missing_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(compiled, "njit", fail)
    with pytest.raises(RuntimeError, match=r"^broken$"):
        compiled.compiler()(double)
