"""Everything that training changes: weights, optimizer, and the running average of the weights."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from dgn.training.ema import Averaging
from dgn.training.optim import FlatAdam


class State:
    """A network in training with its optimizer; what is scored is its average, if ``decay`` is not 0."""

    def __init__(self, network: nn.Module, adam: torch.optim.Optimizer, decay: float = 0.0) -> None:
        self.network, self.adam = network, adam
        self.averaging: Averaging | None = None
        self.averages: dict[str, Tensor] = {}
        if decay:
            self._start(decay)

    def _start(self, decay: float) -> None:
        flat = self.adam if isinstance(self.adam, FlatAdam) else None
        weights = dict(self.network.named_parameters())
        statistics = {name: buffer for name, buffer in self.network.named_buffers() if buffer.is_floating_point()}
        live = [*(weights.values() if flat is None else [flat.flat]), *statistics.values()]
        self.averaging = Averaging(live, decay)
        shadow = self.averaging.shadow
        pieces = shadow if flat is None else [*flat.pieces(shadow[0]), *shadow[1:]]
        named = {**weights, **statistics}
        self.averages = {
            f"average.{name}": piece.view_as(like) for (name, like), piece in zip(named.items(), pieces, strict=True)
        }
        self.averages["average steps"] = self.averaging.steps

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name: copies."""
        named = {f"model.{name}": tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        for number, parameter in enumerate(self.network.parameters()):
            for key, value in self.adam.state[parameter].items() if parameter in self.adam.state else ():
                named[f"optimizer.{number}.{key}"] = value.detach().clone()
        return named | {name: average.clone() for name, average in self.averages.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave, into the same memory; an optimizer that had no past gets none."""
        model = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
        self.network.load_state_dict(model)
        for number, parameter in enumerate(self.network.parameters()):
            prefix = f"optimizer.{number}."
            past = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            known = self.adam.state.get(parameter, {})
            for key, value in known.items():
                value.copy_(past[key]) if key in past else value.zero_()
            if past and not known:
                self.adam.state[parameter] = {key: value.to(parameter.device, copy=True) for key, value in past.items()}
        for name, average in self.averages.items():
            average.copy_(tensors[name])

    def averaged(self) -> AbstractContextManager[None]:
        """While it lasts, the network is the one that is scored."""
        return nullcontext() if self.averaging is None else self.averaging.in_place()

    def scored(self) -> dict[str, Tensor]:
        """The weights that are scored, by name: copies."""
        with self.averaged():
            return {f"model.{name}": tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def conclude(self, best: Mapping[str, Tensor]) -> None:
        """Training is over: from now on the network is the one that counts, ``best`` or what was scored last."""
        counts = best or self.scored()
        self.averaging, self.averages = None, {}
        self.load(counts)
