"""Small graphs on which definitions are checked one by one, in both precisions."""

import pytest
import torch

from dgn.testing import complete, edge_cases, grid, star

GRAPHS = {"grid": grid(3, 4), "complete": complete(4), "star": star(4), **edge_cases()}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
