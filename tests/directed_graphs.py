"""Random directed multigraphs, for laws that hold on all of them."""

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor


@st.composite
def directed_graphs(draw: Callable) -> tuple[Tensor, int]:
    """Up to seven nodes; isolated ones, self-loops, parallel and antiparallel edges among them."""
    n = draw(st.integers(0, 7))
    node = st.integers(0, max(n - 1, 0))
    edges = draw(st.lists(st.tuples(node, node), max_size=14)) if n else []
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n
