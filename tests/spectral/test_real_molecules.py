"""Directions of every molecule of two benchmarks against numpy, component by component."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import dgn

DATA = Path(__file__).parents[3] / "shared" / "data"
K = 4
MOLECULES = {"zinc12k": (12_000, 0, 3), "molhiv": (41_127, 3_087, 839)}


@dataclass(frozen=True)
class Molecules:
    """All molecules of a benchmark as one graph, and their directions."""

    name: str
    edges: np.ndarray
    molecule: np.ndarray  # of each node
    directions: dgn.Directions


@pytest.fixture(scope="module", params=MOLECULES)
def molecules(request: pytest.FixtureRequest) -> Molecules:
    file = DATA / request.param / f"{request.param}.npz"
    if not file.exists():
        pytest.skip(f"{file} is not at hand; it is not part of the repository")
    with np.load(file) as arrays:
        first_node, first_edge = arrays["node_ptr"].astype(np.int64), arrays["edge_ptr"].astype(np.int64)
        edges = arrays["edge_index"] + np.repeat(first_node[:-1], np.diff(first_edge))
    molecule = np.repeat(np.arange(len(first_node) - 1), np.diff(first_node))
    result = dgn.directions(torch.from_numpy(edges), int(first_node[-1]), k=K)
    return Molecules(request.param, edges, molecule, result)


@pytest.mark.slow
def test_eigenvalues_and_eigenspaces_equal_those_of_numpy(molecules: Molecules) -> None:
    d = molecules.directions
    values, vectors, component = d.eigenvalues.numpy(), d.potential.numpy(), d.component.numpy()
    n_nodes = len(component)
    bonds = coo_array((np.ones(molecules.edges.shape[1]), tuple(molecules.edges)), shape=(n_nodes, n_nodes))
    count, label = connected_components(bonds, directed=False)
    assert count == component.max() + 1 == len(np.unique(label * n_nodes + component))  # the same partition
    nodes_of = np.split(np.argsort(component, kind="stable"), np.bincount(component).cumsum()[:-1])
    rows = bonds.tocsr()
    # A fifth of them; benchmarks/eigenvectors/molecule_spectra.py compares all.
    for index, nodes in islice(enumerate(nodes_of), None, None, 5):
        n = len(nodes)
        m = min(K, n - 1)
        assert np.isnan(values[index, m:]).all()
        assert not vectors[nodes, m:].any()
        if n == 1:
            continue
        adjacency = np.zeros((n, n))
        place = dict(zip(nodes.tolist(), range(n), strict=True))
        for i, node in enumerate(nodes.tolist()):
            for other in rows.indices[rows.indptr[node] : rows.indptr[node + 1]].tolist():
                adjacency[i, place[other]] = 1.0
        expected, basis = np.linalg.eigh(np.diag(adjacency.sum(axis=1)) - adjacency)
        assert np.abs(values[index, :m] - expected[1 : m + 1]).max() < 1e-10
        ours = vectors[nodes, :m]
        assert np.abs(ours.T @ ours - np.eye(m)).max() < 1e-10
        # The projector on the eigenspace of numpy leaves each of our vectors where it is; with orthonormal columns
        # and equal eigenvalues that makes the projectors equal, and direction 1 a vector of lambda_1.
        same = np.abs(expected[:, None] - values[index, :m]) <= 1e-8 * values[index, :m]
        assert np.abs(basis @ (same * (basis.T @ ours)) - ours).max() < 1e-6


@pytest.mark.slow
def test_numbers_of_disconnected_molecules_and_repeated_first_eigenvalues(molecules: Molecules) -> None:
    total, disconnected, repeated = MOLECULES[molecules.name]
    assert molecules.molecule[-1] + 1 == total
    d = molecules.directions
    of_component = np.zeros(len(d.eigenvalues), dtype=np.int64)
    of_component[d.component.numpy()] = molecules.molecule
    assert (np.bincount(of_component) > 1).sum() == disconnected
    assert int(d.repeated()[:, 0].sum()) == repeated
    gap = d.gap[~d.gap.isnan()]
    assert not ((gap > 1e-12) & (gap < 1e-7)).any()  # an empty band: 1e-8 decides what is repeated
