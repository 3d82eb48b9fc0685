"""The public functions in any order: whatever one of them returns is finite, and the next one takes it."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from torch import Tensor

import dgn

SCALES = st.sampled_from([1.0, -1.0, 0.0, 1e-320, 1e-160, 1e160, 1e308])
SEEDS = st.integers(0, 2**32)


class PublicFunctions(RuleBasedStateMachine):
    """A graph, a potential and a field; a function that refuses its input leaves them as they are."""

    @initialize(nodes=st.integers(0, 7), edges=st.integers(0, 16), seed=SEEDS)
    def make_graph(self, nodes: int, edges: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        index = torch.randint(0, max(nodes, 1), (2, edges if nodes else 0), generator=generator)
        self.graph = dgn.as_graph(torch.cat([index, index.flip(0)], dim=1), nodes)
        self.potential = torch.randn(nodes, 2, dtype=torch.float64, generator=generator)
        self.field = torch.randn(self.graph.num_edges, 2, dtype=torch.float64, generator=generator)
        self.result = self.field

    def attempt(self, call: Callable[[], Tensor]) -> Tensor | None:
        try:
            self.result = call()
        except (ValueError, OverflowError) as error:
            assert ": expected" in str(error)  # noqa: PT017, either outcome is fine
            return None
        return self.result

    @rule(scale=SCALES)
    def scale(self, scale: float) -> None:
        if (self.field * scale).isfinite().all() and (self.potential * scale).isfinite().all():
            self.field, self.potential = self.field * scale, self.potential * scale

    @rule(k=st.integers(1, 2), normalization=st.sampled_from([None, "rw", "sym"]))
    def directions(self, k: int, normalization: Any) -> None:
        potential = self.attempt(lambda: dgn.directions(self.graph, k=k, normalization=normalization).potential)
        self.potential = self.potential if potential is None or potential.size(1) < 2 else potential

    @rule()
    def gradient(self) -> None:
        field = self.attempt(lambda: dgn.gradient(self.potential, self.graph))
        self.field = self.field if field is None else field

    @rule(name=st.sampled_from(["harden", "normalize", "distort", "reflect", "forward_field"]), seed=SEEDS)
    def shape(self, name: str, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        calls = {
            "harden": lambda: dgn.harden(self.field, self.graph),
            "normalize": lambda: dgn.normalize(self.field, self.graph),
            "distort": lambda: dgn.distort(self.field, self.graph, 0.3, generator=generator),
        }
        field = self.attempt(calls.get(name, lambda: getattr(dgn, name)(self.field)))
        self.field = self.field if field is None else field

    @rule(operator=st.sampled_from([dgn.smoothing, dgn.derivative]))
    def operate(self, operator: Callable[..., dgn.Operator]) -> None:
        potential = self.attempt(lambda: operator(self.field, self.graph)(self.potential[:, 0]))
        self.potential = self.potential if potential is None else potential

    @rule(name=st.sampled_from(["divergence", "row_norm", "edge_product", "inner_product"]))
    def measure(self, name: str) -> None:
        calls = {
            "divergence": lambda: dgn.divergence(self.field, self.graph),
            "row_norm": lambda: dgn.row_norm(self.field, self.graph, p=2),
            "edge_product": lambda: dgn.edge_product(self.field, self.field),
            "inner_product": lambda: dgn.inner_product(self.field, self.field, self.graph),
        }
        self.attempt(calls[name])

    @rule(name=st.sampled_from(["orientation", "phase", "hodge"]), q=st.sampled_from([0.0, 0.1, 0.25]))
    def direct(self, name: str, q: float) -> None:
        weight = self.field[:, 0].abs()

        def phase() -> Tensor:
            directions = dgn.magnetic_directions(self.graph, k=2, q=q, edge_weight=weight)
            return dgn.phase_difference(directions.potential, self.graph, directions.component)

        calls = {
            "orientation": lambda: dgn.orientation(self.graph, flow=self.field).field,
            "phase": phase,
            "hodge": lambda: dgn.hodge_decomposition(self.field, self.graph).circulation,
        }
        field = self.attempt(calls[name])
        if field is not None and name != "orientation":  # which has other edges
            self.field = field

    @rule(time=st.sampled_from([0.0, 1.0, 1e6]))
    def diffuse(self, time: float) -> None:
        weight = self.field[:, 0].abs() if len(self.field) else None
        self.attempt(lambda: dgn.heat_kernel(self.graph, time=time, edge_weight=weight))

    @invariant()
    def everything_is_finite(self) -> None:
        if hasattr(self, "graph"):
            assert self.result.isfinite().all()
            assert self.field.isfinite().all()
            assert self.potential.isfinite().all()


TestPublicFunctions = PublicFunctions.TestCase
TestPublicFunctions.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
