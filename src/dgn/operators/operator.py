"""A linear operator on node signals, as edge and self weights."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn.fields.calculus import scale_rows, stack_columns
from dgn.graph import Graph
from dgn.graph.checks import check_result, check_rows


@dataclass(frozen=True, eq=False)
class Operator:
    r"""K operators at once, each a pair of edge weights and self weights.

    .. math:: y_i = \sum_j w_{ij} x_j + w_i x_i

    Every aggregation matrix of the paper has this form. Call it on a signal, or get one matrix with :meth:`dense`.

    Shapes:
        ``edge_weight`` [E, K], ``self_weight`` [N, K].

    >>> from dgn.graph import as_graph
    >>> swap = Operator(as_graph(torch.tensor([[0, 1], [1, 0]])), torch.ones(2, 1), torch.zeros(2, 1))
    >>> swap(torch.tensor([[5.0], [7.0]])).tolist()
    [[[7.0]], [[5.0]]]
    """

    graph: Graph
    edge_weight: Tensor
    self_weight: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Apply all K operators to a signal: ``[N, C] -> [N, K, C]``, or ``[N] -> [N, K]``."""
        check_rows("x", x, self.graph.num_nodes, "node")
        messages = x[self.graph.source]
        columns = [
            self.graph.sum_to_target(scale_rows(messages, edge)) + scale_rows(x, node)
            for edge, node in zip(self.edge_weight.unbind(1), self.self_weight.unbind(1), strict=True)
        ]
        return check_result("operator", stack_columns(columns, x))

    def __len__(self) -> int:
        return self.edge_weight.size(1)

    def dense(self, k: int = 1) -> Tensor:
        """The matrix of direction k, counted from 1 as in ``dx1``. [N, N]"""
        if not 1 <= k <= len(self):
            raise ValueError(f"k: expected a direction from 1 to {len(self)}, got {k}; direction 1 is column 0")
        n = self.graph.num_nodes
        matrix = torch.diag(self.self_weight[:, k - 1])
        entry = self.graph.target * n + self.graph.source
        return matrix.view(-1).index_add(0, entry, self.edge_weight[:, k - 1]).view(n, n)
