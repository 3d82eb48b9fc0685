"""Linear maps of several towers side by side."""

import math

import torch
from torch import Tensor, nn


class TowerLinear(nn.Module):
    r"""One linear map per tower, applied to its own slice of channels: :math:`y_t = x_t W_t^\top + b_t`.

    With one tower it is ``nn.Linear``, and every tower is initialised like one.

    Shapes:
        ``weight`` [T, out, in], ``bias`` [T, out].
    """

    def __init__(self, in_channels: int, out_channels: int, towers: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(towers, out_channels, in_channels))
        self.bias = nn.Parameter(torch.empty(towers, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(2)) if self.weight.size(2) else 0.0
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        towers, out_channels, in_channels = self.weight.shape
        return f"{in_channels}, {out_channels}, towers={towers}"


def per_tower(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each tower's slice by its own matrix: ``[N, T, in] x [T, out, in] -> [N, T, out]``."""
    if weight.size(0) == 1:
        return x @ weight[0].T
    return torch.einsum("nti,toi->nto", x, weight)
