r"""
On a grid, a CNN
================

Pixels are nodes, each joined to its four neighbours. With the coordinates as potentials, :math:`B_{dx}` is the centred
difference of image processing. A convolution with a kernel of three by three gives the same numbers. On a grid, sums
of :math:`B_{av}`, :math:`B_{dx}` and the identity are all such kernels; on any other graph they are what a kernel
would be.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_sample_image
from torch.nn.functional import conv2d

import dgn
from dgn.testing import grid

# %%
# A flower in grey, and the grid of its pixels: node ``row * width + column``.

image = torch.from_numpy(load_sample_image("flower.jpg").mean(axis=2) / 255)[20:420:4, 110:580:4]
height, width = image.shape
edge_index, num_nodes = grid(height, width)
row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
field = dgn.gradient(torch.stack([column, row], dim=-1).reshape(-1, 2).double(), edge_index)

slopes = dgn.derivative(field, edge_index, num_nodes)(image.reshape(-1, 1))  # [N, 2, 1]: both directions at once
slopes = slopes.reshape(height, width, 2)

# %%
# The same by convolution, inside the border.

kernel = torch.tensor([[[[0.0, 0, 0], [-0.5, 0, 0.5], [0, 0, 0]]], [[[0.0, -0.5, 0], [0, 0, 0], [0, 0.5, 0]]]])
filtered = conv2d(image[None, None], kernel.double())[0]
difference = (slopes[1:-1, 1:-1].permute(2, 0, 1) - filtered).abs().max()

figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2))
axes[0].imshow(image, cmap="gray")
axes[0].set_title("pixels as nodes")
for k, name in enumerate(["east", "south"]):
    axes[k + 1].imshow(slopes[..., k], cmap="PuOr", vmin=-0.2, vmax=0.2)
    axes[k + 1].set_title(rf"$B_{{dx}}$ {name}")
for one in axes:
    one.set_axis_off()
figure.supxlabel(f"largest difference to the convolution: {difference:.1g}", fontsize=10)
plt.show()
