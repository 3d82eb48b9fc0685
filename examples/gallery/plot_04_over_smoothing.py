r"""
Over-smoothing and distance
===========================

A symbol stands at one end of a chain, and a network has as many layers as it likes. Averages over all neighbours
spread it out until every node holds the same. Along the field of the first eigenvector each layer reads the neighbour
behind, and the symbol arrives whole: this is why direction helps over long distances.
"""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch

import dgn
from dgn.testing import path

NODES, LAYERS = 48, 46
edge_index, _ = path(NODES)
potential = torch.arange(NODES, dtype=torch.float64)[:, None]  # as the first eigenvector, it rises along the chain
field = dgn.gradient(potential, edge_index)
average = dgn.smoothing(torch.ones_like(field), edge_index)  # a constant field weighs all neighbours alike
behind = dgn.smoothing(dgn.backward_field(field), edge_index)
updates = {
    "mean": lambda x: (x + average(x)[:, 0]) / 2,  # of a node and its neighbours
    "behind, along the field": lambda x: behind(x)[:, 0],
}


def layers(update: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The signal before each layer and after the last. [LAYERS + 1, N]"""
    signal = [torch.zeros(NODES, dtype=torch.float64)]
    signal[0][1] = 1.0
    for _ in range(LAYERS):
        signal.append(update(signal[-1]))
    return torch.stack(signal)


figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), width_ratios=[1, 1, 1.1])
for one, (name, update) in zip(axes, updates.items(), strict=False):
    signal = layers(update)
    one.imshow(signal.sqrt(), cmap="Purples", aspect="auto", origin="lower", vmax=1)
    one.set(title=name, xlabel="node", ylabel="layer")
    axes[2].plot(signal.max(dim=1).values, linewidth=2, label=name.split(",")[0])
axes[2].set(title="largest value left", xlabel="layer", ylim=(0, 1.05))
axes[2].legend(loc=(0.55, 0.45))
plt.show()
