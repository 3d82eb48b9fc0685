"""Several small networks in the place of a large one."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from dgn.aggregation import Plan
from dgn.nn.network import DGN


class Ensemble(nn.Module):
    r"""Networks of one shape, trained side by side with independent losses; their mean is the prediction.

    Not in the paper. Where a network overfits its training graphs, several small ones, of as many parameters
    together, err in different ways, and their mean :math:`\frac1B \sum_b f_b(x)` errs less than a large one.

    In training their predictions are concatenated, a row for each member and graph, so that a mean of losses over
    the rows is the mean over members. Gradients are multiplied by their number: every member takes the steps that it
    would take alone.

    Shapes:
        As of :class:`DGN`; in training [B R, out_channels] in the place of [R, out_channels].

    >>> from dgn.nn import NetworkSettings
    >>> settings = NetworkSettings(hidden=8, aggregators=["mean"], num_layers=1)
    >>> ensemble = Ensemble([DGN(3, settings) for _ in range(2)])
    >>> x, edge_index = torch.randn(2, 3), torch.tensor([[0, 1], [1, 0]])
    >>> ensemble(x, edge_index).shape, ensemble.eval()(x, edge_index).shape
    (torch.Size([2, 1]), torch.Size([1, 1]))
    """

    def __init__(self, networks: Sequence[DGN]) -> None:
        super().__init__()
        if not networks:
            raise ValueError("networks: expected at least one, got none; give a list of DGN")
        self.networks = nn.ModuleList(networks)

    def reset_parameters(self) -> None:
        for network in self.members:
            network.reset_parameters()

    @property
    def plan(self) -> Plan:
        """The aggregation plan of the members."""
        plan: Plan = self.members[0].plan
        return plan

    @property
    def delta(self) -> float | None:
        """The divisor of the members' degree scalers."""
        return self.members[0].delta

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        outputs = [network(*args, **kwargs) for network in self.networks]
        if kwargs.get("returns", "prediction") != "prediction":
            return torch.cat(outputs, dim=1)  # embeddings, side by side
        prediction = torch.stack(outputs)
        if not self.training:
            return prediction.mean(dim=0)
        # The same values, with gradients as large as those of a member alone.
        prediction = prediction + (len(prediction) - 1) * (prediction - prediction.detach())
        return prediction.flatten(0, 1)

    @property
    def members(self) -> list[DGN]:
        """The networks."""
        return cast("list[DGN]", list(self.networks))
