"""Initial values of parameters."""

import math
from collections.abc import Callable, Iterable

from torch import nn

from dgn.nn.linear import BlockLinear


def reset(modules: Iterable[nn.Module | None]) -> None:
    """Reset the parameters of each module, or of its parts where it does not say how."""
    for module in modules:
        again: Callable[[], None] | None = getattr(module, "reset_parameters", None)
        if again is not None:
            again()
        elif module is not None:
            reset(module.children())


def init_as_authors(module: nn.Module) -> None:
    """Weights of layers as in the authors' code: Xavier uniform with gain 1 / inputs, biases 0. Very small weights."""
    for part in module.modules():
        if isinstance(part, BlockLinear):
            part.initialize(math.sqrt(6 / (part.in_channels + part.out_channels)) / part.in_channels, 0.0)
        elif isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, gain=1 / part.in_features)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
