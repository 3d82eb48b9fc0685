"""The training state: weights, optimizer state, and the exponential moving average (EMA) of the weights."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from dgn.training.ema import EMA


class State:
    """A network in training with its optimizer; with a ``decay`` above 0, the EMA of its weights is scored."""

    def __init__(self, network: nn.Module, adam: torch.optim.Optimizer, decay: float = 0.0) -> None:
        self.network, self.adam = network, adam
        self.ema: EMA | None = None
        self.averages: dict[str, Tensor] = {}
        if decay:
            self._start_ema(decay)

    def _start_ema(self, decay: float) -> None:
        named: dict[str, Tensor] = dict(self.network.named_parameters())
        named |= {name: buffer for name, buffer in self.network.named_buffers() if buffer.is_floating_point()}
        self.ema = EMA([*named.values()], decay)
        self.averages = {f"average.{name}": shadow for name, shadow in zip(named, self.ema.shadow, strict=True)}
        self.averages["average steps"] = self.ema.steps

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all state tensors by name."""
        named = {f"model.{name}": tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        for index, parameter in enumerate(self.network.parameters()):
            for key, value in self.adam.state[parameter].items() if parameter in self.adam.state else ():
                named[f"optimizer.{index}.{key}"] = value.detach().clone()
        return named | {name: average.clone() for name, average in self.averages.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the result of :meth:`tensors` into the same memory; optimizer state that it lacks becomes 0."""
        model = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        self.network.load_state_dict(model)
        for index, parameter in enumerate(self.network.parameters()):
            prefix = f"optimizer.{index}."
            saved = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            current = self.adam.state.get(parameter, {})
            for key, value in current.items():
                value.copy_(saved[key]) if key in saved else value.zero_()
            if saved and not current:
                copies = {key: value.to(parameter.device, copy=True) for key, value in saved.items()}
                self.adam.state[parameter] = copies
        for name, average in self.averages.items():
            average.copy_(tensors[name])

    def averaged(self) -> AbstractContextManager[None]:
        """Swap in the weights that are scored inside the ``with`` block."""
        return nullcontext() if self.ema is None else self.ema.in_place()

    def scored(self) -> dict[str, Tensor]:
        """Copies of the weights that are scored, by name."""
        with self.averaged():
            return {f"model.{name}": tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def finalize(self, best: Mapping[str, Tensor]) -> None:
        """End training: the network gets the ``best`` weights, or without any the last that were scored."""
        weights = best or self.scored()
        self.ema, self.averages = None, {}
        self.load(weights)
