"""Several small networks in the place of a large one."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from dgn.aggregation import Plan
from dgn.nn.network import DGN


class Ensemble(nn.Module):
    r"""Networks of one shape side by side: each is trained for itself, and what they say is averaged.

    Not in the paper. Where a network learns its training graphs by heart, several small ones, of as many parameters
    together, err in different ways, and their mean :math:`\frac1B \sum_b f_b(x)` errs less than a large one.

    In training they answer one after the other, a row for each branch and graph, so that a mean of losses over the rows
    is the mean over branches. Gradients are multiplied by their number: every branch takes the steps that it would
    take alone.

    Shapes:
        As of :class:`DGN`; in training [B R, targets] in the place of [R, targets].

    >>> branches = Ensemble([DGN(3, NetworkSettings(hidden=8, aggregators=["mean"], num_layers=1)) for _ in range(2)])
    >>> x, edge_index = torch.randn(2, 3), torch.tensor([[0, 1], [1, 0]])
    >>> branches(x, edge_index).shape, branches.eval()(x, edge_index).shape
    (torch.Size([2, 1]), torch.Size([1, 1]))
    """

    def __init__(self, networks: Sequence[DGN]) -> None:
        super().__init__()
        if not networks:
            raise ValueError("networks: expected at least one, got none; give a list of DGN")
        self.networks = nn.ModuleList(networks)

    def reset_parameters(self) -> None:
        for network in self.each:
            network.reset_parameters()

    @property
    def plan(self) -> Plan:
        """What the branches aggregate along given directions."""
        plan: Plan = self.each[0].plan
        return plan

    @property
    def delta(self) -> float | None:
        """What the scalers of all branches divide by."""
        return self.each[0].delta

    def forward(self, *given: Any, **named: Any) -> Tensor:
        said = torch.stack([network(*given, **named) for network in self.networks])
        if not self.training:
            return said.mean(dim=0)
        said = said + (len(said) - 1) * (said - said.detach())  # the same numbers, with gradients as large as alone
        return said.flatten(0, 1)

    @property
    def each(self) -> list[DGN]:
        """The networks."""
        return cast("list[DGN]", list(self.networks))
