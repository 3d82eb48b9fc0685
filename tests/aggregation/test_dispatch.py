"""The choice of a backend, as a table, and the refusal of unavailable ones."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from dgn.aggregation import Messages
from dgn.aggregation.dispatch import INSTALLED, SMALL, choose
from dgn.graph import Graph

CHANNELS = 64
LARGE = SMALL // CHANNELS  # edges from which messages are large


class Features(NamedTuple):
    """Stands for a tensor on any device: the attributes of one that a choice may depend on."""

    device: torch.device
    dtype: torch.dtype

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def size(self, dim: int) -> int:
        return (LARGE, CHANNELS)[dim]


def features(device: str, dtype: torch.dtype) -> Messages:
    return Messages(source=Features(torch.device(device), dtype))  # type: ignore[arg-type]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Take exactly these packages for installed, outside Triton's interpreter."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def only(*packages: str) -> None:
        for name in INSTALLED:
            monkeypatch.setitem(INSTALLED, name, name in packages)

    return only


def graph_with(edges: int) -> Graph:
    return Graph(torch.zeros(2, edges, dtype=torch.long), 1)


AUTO = [  # device, dtype, edges, installed packages: backend
    ("cpu", torch.float32, LARGE, ("numba",), "cpu"),
    ("cpu", torch.float64, LARGE, ("numba",), "cpu"),
    ("cpu", torch.float32, LARGE, ("numba", "triton"), "cpu"),
    ("cpu", torch.float32, LARGE - 1, ("numba",), "reference"),
    ("cpu", torch.float32, LARGE, ("triton",), "reference"),
    ("cpu", torch.float16, LARGE, ("numba",), "reference"),
    ("cpu", torch.bfloat16, LARGE, ("numba",), "reference"),
    ("cuda", torch.float32, LARGE, ("triton",), "triton"),
    ("cuda", torch.float64, LARGE, ("triton",), "triton"),
    ("cuda", torch.float16, LARGE, ("triton",), "triton"),
    ("cuda", torch.bfloat16, LARGE, ("triton",), "triton"),
    ("cuda", torch.float32, 0, ("triton",), "triton"),
    ("cuda", torch.float32, LARGE, ("numba",), "reference"),
    ("cuda", torch.float8_e4m3fn, LARGE, ("triton",), "reference"),
    ("mps", torch.float32, LARGE, ("numba", "triton"), "reference"),
]


@pytest.mark.parametrize(("device", "dtype", "edges", "packages", "backend"), AUTO)
def test_the_table_of_backends(
    device: str,
    dtype: torch.dtype,
    edges: int,
    packages: tuple[str, ...],
    backend: str,
    install: Callable[..., None],
) -> None:
    install(*packages)
    assert choose("auto", features(device, dtype), graph_with(edges)) == backend


def test_the_first_part_of_the_messages_decides(install: Callable[..., None]) -> None:
    install("numba")
    table = torch.zeros(2, CHANNELS)
    assert choose("auto", Messages(table=table, row=torch.zeros(LARGE).long()), graph_with(LARGE)) == "cpu"


@pytest.mark.parametrize(
    ("backend", "device", "dtype"),
    [
        ("reference", "cpu", torch.float32),
        ("reference", "cuda", torch.float16),
        ("cpu", "cpu", torch.float64),
        ("triton", "cuda", torch.float32),
    ],
)
def test_an_available_backend_is_used_on_request(
    backend: str, device: str, dtype: torch.dtype, install: Callable[..., None]
) -> None:
    install("numba", "triton")
    assert choose(backend, features(device, dtype), graph_with(1)) == backend  # type: ignore[arg-type]


def test_triton_runs_on_the_cpu_in_its_interpreter(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert choose("triton", features("cpu", torch.float32), graph_with(1)) == "triton"


@pytest.mark.parametrize(
    ("backend", "device", "dtype", "packages"),
    [
        ("triton", "cpu", torch.float32, ("triton",)),
        ("triton", "cuda", torch.float32, ("numba",)),
        ("cpu", "cuda", torch.float32, ("numba",)),
        ("cpu", "cpu", torch.float16, ("numba",)),
        ("cpu", "cpu", torch.float32, ("triton",)),
    ],
)
def test_an_unavailable_backend_is_refused_with_the_remedy(
    backend: str, device: str, dtype: torch.dtype, packages: tuple[str, ...], install: Callable[..., None]
) -> None:
    install(*packages)
    message = rf"backend: expected an installed kernel for {dtype} on {device}, got '{backend}'; 'auto'"
    with pytest.raises(ValueError, match=message):
        choose(backend, features(device, dtype), graph_with(1))  # type: ignore[arg-type]


def test_an_unknown_backend_is_refused_and_the_nearest_named(install: Callable[..., None]) -> None:
    install("triton")
    with pytest.raises(ValueError, match=r"backend: .*got 'tritn'; did you mean 'triton'\?"):
        choose("tritn", features("cuda", torch.float32), graph_with(1))  # type: ignore[arg-type]
