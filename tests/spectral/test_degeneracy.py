"""Repeated eigenvalues are reported by the gap, and their eigenspaces can be resampled."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import dgn
from dgn import Graph
from dgn.spectral.degeneracy import eigenspaces, random_rotations, relative_gap, repeated
from dgn.testing import assert_same_eigenspace

NAN = float("nan")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize("graph", ["connected 12 1", "cycle 9", "grid 3 4"], indirect=True)
def test_gap_is_one_minus_the_ratio_to_the_next_eigenvalue(graph: Graph, normalization: str | None) -> None:
    matrix = dgn.laplacian(graph, normalization="sym" if normalization else None).to_dense()
    values = torch.linalg.eigvalsh(matrix)[1:7]
    gap = dgn.directions(graph, k=5, normalization=normalization).gap[0]
    torch.testing.assert_close(gap, (values[1:] - values[:-1]) / values[1:], atol=1e-12, rtol=0)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_last_vector_of_a_component_has_gap_one_and_none_has_nan(build: Callable[[str], Graph], k: int) -> None:
    # Eigenvalues 1 and 3; none; 2.
    gap = dgn.directions(build("path 3 + nodes 1 + path 2"), k=k).gap
    expected = torch.full((3, 5), NAN, dtype=torch.float64)
    expected[0, :2] = torch.tensor([2 / 3, 1.0])
    expected[2, 0] = 1.0
    torch.testing.assert_close(gap, expected[:, :k], equal_nan=True)


def test_rounding_does_not_make_a_gap_negative() -> None:
    values = np.array([[1.0 + 1e-15, 1.0, 2.0, np.nan]])
    gap = relative_gap(values, np.array([4]))
    assert gap.tolist() == [[0.0, 0.5, 1.0]]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("cycle 7", [True, True, True, True]),
        ("complete 5", [True, True, True, True]),
        ("star 4", [True, True, True, False]),
        ("path 5", [False, False, False, False]),
        ("hypercube 3", [True, True, True, True]),
        ("grid 3 3", [True, True, False, True]),
        ("path 3", [False, False, False, False]),
    ],
    indirect=["graph"],
)
def test_repeated_eigenvalues_of_named_graphs(graph: Graph, expected: list[bool]) -> None:
    assert dgn.directions(graph, k=4).repeated()[0].tolist() == expected


def test_an_eigenvalue_that_repeats_beyond_the_last_column_is_repeated(build: Callable[[str], Graph]) -> None:
    assert dgn.directions(build("cycle 7"), k=1).repeated().tolist() == [[True]]


def test_tolerance_decides_what_is_equal(build: Callable[[str], Graph]) -> None:
    weight = torch.ones(14, dtype=torch.float64)
    weight[0] = weight[7] = 1 + 1e-5  # both directions of one edge of a cycle
    d = dgn.directions(build("cycle 7"), edge_weight=weight, k=2)
    assert d.repeated().tolist() == [[False, False]]
    assert d.repeated(tolerance=1e-4).tolist() == [[True, True]]
    assert 1e-7 < d.gap[0, 0] < 1e-5


def test_eigenspaces_are_runs_of_small_gaps() -> None:
    gap = torch.tensor([[0.0, 0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 1.0, NAN, NAN]])
    assert eigenspaces(gap).tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 2, 3]]
    assert repeated(gap).tolist() == [[True] * 5, [False, True, True, False, False]]


def test_rotations_are_orthogonal_and_keep_eigenspaces_apart() -> None:
    gap = torch.tensor([[0.5, 0.0, 0.3, NAN], [0.0, 0.0, 0.0, 1.0], [1.0, NAN, NAN, NAN]], dtype=torch.float64)
    rotation = random_rotations(gap, seeded(0))
    identity = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(rotation.mT @ rotation, identity.expand(3, 4, 4))
    space = eigenspaces(gap)
    apart = space[:, :, None] != space[:, None, :]
    assert not rotation[apart].any()
    assert torch.equal(rotation[2], identity)
    assert rotation[0].diagonal()[[0, 3]].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("k", [2, 3])
def test_rotations_are_uniform(k: int) -> None:
    """Haar measure: E r = 0, E r^2 = 1/k, E r^4 = 3/(k(k+2)) for each entry, and half of all are reflections."""
    count = 20_000
    gap = torch.zeros(count, k, dtype=torch.float64)
    gap[:, -1] = 1.0
    rotation = random_rotations(gap, seeded(0))
    close = 5 / count**0.5
    assert (rotation.mean(dim=0).abs() < close).all()
    assert ((rotation**2).mean(dim=0) - 1 / k).abs().max() < close
    assert ((rotation**4).mean(dim=0) - 3 / (k * (k + 2))).abs().max() < close
    assert abs(torch.linalg.det(rotation).mean()) < close


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize(
    ("graph", "spaces"),
    [("cycle 9", [(0, 2), (2, 4)]), ("complete 5", [(0, 4)]), ("hypercube 3", [(0, 3), (3, 6)]), ("star 4", [(0, 3)])],
    indirect=["graph"],
)
def test_resampling_gives_another_orthonormal_basis_of_the_same_eigenspace(
    graph: Graph, spaces: list[tuple[int, int]], normalization: str | None
) -> None:
    d = dgn.directions(graph, k=spaces[-1][1], normalization=normalization)
    other = d.resample(seeded(3))
    for first, last in spaces:
        ours, theirs = other.potential[:, first:last], d.potential[:, first:last]
        assert_same_eigenspace(ours, theirs)
        torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T)  # orthonormal in the same inner product
        assert (ours - theirs).abs().amax(dim=0).min() > 1e-3
    for field in ("eigenvalues", "gap", "component"):
        assert getattr(other, field) is getattr(d, field)
    assert not other.sign_is_canonical.any()


def test_resampling_leaves_simple_vectors_and_other_components_alone(build: Callable[[str], Graph]) -> None:
    d = dgn.directions(build("connected 12 1 + cycle 5 + nodes 1 + grid 3 3"), k=3)
    other = d.resample(seeded(0))
    touched = d.repeated()[d.component]
    assert touched.any()
    assert torch.equal(other.potential[~touched], d.potential[~touched])
    assert not torch.isclose(other.potential[touched], d.potential[touched]).all()
    assert torch.equal(other.sign_is_canonical, d.sign_is_canonical & ~d.repeated())


def test_resampling_is_reproducible_from_its_generator(build: Callable[[str], Graph]) -> None:
    d = dgn.directions(build("cycle 8"), k=2)
    first, again, other = (d.resample(seeded(seed)).potential for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    generator = seeded(1)
    assert torch.equal(d.resample(generator).potential, first)
    assert not torch.allclose(d.resample(generator).potential, first)


def test_equal_components_are_resampled_independently(build: Callable[[str], Graph]) -> None:
    d = dgn.directions(build("cycle 6 + cycle 6"), k=2)
    assert torch.equal(d.potential[:6], d.potential[6:])
    mixed = d.resample(seeded(0)).potential
    assert not torch.allclose(mixed[:6], mixed[6:])


def test_nothing_to_resample_without_nodes(build: Callable[[str], Graph]) -> None:
    assert dgn.directions(build("nodes 0")).resample(seeded(0)).potential.shape == (0, 2)


@pytest.mark.parametrize("copies", [1, 200])  # several are solved by the direct solver
@pytest.mark.parametrize("coupling", [1e-3, 1e-6, 1e-10])
def test_eigenvalues_that_differ_by_rounding_are_repeated(coupling: float, copies: int) -> None:
    leaves, stars = 20, range(3)
    size = 3 * (leaves + 1)
    edges = [(s * (leaves + 1), s * (leaves + 1) + 1 + leaf) for s in stars for leaf in range(leaves)]
    edges += [(0, leaves + 1), (leaves + 1, 2 * leaves + 2), (2 * leaves + 2, 0)]  # centres in a weak triangle
    weight = torch.tensor([1.0] * (3 * leaves) + [coupling] * 3, dtype=torch.float64)
    for seed in range(5):
        edge_index = torch.randperm(size, generator=seeded(seed))[torch.tensor(edges).T]
        batched = torch.cat([edge_index + size * copy for copy in range(copies)], dim=1)
        assert dgn.directions(batched, size * copies, 2, edge_weight=weight.repeat(copies)).repeated().all()


def test_k_may_be_a_numpy_integer_but_not_a_bool() -> None:
    path = torch.tensor([[0, 1], [1, 2]])
    assert dgn.directions(path, 3, np.int64(2)).potential.shape == (3, 2)
    with pytest.raises(ValueError, match="k: expected the number of directions, 1 or more, got True"):
        dgn.directions(path, 3, True)
