"""Every public function refuses fields that are no finite real numbers, and results that are none."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import dgn

TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
NODES, EDGES = 3, 6
Call = Callable[[Tensor], object]


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


ONES, GAP = torch.ones(EDGES, 2, dtype=torch.float64), torch.full((NODES, 2), 0.5)
OF_FIELDS: dict[str, Call] = {
    "backward_field": dgn.backward_field,
    "derivative": lambda field: dgn.derivative(field, TRIANGLE).edge_weight,
    "directional_derivative": lambda field: dgn.directional_derivative(torch.rand(NODES).double(), field, TRIANGLE),
    "distort": lambda field: dgn.distort(field, TRIANGLE, 0.1, generator=random()),
    "divergence": lambda field: dgn.divergence(field, TRIANGLE),
    "edge_product": lambda field: dgn.edge_product(field, ONES.to(field.dtype) if field.is_floating_point() else ONES),
    "forward_field": dgn.forward_field,
    "group_derivative": lambda field: dgn.group_derivative(field, GAP, TRIANGLE).edge_weight,
    "group_smoothing": lambda field: dgn.group_smoothing(field, GAP, TRIANGLE).edge_weight,
    "harden": lambda field: dgn.harden(field, TRIANGLE),
    "inner_product": lambda field: dgn.inner_product(field, field, TRIANGLE),
    "normalize": lambda field: dgn.normalize(field, TRIANGLE),
    "reflect": dgn.reflect,
    "rotate": lambda field: dgn.rotate(field, field.flip(0), 0.3, TRIANGLE)[0],
    "row_norm": lambda field: dgn.row_norm(field, TRIANGLE, p=2),
    "smoothing": lambda field: dgn.smoothing(field, TRIANGLE).edge_weight,
    "walks": lambda field: dgn.walks(field, TRIANGLE)(torch.ones(NODES).to(field.dtype)),
}
OF_NODES: dict[str, Call] = {
    "arcsine": dgn.arcsine,
    "distort_potential": lambda potential: dgn.distort_potential(potential, 0.1, generator=random()),
    "gradient": lambda potential: dgn.gradient(potential, TRIANGLE),
    "gradient_step": lambda potential: dgn.gradient_step(potential, TRIANGLE),
    "node_product": lambda potential: dgn.node_product(potential, potential),
    "operator": lambda x: dgn.derivative(ONES, TRIANGLE)(x),
}
OF_WEIGHTS: dict[str, Call] = {
    "diffusion_distance": lambda weight: dgn.diffusion_distance(TRIANGLE, NODES, measure="degree", edge_weight=weight),
    "directions": lambda weight: dgn.directions(TRIANGLE, NODES, k=1, edge_weight=weight).eigenvalues,
    "heat_kernel": lambda weight: dgn.heat_kernel(TRIANGLE, NODES, edge_weight=weight),
    "laplacian": lambda weight: dgn.laplacian(TRIANGLE, NODES, edge_weight=weight).to_dense(),
    "laplacian rw": lambda weight: dgn.laplacian(TRIANGLE, NODES, "rw", edge_weight=weight).to_dense(),
    "solve_laplacian": lambda weight: dgn.solve_laplacian(
        TRIANGLE, torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), edge_weight=weight
    ),
}
SHAPES = {"fields": (EDGES, 2), "nodes": (NODES, 2), "weights": (EDGES,)}
ALL = [
    pytest.param(call, SHAPES[kind], id=name)
    for kind, calls in (("fields", OF_FIELDS), ("nodes", OF_NODES), ("weights", OF_WEIGHTS))
    for name, call in calls.items()
]


def with_first(values: Tensor, first: float) -> Tensor:
    return values.reshape(-1).index_fill(0, torch.tensor([0]), first).reshape(values.shape)


@pytest.mark.parametrize(("call", "shape"), ALL)
def test_complex_boolean_and_infinite_numbers_are_refused(call: Call, shape: tuple[int, ...]) -> None:
    values = torch.rand(shape, dtype=torch.float64, generator=random()) + 0.1
    call(values)
    for wrong in (values.cfloat(), values > 0.5, with_first(values, torch.nan), with_first(values, torch.inf)):
        with pytest.raises((TypeError, ValueError), match=r"^\w+: expected .*, got .*; "):
            call(wrong)


@pytest.mark.parametrize("size", [1e308, 1e160, 1e-160, 1e-308, 1e-320])
@pytest.mark.parametrize(("call", "shape"), ALL)
def test_finite_numbers_give_finite_results_or_an_error(call: Call, shape: tuple[int, ...], size: float) -> None:
    mixed = torch.rand(shape, dtype=torch.float64, generator=random()) + 0.1
    alternating = torch.ones(shape, dtype=torch.float64).reshape(-1)
    alternating[::3] = -1 if len(shape) > 1 else 1  # weights have no sign
    for values in (mixed * size, torch.full(shape, size, dtype=torch.float64), alternating.reshape(shape) * size):
        try:
            result = call(values)
        except (OverflowError, ValueError) as error:
            assert ": expected" in str(error)  # noqa: PT017, either outcome is fine
        else:
            assert isinstance(result, Tensor)
            assert result.isfinite().all()


def test_a_heat_kernel_does_not_depend_on_the_scale_of_the_weights() -> None:
    weight = torch.rand(EDGES, dtype=torch.float64, generator=random()) + 0.5
    expected = dgn.heat_kernel(TRIANGLE, NODES, edge_weight=weight)
    for scale in (2.0**1022, 2.0**-1020):
        torch.testing.assert_close(dgn.heat_kernel(TRIANGLE, NODES, edge_weight=weight * scale), expected)


def test_gaps_outside_their_range_are_refused() -> None:
    for wrong in (GAP * 4, -GAP, GAP.cfloat(), GAP > 0):
        with pytest.raises(ValueError, match=r"gap: expected relative gaps from 0 to 1"):
            dgn.group_smoothing(ONES, wrong, TRIANGLE)
