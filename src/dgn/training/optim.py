"""Fused optimizer and losses: Adam over all parameters in one kernel, and losses with their gradient."""

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

BLOCK = 512  # entries per Triton program of Adam
ENTRIES = 1 << 14  # predictions of a batch up to which its loss is one Triton program


class FlatAdam(torch.optim.Optimizer):
    r"""Adam with coupled weight decay in one kernel; all parameters become views of one flat buffer.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon},
        \qquad g = \nabla + \lambda p

    The state of a parameter has the keys of ``torch.optim.Adam``. A missing gradient counts as 0. A CUDA graph reads
    gradients at the addresses of its capture: call :meth:`settle` after it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: Tensor,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(list(parameters), {"lr": rate, "weight_decay": weight_decay, "betas": betas, "eps": eps})
        (group,) = self.param_groups
        self.parameters: list[nn.Parameter] = group["params"]
        sizes = torch.tensor([parameter.numel() for parameter in self.parameters])
        blocks = -(-sizes // BLOCK)
        device = self.parameters[0].device
        self.sizes, self.first = sizes.to(device), (blocks.cumsum(0) - blocks).to(device)
        self.owner = torch.arange(len(sizes)).repeat_interleave(blocks).to(device)
        self.flat, self.average, self.square = (torch.zeros(len(self.owner) * BLOCK, device=device) for _ in range(3))
        self.steps = torch.zeros((), device=device)
        self.addresses, self.grad_pointers = torch.zeros_like(self.sizes), [0]
        for parameter, *pieces in zip(
            self.parameters, *map(self.pieces, (self.flat, self.average, self.square)), strict=True
        ):
            values, average, square = (piece.view_as(parameter) for piece in pieces)
            values.copy_(parameter.detach())
            parameter.data = values
            self.state[parameter] = {"step": self.steps, "exp_avg": average, "exp_avg_sq": square}

    def pieces(self, flat: Tensor) -> list[Tensor]:
        """Views of a flat tensor for each parameter; each starts at a multiple of the block size."""
        starts = (self.first * BLOCK).tolist()
        return [flat[start : start + p.numel()] for start, p in zip(starts, self.parameters, strict=True)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters."""
        from dgn.kernels.triton.step import adam

        assert closure is None
        (group,) = self.param_groups
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        self.grad_pointers = [parameter.grad.data_ptr() for parameter in self.parameters if parameter.grad is not None]
        if not (self.flat.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.settle()
        self.steps += 1
        beta1, beta2 = group["betas"]
        adam[(len(self.owner),)](
            self.flat, self.addresses, self.owner, self.first, self.sizes, self.average, self.square, self.steps,
            group["lr"], group["weight_decay"], beta1, beta2, math.log(beta1), math.log(beta2), group["eps"],
            BLOCK=BLOCK,
        )  # fmt: skip

    def settle(self) -> None:
        """Record the addresses of the gradients of the last step."""
        self.addresses.copy_(torch.tensor(self.grad_pointers))


def make_adam(
    parameters: Iterable[nn.Parameter], rate: float, decay: float, device: torch.device, flat: bool
) -> torch.optim.Optimizer:
    """Adam with coupled weight decay; on a GPU its learning rate is a tensor, and with ``flat`` it is one kernel."""
    if device.type != "cuda":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    rate_tensor = torch.tensor(rate, device=device)
    if flat and find_spec("triton") is not None:
        return FlatAdam(parameters, rate_tensor, decay)
    return torch.optim.Adam(parameters, rate_tensor, weight_decay=decay, fused=True, capturable=True)


def entry_gradient(name: str, prediction: Tensor, target: Tensor, weight: Tensor, terms: Tensor, tiny: float) -> Tensor:
    """The gradient of the loss of a batch; its numerator and denominator are added to ``terms`` [2].

    For the objectives "regression" and "multi-label", as :mod:`dgn.training.objectives` defines them.

    Shapes:
        ``prediction`` and ``target`` [R, T], ``weight`` [R]; returns [R, T].
    """
    from dgn.kernels.triton.step import entry_loss

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
    return few and name in ("regression", "multi-label") and prediction.is_cuda and prediction.dtype == torch.float32
