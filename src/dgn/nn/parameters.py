"""Initial values of parameters."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn


def reset(modules: Iterable[nn.Module | None]) -> None:
    """Reset the parameters of each module that has any."""
    for module in modules:
        again: Callable[[], None] | None = getattr(module, "reset_parameters", None)
        if again is not None:
            again()


def initialize_as_authors(module: nn.Module) -> None:
    """Weights of layers as in the authors' code: Xavier uniform with gain 1 / inputs, biases 0. Very small weights."""
    for part in module.modules():
        weight: Any = getattr(part, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() >= 2:
            for matrix in weight if weight.dim() == 3 else [weight]:
                nn.init.xavier_uniform_(matrix, gain=1 / matrix.size(1))
            bias: Any = part.bias
            nn.init.zeros_(bias)
