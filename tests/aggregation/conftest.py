"""The three backends, and the definition that they are tested against: node by node, in float64."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import dgn
from dgn.aggregation import Messages, aggregate, make_plan
from dgn.graph import Graph

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"  # Triton reads it when it is imported
SMALLEST_VARIANCE = 1e-5
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}
GAP = 0.04  # between any two eigenvalues that follow each other
WIDTH = 0.1  # of a group
PARTS = ("source", "target", "table", "node")


class Kernel(NamedTuple):
    """A backend, where it runs, and the largest degree it can serve in the time of a test."""

    backend: str
    device: str
    largest_degree: int

    @property
    def half_precision(self) -> bool:
        return self.backend != "cpu"


@pytest.fixture(params=["reference", "cpu", pytest.param("triton", marks=[] if INTERPRETING else [pytest.mark.gpu])])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """One of the backends; Triton on a CUDA device, or in its interpreter (see test_interpreter.py)."""
    if request.param == "triton":
        pytest.importorskip("triton", reason="Triton is not installed")
        if not INTERPRETING and not torch.cuda.is_available():
            pytest.skip("needs a CUDA device; test_interpreter.py runs it without one")
        return Kernel("triton", "cpu", 300) if INTERPRETING else Kernel("triton", "cuda", 100_000)
    if request.param == "cpu":
        pytest.importorskip("numba", reason="Numba is not installed")
    return Kernel(request.param, "cpu", 100_000)


class Case(NamedTuple):
    """One aggregation: aggregator names, a graph, a field in the order of its edges, and the parts of messages.

    ``row`` is in the order of ``edge_index`` here.
    """

    names: tuple[str, ...]
    graph: Graph
    field: Tensor
    parts: dict[str, Tensor]
    row: Tensor | None = None

    def leaves(self) -> list[Tensor]:
        """The tensors that require gradients."""
        return [tensor for tensor in (*self.parts.values(), self.field) if tensor.requires_grad]

    def to(self, dtype: torch.dtype, device: str = "cpu", weights: torch.dtype | None = None) -> "Case":
        """A copy with fresh leaves; ``weights`` is the dtype of the field where it differs."""

        def fresh(tensor: Tensor, dtype: torch.dtype) -> Tensor:
            return tensor.detach().to(device, dtype).requires_grad_(tensor.requires_grad)

        graph = Graph(self.graph.edge_index.to(device), self.graph.num_nodes)
        parts = {name: fresh(part, dtype) for name, part in self.parts.items()}
        row = None if self.row is None else self.row.to(device)
        return Case(self.names, graph, fresh(self.field, weights or dtype), parts, row)

    def run(self, backend: Any) -> Tensor:
        plan = make_plan(self.names)
        row = None if self.row is None else self.row[self.graph.by_target.order]
        messages = Messages(**self.parts, row=row)
        gap = self.field.detach().new_full((self.graph.num_nodes, self.field.size(1)), GAP)
        return aggregate(plan, messages, plan.compute_weights(self.field, self.graph, gap), self.graph, backend)


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Random features and a random field on a graph; ``parts`` are named, and ``rows`` is the number of edge types."""

    def make(
        names: Any,
        graph: tuple[Tensor, int],
        parts: Any = ("source",),
        channels: int = 3,
        rows: int | None = None,
        directions: int = 2,
        of_field: bool = False,
    ) -> Case:
        draw = torch.Generator().manual_seed(0)
        edge_index, num_nodes = graph
        num_edges = edge_index.size(1)
        sizes = {part: num_nodes for part in parts if part != "table"}
        if "table" in parts:
            sizes["table"] = num_edges if rows is None else rows
        tensors = {
            part: torch.randn(sizes[part], channels, generator=draw).double().requires_grad_()
            for part in PARTS
            if part in sizes
        }
        field = torch.randn(num_edges, directions, generator=draw).double().requires_grad_(of_field)
        row = None if rows is None else torch.randint(rows, (num_edges,), generator=draw)
        return Case(tuple(names), dgn.as_graph(edge_index, num_nodes), field, tensors, row)

    return make


@pytest.fixture(scope="session")
def naive() -> Callable[[Case], Tensor]:
    """The definition of every aggregator, [N, A, C]."""
    return define


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    """Equal up to the rounding of a dtype, relative to the largest value."""

    def close(got: Tensor, expected: Tensor, dtype: torch.dtype, what: str = "value") -> None:
        assert got.shape == expected.shape, f"{what}: expected {list(expected.shape)}, got {list(got.shape)}"
        if got.numel():
            worst = float((got.detach().double().cpu() - expected.detach()).abs().max())
            allowed = TOLERANCE[dtype] * max(1.0, float(expected.detach().abs().max()))
            assert worst <= allowed, f"{what}: off by {worst:.2e}, allowed are {allowed:.2e}"

    return close


@pytest.fixture(scope="session")
def assert_defined(assert_close: Callable[..., None]) -> Callable[..., None]:
    """A backend equals the definition, forward and backward."""

    def assert_equal(
        case: Case, kernel: Kernel, dtype: torch.dtype = torch.float64, weights: torch.dtype | None = None
    ) -> None:
        ours, exact = case.to(dtype, kernel.device, weights), case.to(dtype, weights=weights).to(torch.float64)
        got, expected = ours.run(kernel.backend), define(exact)
        assert got.dtype == dtype
        assert_close(got, expected, dtype)
        slope = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        got_grads = torch.autograd.grad(got, ours.leaves(), slope.to(kernel.device), materialize_grads=True)
        expected_grads = torch.autograd.grad(expected, exact.leaves(), slope.double(), materialize_grads=True)
        names = [name for name, part in (*case.parts.items(), ("field", case.field)) if part.requires_grad]
        for name, got_grad, expected_grad in zip(names, got_grads, expected_grads, strict=True):
            assert_close(got_grad, expected_grad, dtype, f"gradient of {name}")

    return assert_equal


def define(case: Case) -> Tensor:
    source, target = case.graph.edge_index
    parts, channels = case.parts, next(iter(case.parts.values())).size(1)
    nothing = case.field.new_zeros(len(case.names), channels)
    nodes = []
    for i in range(case.graph.num_nodes):
        edges = (target == i).nonzero()[:, 0]
        m = case.field.new_zeros(len(edges), channels)
        if "source" in parts:
            m = m + parts["source"][source[edges]]
        if "target" in parts:
            m = m + parts["target"][i]
        if "table" in parts:
            m = m + parts["table"][edges if case.row is None else case.row[edges]]
        self_message = (
            parts["node"][i] if "node" in parts else sum(parts[p][i] for p in ("source", "target") if p in parts)
        )
        total = case.field.abs().sum(dim=0)
        outputs = [_output(name, m, self_message, case.field[edges], total) for name in case.names]
        nodes.append(torch.stack(outputs) if len(edges) else nothing)
    return torch.stack([*nodes, nothing])[:-1] + 0 * sum(leaf.sum() for leaf in case.leaves())


def _output(name: str, m: Tensor, self_message: Any, field: Tensor, total: Tensor) -> Tensor:
    """One aggregator at one node: its messages [d, C], its self message [C], its rows of the field [d, K].

    ``total`` [K] is the norm of the field over the graph.
    """
    if name in ("max", "min"):
        signed = m if name == "max" else -m
        first = (signed == signed.amax(dim=0)).int().argmax(dim=0, keepdim=True) if len(m) else 0
        return m.gather(0, first)[0] if len(m) else m.sum(dim=0)
    variance = (m - m.mean(dim=0)).square().mean(dim=0)
    positive = variance > SMALLEST_VARIANCE
    isotropic = {
        "sum": m.sum(dim=0),
        "mean": m.mean(dim=0),
        "var": variance,
        "std": torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0),
    }
    if name in isotropic:
        return isotropic[name]
    family, *options = name.split("-")
    operator = family.rstrip("0123456789")
    if any(option.startswith("group") for option in options):
        along = _group(int(options[0][5:]), int(family[len(operator) :]) - 1, field)
        return (
            (along.T @ m - along.sum(dim=0)[:, None] * self_message).norm(dim=0)
            if operator == "dx"
            else along.norm(dim=1) @ m
        )
    column = int(family[len(operator) :]) - 1
    if "global" in options:
        weight = field[:, column] / total[column]
        weight, self_weight = (weight, -weight.sum()) if operator == "dx" else (weight.abs(), 0)
    else:
        weight, self_weight = _weights(operator, options, field[:, column])
    along = weight @ m + self_weight * self_message
    return along.abs() if operator == "dx" and "signed" not in options else along


def _group(size: int, centre: int, field: Tensor) -> Tensor:
    """Weights of the edges of one node along the first ``size`` directions, from its rows of the field."""
    ratio = 1 - GAP
    member = [
        max(0.0, 1 - (1 - ratio ** abs(k - centre)) / WIDTH) * min(1.0, (1 - ratio ** (size - k)) / WIDTH)
        for k in range(size)
    ]
    f = field[:, :size] * torch.tensor(member, dtype=field.dtype)
    return member[centre] * f / f.norm(dim=1).sum() if len(f) else f


def _weights(operator: str, options: list[str], f: Tensor) -> tuple[Tensor, Any]:
    """Weights of the edges of one node and of self_message, from its row of the field (section 2.4, appendix A)."""
    if not len(f):
        return f, 0
    f = {"fwd": f.clamp(min=0), "bwd": f.clamp(max=0)}.get(operator, f)
    if "split" in options:
        soft = [float(option[4:]) for option in options if option.startswith("soft")]
        f = _harden(f.clamp(min=0), *soft) - _harden(-f.clamp(max=0), *soft)
        options = []
    if "hard" in options:
        f = f.sign() * (f.abs() == f.abs().max())
    for temperature in [float(option[4:]) for option in options if option.startswith("soft")]:
        f = f.sign() * (temperature * f.abs()).softmax(dim=0)
    ahead, behind = _unit(f.clamp(min=0)), _unit(f.clamp(max=0))
    one_sided = not ahead.any() or not behind.any()
    if operator != "dx":
        both = ahead - behind
        return (both / 2 if "pad" in options else _unit(both) if "center" in options else _unit(f.abs())), 0
    if "pad" in options and one_sided:
        return ahead + behind, 0
    weight = (ahead + behind) / 2 if "pad" in options or "center" in options else _unit(f)
    return weight, -weight.sum()


def _harden(f: Tensor, temperature: float | None = None) -> Tensor:
    """The argmax or softmax over the entries above 0."""
    if not f.any():
        return f
    if temperature is None:
        return (f == f.max()).to(f)
    return torch.where(f > 0, temperature * f, -torch.inf).softmax(dim=0)


def _unit(f: Tensor) -> Tensor:
    total = f.abs().sum()
    return f / total if total > 0 else f
