r"""
Flows of eigenvectors
=====================

The eigenvectors :math:`\varphi_k` of the Laplacian are heights on the nodes of any graph, and their gradients are
fields: the first runs along the longest extent, the second across it, the third bends. A field need not be an
eigenvector: the last one turns around a point. Compare the paper's second figure.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.spatial import KDTree

import dgn
from dgn.plot.field_view import draw_field

# %%
# A hexagonal lattice, cut to the shape of a bean.

x, y = np.meshgrid(np.arange(-10, 11), np.arange(-7, 8))
lattice = np.stack([x + 0.5 * (y % 2), 0.866 * y], axis=-1).reshape(-1, 2)
radius, angle = np.hypot(*lattice.T), np.arctan2(lattice[:, 1], lattice[:, 0])
position = lattice[radius < 5.2 + 1.5 * np.cos(2 * angle) - 1.1 * np.sin(3 * angle + 0.4)]
pairs = torch.from_numpy(KDTree(position).query_pairs(1.05, output_type="ndarray").T).long()
edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)

# %%
# Three eigenvectors, and a flow of our own: :math:`F_{ij} = v_i \cdot (p_j - p_i)`.

directions = dgn.directions(edge_index, len(position), k=3)
place = torch.from_numpy(position)
velocity = torch.stack([-place[:, 1], place[:, 0]], dim=1)
source, target = edge_index
swirl = (velocity[target] * (place[source] - place[target])).sum(dim=1)

figure, axes = plt.subplots(2, 2, figsize=(10, 6.4))
axes = axes.flatten()
for k in range(3):
    potential = directions.potential[:, k]
    field = dgn.normalize(dgn.gradient(potential, edge_index), edge_index, len(position))
    draw_field(axes[k], edge_index, position, field, potential, size=46, width=0.006)
    axes[k].set_title(rf"$\varphi_{k + 1}$,  $\lambda_{k + 1}$ = {directions.eigenvalues[0, k]:.3f}")
draw_field(axes[3], edge_index, position, swirl, size=20, width=0.006)
axes[3].set_title("a field of our own")
plt.show()
