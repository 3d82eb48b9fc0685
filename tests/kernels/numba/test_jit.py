"""Compiled kernels are cached on disk, and still compile where no folder is writable."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="needs Numba")

from numba import config
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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home directory, and no folder that the user chose."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", "")
    for function in (jit._private_folder, jit._warn_no_cache):
        function.cache_clear()
    yield tmp_path
    for function in (jit._private_folder, jit._warn_no_cache):
        function.cache_clear()


def test_kernels_are_cached_in_a_folder_of_the_user_alone(home: Path) -> None:
    folder = home / ".cache" / "dgn" / "numba"
    assert jit.jit(double).stats.cache_path.startswith(str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert config.CACHE_DIR == ""  # other packages keep theirs


def test_a_folder_that_others_can_write_to_is_not_used(home: Path) -> None:
    folder = home / ".cache" / "dgn" / "numba"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="numba cache: expected a folder for compiled kernels that only you can write"):
        assert jit.jit(double).stats.cache_path is None


def test_a_folder_that_the_user_chose_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(home / "mine"))
    assert jit.jit(double).stats.cache_path.startswith(str(home / "mine"))
