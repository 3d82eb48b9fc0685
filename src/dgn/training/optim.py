"""The optimizer, and on a GPU the loss of a batch with its gradient as one kernel."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

ENTRIES = 1 << 14  # predictions of a batch up to which its loss is one Triton program


def make_adam(
    parameters: Iterable[nn.Parameter], rate: float, decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """Adam with coupled weight decay; on a GPU its learning rate is a tensor, which captured steps read."""
    if device.type != "cuda":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    rate_tensor = torch.tensor(rate, device=device)
    return torch.optim.Adam(parameters, rate_tensor, weight_decay=decay, fused=True, capturable=True)


def entry_gradient(name: str, prediction: Tensor, target: Tensor, weight: Tensor, terms: Tensor, tiny: float) -> Tensor:
    """The gradient of the loss of a batch; its numerator and denominator are added to ``terms`` [2].

    For the objectives "regression", "node-regression" and "multi-label" of :mod:`dgn.training.objectives`.

    Shapes:
        ``prediction`` and ``target`` [R, T], ``weight`` [R]; returns [R, T].
    """
    from dgn.kernels.triton.loss import entry_loss

    prediction = prediction.detach().contiguous()
    gradient = torch.empty_like(prediction)
    entry_loss[(1,)](
        prediction, target.reshape(prediction.shape).contiguous(), weight.reshape(-1).contiguous(), terms, gradient,
        prediction.numel(), prediction.size(1), tiny, BINARY=name == "multi-label", BLOCK=1024,
    )  # fmt: skip
    return gradient


def is_entrywise(name: str, prediction: Tensor) -> bool:
    """Whether :func:`entry_gradient` applies."""
    few = prediction.dim() == 2 and prediction.numel() <= ENTRIES
    is_supported = name in ("regression", "node-regression", "multi-label")
    return few and is_supported and prediction.is_cuda and prediction.dtype == torch.float32
