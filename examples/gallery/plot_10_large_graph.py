r"""
A large graph
=============

Twenty-five thousand nodes on an island with two lakes. The first eigenvectors know its shape: they run around the
lakes and into the peninsulas, without coordinates. LOBPCG on an approximate Cholesky factor computes six of them;
time and memory grow almost linearly with the edges.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.spatial import Delaunay

import dgn

# %%
# Random points on the island, and a road between neighbours that does not cross a lake.

rng = np.random.default_rng(3)
points = rng.uniform(-1.25, 1.25, (95_000, 2))
radius, angle = np.hypot(*points.T), np.arctan2(points[:, 1], points[:, 0])
coast = 0.75 + 0.2 * np.cos(3 * angle + 0.5) + 0.12 * np.sin(5 * angle) + 0.05 * np.cos(11 * angle)
lakes = (np.hypot(*(points - [-0.25, 0.1]).T) < 0.22) | (np.hypot(*(points - [0.32, -0.12]).T) < 0.16)
position = points[(radius < coast) & ~lakes]
corners = Delaunay(position).simplices
pairs = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])), axis=0)
pairs = pairs[np.hypot(*(position[pairs[:, 0]] - position[pairs[:, 1]]).T) < 0.03]
edge_index = torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]).T.copy()).long()

dgn.directions(edge_index, len(position), k=1)  # compiles
start = time.perf_counter()
directions = dgn.directions(edge_index, len(position), k=6)
print(f"{len(position):,} nodes, {len(pairs):,} edges, six directions: {time.perf_counter() - start:.1f} s")

# %%
largest = directions.component == directions.component.bincount().argmax()
figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.6))
for k, one in enumerate(axes.flat):
    potential = directions.potential[largest, k]
    limit = float(potential.abs().quantile(0.995))
    one.scatter(*position[largest].T, 0.6, potential, cmap="PuOr", vmin=-limit, vmax=limit, linewidths=0)
    one.set(title=rf"$\varphi_{k + 1}$", aspect="equal")
    one.set_axis_off()
plt.show()
