r"""
A molecule's field
==================

Ibuprofen: the first direction leads from the acid to the isobutyl group, the second from the ends to the middle. An
atom of the ring has two neighbours that look alike to a mean; along the first field one is ahead, one behind.
"""

import matplotlib.pyplot as plt

import dgn
from dgn.plot.graph_view import draw_graph
from dgn.plot.sources import molecule_scene

scene = molecule_scene("CC(C)Cc1ccc(cc1)C(C)C(=O)O")
directions = dgn.directions(scene.edge_index, scene.num_nodes, k=2)

figure, axes = plt.subplots(2, 1, figsize=(8.4, 6.4))
for k, name in enumerate(["along the molecule", "from its ends to its middle"]):
    title = rf"$\varphi_{k + 1}$: {name},  $\lambda_{k + 1}$ = {directions.eigenvalues[0, k]:.3f}"
    nodes = draw_graph(axes[k], scene, directions.potential[:, k], title, (7.2, 2.8))
    figure.colorbar(nodes, ax=axes[k], shrink=0.7, pad=0.02, aspect=22).outline.set_visible(False)
plt.show()
