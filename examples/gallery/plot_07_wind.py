r"""
A physical flow
===============

A wind turns around the middle of a mesh and carries a cloud. The velocity is the field,
:math:`F_{ij} = v_i \cdot (p_j - p_i)`, and a step reads the neighbours upwind,
:math:`x \leftarrow x + c (B_{bwd} x - x)`. The same steps with the mean of all neighbours know no wind: the cloud
stays and fades.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.spatial import Delaunay

import dgn

STEPS, COURANT = 70, 0.8
rng = np.random.default_rng(1)
lattice = np.stack(np.meshgrid(np.linspace(-1, 1, 64), np.linspace(-1, 1, 64)), axis=-1).reshape(-1, 2)
position = lattice + rng.normal(0, 0.005, lattice.shape)
corners = Delaunay(position).simplices
pairs = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])), axis=0).T
edge_index = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)).long()

# %%
# The wind on nodes and on edges, and a cloud.

place = torch.from_numpy(position)
wind = torch.stack([-place[:, 1], place[:, 0]], dim=1)
source, target = edge_index
field = (wind[target] * (place[source] - place[target])).sum(dim=1, keepdim=True)
cloud = torch.exp(-((place - torch.tensor([0.6, 0.0])) ** 2).sum(dim=1) / 0.02)

operators = {
    "mean of all neighbours": dgn.smoothing(torch.ones_like(field), edge_index, len(place)),
    "neighbours upwind": dgn.smoothing(dgn.backward_field(field), edge_index, len(place)),
}
sample = np.arange(64 * 64).reshape(64, 64)[3::8, 3::8].flatten()
figure, axes = plt.subplots(1, 3, figsize=(11, 3.9))
images = {"wind and cloud": cloud}
for name, operator in operators.items():
    x = cloud
    for _ in range(STEPS):
        x = x + COURANT * (operator(x)[:, 0] - x)
    images[f"{STEPS} steps, {name}"] = x
for one, (name, x) in zip(axes, images.items(), strict=True):
    one.tripcolor(*position.T, corners, x, cmap="Purples", shading="gouraud", vmin=0, vmax=float(x.max()))
    one.quiver(*position[sample].T, *wind[sample].T, color="#2b2d33", alpha=0.4, width=0.004, scale=22)
    one.set(title=name, aspect="equal")
    one.set_axis_off()
plt.show()
