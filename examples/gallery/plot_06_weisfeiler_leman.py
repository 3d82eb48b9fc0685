r"""
Beyond Weisfeiler-Leman
=======================

Decalin has two fused rings of six, bicyclopentyl two joined rings of five. The Weisfeiler-Leman test gives their
atoms the same colours, so that no network of isotropic aggregators tells the two apart, however deep. One derivative
of the degrees along the first eigenvector does.
"""

import matplotlib.pyplot as plt
import torch

import dgn
from dgn.plot.field_view import draw_field
from dgn.plot.sources import molecule_scene
from dgn.testing import same_to_weisfeiler_leman, weisfeiler_leman

scenes = {"decalin": molecule_scene("C1CCC2CCCCC2C1"), "bicyclopentyl": molecule_scene("C1CCCC1C2CCCC2")}
graphs = [(scene.edge_index, scene.num_nodes) for scene in scenes.values()]
print("the same to Weisfeiler-Leman:", same_to_weisfeiler_leman(*graphs))

# %%
# Above the colours of the test, below the derivative of the degrees along the first direction.

figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.6))
for column, (name, scene) in enumerate(scenes.items()):
    edge_index, degree = scene.edge_index, scene.signals["degree"]
    colors = weisfeiler_leman(edge_index, scene.num_nodes)
    order = sorted(set(colors), key=lambda color, among=colors: (among.count(color), color))
    number = torch.tensor([order.index(color) - 1.0 for color in colors])
    draw_field(axes[0, column], edge_index, scene.position, values=number, size=170)
    axes[0, column].set_title(f"{name}: its colours")
    potential = dgn.directions(edge_index, scene.num_nodes, k=1).potential[:, 0]
    field = dgn.gradient(potential, edge_index)
    slope = dgn.derivative(field, edge_index, scene.num_nodes)(degree)[:, 0].abs()
    draw_field(axes[1, column], edge_index, scene.position, field, slope, size=170, limit=1.0)
    axes[1, column].set_title(rf"$\sum_i |B_{{dx}}\, d|_i$ = {float(slope.sum()):.3f}")
for one in axes.flat:
    one.margins(0.12)
plt.show()
