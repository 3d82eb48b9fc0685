"""scikit-learn's bundled handwritten digits as grid graphs."""

import numpy as np
import torch
from torch import Tensor

from dgn.data.datasets.coordinates import add_coordinates
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_package

SHARES = (0.7, 0.1)  # training and validation; the rest is the test split


def grid_edges(side: int) -> tuple[Tensor, Tensor]:
    """Coordinates (row, column) of a square grid of pixels, and edges between neighbours in both directions.

    Shapes:
        [side^2, 2] float32, [2, 4 side (side - 1)] int64.

    >>> grid_edges(2)[1].tolist()
    [[0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 0, 3, 0, 3, 1, 2]]
    """
    position = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()
    return position, (torch.cdist(position, position, p=1) == 1).nonzero().T.contiguous()


def load_digits(seed: int = 0) -> PackedGraphs:
    """All 1797 digits as 8 x 8 grid graphs.

    The only node feature is the intensity in 0..1. The potentials are the row and the column of a pixel, from -1 to 1;
    a network reads them as inputs with ``num_eigenvector_features=2``. ``seed`` determines the random split of 70, 10
    and 20 percent.

    Shapes:
        ``nodes["x"]`` [64 G, 1] float32, ``nodes["node_potential"]`` [64 G, 2], ``edges["edge_field"]`` [224 G, 2],
        ``graphs["y"]`` and ``graphs["split"]`` [G] uint8.

    >>> load_digits().graphs["split"].bincount().tolist()
    [1257, 179, 361]
    """
    check_package("digits", "sklearn")
    from sklearn.datasets import load_digits as load_images

    digits = load_images()
    count = len(digits.images)
    position, edge_index = grid_edges(digits.images.shape[1])
    graphs = PackedGraphs(
        torch.arange(count + 1) * len(position),
        torch.arange(count + 1) * edge_index.size(1),
        edge_index.to(torch.uint8).repeat(1, count),
        nodes={"x": torch.from_numpy(digits.images).float().reshape(-1, 1) / 16},
        graphs={"y": torch.from_numpy(digits.target).to(torch.uint8), "split": _split(count, seed)},
    )
    return add_coordinates(graphs, (2 * position / position.max() - 1).repeat(count, 1))


def _split(count: int, seed: int) -> Tensor:
    train, validation = (int(share * count) for share in SHARES)
    split = np.repeat(np.arange(3, dtype=np.uint8), [train, validation, count - train - validation])
    return torch.from_numpy(np.random.default_rng(seed).permutation(split))
