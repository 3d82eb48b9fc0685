"""Directions that a network makes itself: potentials computed from the features of nodes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgn.aggregation import Plan, Weights
from dgn.aggregation.split import split_plan
from dgn.graph import Graph
from dgn.nn.fused.edge_gather import to_edges
from dgn.nn.linear import Linear

NOISE = 1e-4  # of the largest component in a graph: below, inputs differ by rounding
ROUNDING = 8  # units of rounding of the terms that a component is the sum of


class LearnedDirections(nn.Module):
    r"""Learned potentials, whose gradients are fields like any other.

    .. math:: \phi = W h, \qquad F_{ij} = \phi_j - \phi_i

    Not in the paper. ``h`` are the embedded inputs of nodes, structural numbers included; there is no bias, for a
    gradient does not see it. From F come the weights of B_av and B_dx as from a given field, with gradients all the way
    back to W and h. Of the directions that the plan names, the last ``count`` are learned; the others are given.

    Weights do not depend on the scale of F, so that a small difference counts as much as a large one, and its gradient
    is the larger the smaller it is. Components that may be rounding alone are 0, as between two atoms that mirror each
    other: up to 1e-4 of the largest in their graph, and, for graphs whose nodes are all alike, up to
    :math:`8 \epsilon \sum_c |W_c| (|h_{jc}| + |h_{ic}|)`, c the channels and :math:`\epsilon` the machine epsilon of
    the potential's type. That is the type of W, under autocast too.

    Laws: the scale of a potential does not matter; between neighbours with equal inputs the field is 0; relabelling
    nodes relabels the field, and no sign is arbitrary, so that ``dx2-signed`` means something.

    Shapes:
        ``h`` [N, channels]; ``weights`` those of the given directions; returns the weights of the whole plan.

    >>> import dgn, torch
    >>> from dgn.aggregation import make_plan
    >>> learned = LearnedDirections(make_plan(["mean", "dx1", "dx2"]), 8, 1)
    >>> path = dgn.as_graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> given = learned.given.compute_weights(torch.ones(4, 1), path)
    >>> [list(part.shape) for part in (*given, *learned(torch.randn(3, 8), path, given))]
    [[4, 1], [3, 1], [4, 2], [3, 2]]
    """

    def __init__(self, plan: Plan, channels: int, count: int) -> None:
        super().__init__()
        self.split = split_plan(plan, count)
        self.map = Linear(channels, count, bias=False)

    @property
    def given(self) -> Plan:
        """The plan whose weights a given field has to provide."""
        return self.split.given

    def reset_parameters(self) -> None:
        self.map.reset_parameters()

    def forward(self, h: Tensor, graph: Graph, weights: Weights) -> Weights:
        with torch.autocast(h.device.type, enabled=False):  # differences of half-precision numbers are mostly rounding
            field = self._field(h.to(self.map.weight.dtype), graph)
        return self.split.join(weights, self.split.learned.compute_weights(field, graph))

    def _field(self, h: Tensor, graph: Graph) -> Tensor:
        """The gradients of the potentials, 0 where they may be rounding."""
        potential = self.map(h)
        field = to_edges(potential, -potential, graph)
        size = field.detach().abs()
        with torch.no_grad():
            terms = functional.linear(h.abs(), self.map.weight.abs())
            rounding = ROUNDING * torch.finfo(potential.dtype).eps * to_edges(terms, terms, graph)
        noise = torch.maximum(NOISE * graph.max_over_graph(size), rounding)
        return torch.where(size <= noise, 0.0, field)
