r"""
A repeated eigenvalue
=====================

On a ring no direction is the first: the lowest eigenvalue is double, and a solver returns any two perpendicular
waves. The derivative ``dx1`` of a signal then depends on the basis. ``dx1-group`` takes the whole eigenspace
(:func:`dgn.group_derivative`), and gives the same in every basis.
"""

import math

import matplotlib.pyplot as plt
import torch

import dgn
from dgn.plot.field_view import draw_field
from dgn.testing import cycle

NODES = 18
edge_index, _ = cycle(NODES)
angle = torch.arange(NODES) * 2 * torch.pi / NODES
position = torch.stack([angle.cos(), angle.sin()], dim=1)
signal = torch.zeros(NODES, dtype=torch.float64).index_fill(0, torch.tensor([0, 3, 4, 9]), 1.0)
directions = dgn.directions(edge_index, k=2)
gap = directions.gap[directions.component]

# %%
# The same graph and the same signal, in three bases of the eigenspace.

figure, axes = plt.subplots(2, 3, figsize=(9, 5.6))
for column, degrees in enumerate((0, 40, 80)):
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    potential = directions.potential @ torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    field = dgn.gradient(potential, edge_index)
    one = dgn.derivative(field, edge_index)(signal)[:, 0].abs()
    group = dgn.group_derivative(field, gap, edge_index)(signal).norm(dim=1)
    draw_field(axes[0, column], edge_index, position, field[:, 0], one, size=110, limit=1.0)
    axes[0, column].set_title(f"dx1, basis turned by {degrees}°")
    draw_field(axes[1, column], edge_index, position, values=group, size=110, limit=1.0)
    axes[1, column].set_title("dx1-group")
for one in axes.flat:
    one.margins(0.1)
plt.show()
