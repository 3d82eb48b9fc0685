"""CIFAR10 superpixels: node features from pixel sums, k-nearest-neighbour edges as in the published benchmark."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.io.npz import load_npz
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.progress import progress_bar

SIDE = 32  # pixels along an image
NEIGHBOURS = 8
SUMS = ("node_ptr", "count", "rgb_sum_lo", "rgb_sum_hi", "rc_sum_lo", "rc_sum_hi", "y", "split")
MAX_DISTANCES = {"cpu": 1 << 21, "cuda": 1 << 26}  # in memory at once


def load_superpixels(path: Path, device: torch.device | str = "cpu", progress: bool = False) -> PackedGraphs:
    """Superpixel graphs from a file of exact pixel sums; edges are computed on ``device``.

    Shapes:
        ``nodes["x"]`` [N, 5] float32: mean red, green and blue in 0..1, then the centre (row, column) / 32;
        ``edge_index`` [2, 8 N] uint8, ``edges["edge_attr"]`` [8 N, 1] float32, ``graphs["y"]`` and ``graphs["split"]``
        uint8. All on the CPU: 20 bytes a node and 6 an edge for the benchmark.
    """
    arrays = load_npz(path)
    missing = [name for name in SUMS if name not in arrays]
    if missing:
        raise ValueError(f"{path}: expected arrays {', '.join(SUMS)}, got none named {', '.join(missing)}")
    count = arrays["count"].astype(np.float32)[:, None]
    colour = _sums(arrays["rgb_sum_lo"], arrays["rgb_sum_hi"]) / count / 255
    centre = _sums(arrays["rc_sum_lo"], arrays["rc_sum_hi"]) / count / SIDE
    x = torch.from_numpy(np.concatenate([colour, centre], axis=1))
    pointer = torch.from_numpy(arrays["node_ptr"].astype(np.int64))
    graphs = {name: torch.from_numpy(arrays[name]) for name in ("y", "split")}
    source, target, weight = nearest_superpixels(x[:, 3:], pointer, torch.device(device), progress)
    return PackedGraphs(
        pointer,
        pointer * NEIGHBOURS,
        torch.stack([source, target]),
        nodes={"x": x},
        edges={"edge_attr": weight[:, None]},
        graphs=graphs,
    )


def nearest_superpixels(
    centre: Tensor, pointer: Tensor, device: torch.device, progress: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Edges from each superpixel i to the eight j of its image with the largest

    $$A_{ij} = \tfrac12 (e^{-(c_{ij}/s_i)^2} + e^{-(c_{ij}/s_j)^2}), \qquad s_i = \tfrac18 \sum_{\text{9 nearest}}
    c_{ij} + 10^{-8},$$

    with $c_{ij}$ the distance of the centres and i itself among its nine nearest. The original drops an arbitrary one
    of the nine largest, this code the smallest. Images with the same number of superpixels are batched.

    Shapes:
        ``centre`` [N, 2], ``pointer`` [G + 1]; returns three of [8 N], sorted by source: sources and targets (uint8,
        local to the image) and A (float32).
    """
    size = pointer.diff()
    if len(size) and not (int(size.min()) > NEIGHBOURS and int(size.max()) <= 256):
        raise ValueError(
            f"superpixels: expected 9 to 256 in each image, got {int(size.min())} to {int(size.max())}; each has "
            "eight neighbours"
        )
    target = torch.empty(len(centre), NEIGHBOURS, dtype=torch.uint8)
    weight = torch.empty(len(centre), NEIGHBOURS)
    with progress_bar("joining superpixels", len(size), "images", progress) as advance:
        for images in _chunks(size, MAX_DISTANCES.get(device.type, MAX_DISTANCES["cpu"])):
            n = int(size[images[0]])
            rows = (pointer[images, None] + torch.arange(n)).flatten()
            similarity = _similarity(centre[rows].view(-1, n, 2).to(device))
            values, columns = similarity.topk(NEIGHBOURS, dim=2)
            target[rows] = columns.to(torch.uint8).flatten(0, 1).cpu()
            weight[rows] = values.flatten(0, 1).cpu()
            advance(len(images))
    local = torch.arange(len(centre)) - pointer[:-1].repeat_interleave(size)
    return local.to(torch.uint8).repeat_interleave(NEIGHBOURS), target.flatten(), weight.flatten()


def _similarity(centre: Tensor) -> Tensor:
    """A [B, n, n] of B images with n superpixels each; the diagonal is 0."""
    row, column = centre.unbind(dim=2)
    square = (row[:, :, None] - row[:, None]).square_()
    square += (column[:, :, None] - column[:, None]).square_()
    nearest = square.topk(NEIGHBOURS + 1, dim=2, largest=False, sorted=False).values
    scale = nearest.sqrt_().sum(dim=2, keepdim=True) / NEIGHBOURS + 1e-8
    similarity = square.div_(scale.square_().neg_()).exp_()
    similarity = (similarity + similarity.mT).mul_(0.5)
    similarity.diagonal(dim1=1, dim2=2).zero_()
    return similarity


def _chunks(size: Tensor, max_distances: int) -> Iterator[Tensor]:
    """Indices of images of equal size, with at most ``max_distances`` pairs of superpixels in total."""
    for n in torch.unique(size).tolist():
        yield from torch.split((size == n).nonzero().flatten(), max(1, max_distances // n**2))


def _sums(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.float32]:
    return high.astype(np.float32) * 256 + low
