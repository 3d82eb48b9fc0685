"""Directions of a road network, a mesh, a scanned surface and a dictionary, checked without any of our own code."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

import dgn

DATA = Path(__file__).parents[3] / "shared" / "data" / "graphs"
K = 6
# nodes, components, nodes of the largest
GRAPHS = {
    "minnesota": (2642, 2, 2640),
    "airfoil": (4253, 1, 4253),
    "bunny_points": (2503, 1, 2503),
    "wordnet31_synsets_words": (265269, 417, 263864),
}


def stored(name: str) -> tuple[np.ndarray, int]:
    file = DATA / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"{file} is not at hand; it is not part of the repository")
    with np.load(file) as arrays:
        if "edge_index" in arrays:
            return arrays["edge_index"].astype(np.int64), int(arrays["num_nodes"])
        points = arrays["xyz"]
    near = KDTree(points).query(points, 9)[1]  # itself and the 8 nearest
    return np.stack([np.repeat(near[:, 0], 8), near[:, 1:].ravel()]).astype(np.int64), len(points)


def independent_laplacian(edges: np.ndarray, n: int) -> csr_array:
    matrix = csr_array(coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n)))
    matrix = csr_array(((matrix + matrix.T) > 0).astype(float))
    matrix.setdiag(0)
    return csr_array(diags_array(matrix.sum(axis=1)) - matrix)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_directions_of_real_graphs_are_accurate(name: str) -> None:
    edges, n = stored(name)
    d = dgn.directions(torch.from_numpy(edges), n, k=K)
    laplacian = independent_laplacian(edges, n)
    count, label = connected_components(laplacian, directed=False)
    assert (n, count, int(np.bincount(label).max())) == GRAPHS[name]
    component, potential = d.component.numpy(), d.potential.numpy()
    assert len(np.unique(label * n + component)) == count  # the same partition
    big = int(np.bincount(component).argmax())
    inside = component == big
    vectors, values = potential[inside], d.eigenvalues[big].numpy()
    block = laplacian[inside, :][:, inside]
    residual = np.linalg.norm(block @ vectors - vectors * values, axis=0)
    assert (residual <= np.minimum(2e-8 * block.diagonal().max(), 1e-3 * values)).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(K), atol=1e-10)
    np.testing.assert_allclose(vectors.sum(axis=0) / np.sqrt(len(vectors)), 0, atol=1e-9)
    assert (np.diff(values) >= 0).all()
    if len(vectors) < 3000:
        expected = np.linalg.eigvalsh(block.toarray())[1 : K + 1]
        np.testing.assert_allclose(values, expected, rtol=1e-8)
    # The vectors are zero where their component has fewer, and every small component is solved as well.
    residuals = laplacian @ potential - potential * np.nan_to_num(d.eigenvalues.numpy())[component]
    assert np.abs(residuals[~inside]).max(initial=0) < 1e-12
