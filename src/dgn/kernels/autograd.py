"""Functions that can be differentiated once."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def differentiable_once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A way back that refuses to be differentiated itself, as kernels write their results past PyTorch's record.

    It raises at once where PyTorch builds a graph of the way back (``create_graph=True``), whatever requires a
    gradient: the error that ``once_differentiable`` leaves behind is passed by when ``torch.autograd.grad`` is asked
    for some inputs only, and second derivatives then miss a part without a word.

    >>> with torch.no_grad():  # as on the way back, unless a graph of it is built
    ...     differentiable_once(lambda ctx, grad: 2 * grad)(None, 1.0)
    2.0
    """

    @wraps(backward)
    def once(*given: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "create_graph: expected False where kernels compute gradients, got True; second derivatives need "
                "backend='reference'"
            )
        return backward(*given)

    return once
