r"""
Two fields give every direction
===============================

Two fields span a plane at every node, and :func:`dgn.rotate` turns them in it. Where axes carry no meaning a network
can be trained with random angles, as images are rotated. Here the derivative of a picture of two rings follows the
angle.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.spatial import Delaunay

import dgn

# %%
# An irregular mesh in a disc, and a signal: two rings.

rng = np.random.default_rng(0)
lattice = np.stack(np.meshgrid(np.linspace(-1, 1, 80), np.linspace(-1, 1, 80)), axis=-1).reshape(-1, 2)
position = (lattice + rng.normal(0, 0.005, lattice.shape))[np.hypot(*lattice.T) < 1]
corners = Delaunay(position).simplices
pairs = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])), axis=0).T
edge_index = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)).long()
radius = torch.from_numpy(np.hypot(*position.T))
signal = torch.exp(-(((radius - 0.4) / 0.1) ** 2)) + torch.exp(-(((radius - 0.75) / 0.1) ** 2))

field = dgn.gradient(torch.from_numpy(position), edge_index)
figure, axes = plt.subplots(1, 5, figsize=(12.5, 2.9))
axes[0].tripcolor(*position.T, corners, signal, cmap="Purples", shading="gouraud")
axes[0].set_title("signal")
for one, degrees in zip(axes[1:], (0, 45, 90, 135), strict=True):
    east, _ = dgn.rotate(field[:, 0], field[:, 1], math.radians(degrees), edge_index, collinear="keep")
    slope = dgn.derivative(east[:, None], edge_index, len(position))(signal)
    limit = float(slope.abs().quantile(0.99))
    one.tripcolor(*position.T, corners, slope[:, 0], cmap="PuOr", shading="gouraud", vmin=-limit, vmax=limit)
    step = 0.22 * np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    one.annotate("", step, -step, arrowprops={"arrowstyle": "-|>", "linewidth": 2.2, "color": "#2b2d33"})
    one.set_title(f"{degrees}°")
for one in axes:
    one.set_aspect("equal")
    one.set_axis_off()
plt.show()
