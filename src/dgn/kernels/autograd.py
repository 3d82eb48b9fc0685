"""Backward passes without second derivatives."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass without second derivatives: the kernels bypass autograd.

    It raises at once where PyTorch builds a graph of the backward pass (``create_graph=True``), whatever requires a
    gradient: the error of PyTorch's own ``once_differentiable`` is lost when ``torch.autograd.grad`` is called for some
    inputs only, and second derivatives then miss a term silently.

    >>> with torch.no_grad():  # as in a backward pass of which no graph is built
    ...     once_differentiable(lambda ctx, grad: 2 * grad)(None, 1.0)
    2.0
    """

    @wraps(backward)
    def checked(*args: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "create_graph: expected False where kernels compute gradients, got True; second derivatives need "
                "backend='reference'"
            )
        return backward(*args)

    return checked
