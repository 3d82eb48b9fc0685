r"""
A directed graph
================

Who eats whom, who cites whom, who won against whom: arrows often follow a hidden order. :func:`dgn.flow_potential`
finds the heights that agree best with all of them, and :func:`dgn.hodge_decomposition` says how much of the flow they
explain; the rest runs in circles. Left the arrows alone; right the same graph, each node at its height.
"""

import matplotlib.pyplot as plt
import torch

import dgn

# %%
# Thirty nodes with a hidden rank. Most edges lead up, a few anywhere.

NODES = 30
generator = torch.Generator().manual_seed(2)
rank = torch.rand(NODES, generator=generator)
pairs = torch.randint(NODES, (2, 900), generator=generator)
rise, draw = rank[pairs[1]] - rank[pairs[0]], torch.rand(900, generator=generator)
edge_index = pairs[:, ((rise > 0.05) & (rise < 0.4) & (draw < 0.3)) | ((rise < 0) & (draw < 0.02))].unique(dim=1)

oriented = dgn.orientation(edge_index, NODES)  # +1 along an edge, -1 against it
height = dgn.flow_potential(oriented.field, oriented.edge_index, NODES).flatten()
parts = dgn.hodge_decomposition(oriented.field, oriented.edge_index, NODES)
explained = float(parts.gradient.square().sum() / oriented.field.square().sum())

# %%
# Colours are the hidden rank, which was not used.

turn = torch.arange(NODES) * 2 * torch.pi / NODES
aside = (height.argsort().argsort() * 0.618) % 1  # spreads neighbours in height
places = {
    "arrows": torch.stack([turn.cos(), turn.sin()], dim=1),
    f"by height: {explained:.0%} of the flow is a gradient": torch.stack([aside, height], dim=1),
}
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.8))
for one, (title, place) in zip(axes, places.items(), strict=True):
    for j, i in edge_index.T.tolist():
        down = bool(height[i] < height[j])
        look = {"arrowstyle": "-|>,head_width=0.16,head_length=0.35", "color": "#e08214" if down else "#8c8f98"}
        look |= {"linewidth": 1.8 if down else 0.9, "shrinkA": 4, "shrinkB": 5}
        one.annotate("", place[i], place[j], arrowprops=look, zorder=2 if down else 1)
    one.scatter(*place.T, 75, rank, cmap="PuOr", edgecolors="#2b2d33", linewidths=0.8, zorder=3)
    one.set_title(title)
    one.set_axis_off()
figure.supxlabel("orange: edges that lead down", fontsize=9)
plt.show()
