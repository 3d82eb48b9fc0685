"""A training step in few kernels: Adam over all parameters at once, and losses with their gradient."""

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

BLOCK = 512  # numbers of a program of Adam
ENTRIES = 1 << 14  # of a batch's predictions whose loss is one program


class FlatAdam(torch.optim.Optimizer):
    r"""Adam with coupled decay, one kernel for all parameters, which come to lie side by side in memory.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon},
        \qquad g = \nabla + \lambda p

    The state of a parameter has the names of ``torch.optim.Adam``. A parameter without a gradient counts as one with
    the gradient 0. Captured in a CUDA graph, it reads gradients where they lay then: call :meth:`settle` behind.
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
        self.ours: list[nn.Parameter] = group["params"]
        sizes = torch.tensor([parameter.numel() for parameter in self.ours])
        blocks = -(-sizes // BLOCK)
        device = self.ours[0].device
        self.sizes, self.first = sizes.to(device), (blocks.cumsum(0) - blocks).to(device)
        self.owner = torch.arange(len(sizes)).repeat_interleave(blocks).to(device)
        self.flat, self.average, self.square = (torch.zeros(len(self.owner) * BLOCK, device=device) for _ in range(3))
        self.steps = torch.zeros((), device=device)
        self.addresses, self.read = torch.zeros_like(self.sizes), [0]
        for parameter, *pieces in zip(
            self.ours, *map(self.pieces, (self.flat, self.average, self.square)), strict=True
        ):
            mine, average, square = (piece.view_as(parameter) for piece in pieces)
            mine.copy_(parameter.detach())
            parameter.data = mine
            self.state[parameter] = {"step": self.steps, "exp_avg": average, "exp_avg_sq": square}

    def pieces(self, whole: Tensor) -> list[Tensor]:
        """The part of each parameter of a flat tensor; parts begin at multiples of a block."""
        begins = (self.first * BLOCK).tolist()
        return [whole[begin : begin + p.numel()] for begin, p in zip(begins, self.ours, strict=True)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move all parameters along their gradients."""
        from dgn.kernels.triton.step import adam

        assert closure is None
        (group,) = self.param_groups
        for parameter in self.ours:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        self.read = [parameter.grad.data_ptr() for parameter in self.ours if parameter.grad is not None]
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
        """Note where the gradients of the last step lie."""
        self.addresses.copy_(torch.tensor(self.read))


def make_adam(
    parameters: Iterable[nn.Parameter], rate: float, decay: float, device: torch.device, flat: bool
) -> torch.optim.Optimizer:
    """Adam with coupled decay; on a GPU its rate is a tensor, and with ``flat`` it is one kernel."""
    if device.type != "cuda":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    rates = torch.tensor(rate, device=device)
    if flat and find_spec("triton") is not None:
        return FlatAdam(parameters, rates, decay)
    return torch.optim.Adam(parameters, rates, weight_decay=decay, fused=True, capturable=True)


def entry_gradient(name: str, prediction: Tensor, target: Tensor, weight: Tensor, terms: Tensor, tiny: float) -> Tensor:
    """The gradient of the loss of a batch, whose numerator and denominator are added to ``terms`` [2].

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
