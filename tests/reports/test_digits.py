"""The picture of digits."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn.data import PackedGraphs
from dgn.reports.digits import _pictures, draw_digits

pytest.importorskip("matplotlib")


def image(pixels: torch.Tensor) -> PackedGraphs:
    """One image as a grid graph with coordinates (row, column) as potentials."""
    position = torch.cartesian_prod(*(torch.arange(side) for side in pixels.shape)).float()
    edges = (torch.cdist(position, position, p=1) == 1).nonzero().T
    source, target = edges
    return PackedGraphs.pack([(edges, len(position))]).with_values(
        nodes={"x": pixels.reshape(-1, 1), "potential": position},
        edges={"field": position[source] - position[target]},
    )


def test_derivatives_lie_where_the_image_changes() -> None:
    pixels = torch.zeros(4, 5)
    pixels[:, 2] = 1  # a vertical stroke
    x, mean, down, across, down_size, across_size = _pictures(image(pixels), 0)
    assert np.array_equal(x, pixels.double().numpy())
    assert not down.any()
    assert not down_size.any()
    assert across[1, 1] > 0 > across[1, 3]
    assert np.array_equal(across_size, abs(across))
    assert mean[1, 2] == pytest.approx(0.5)


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    draw_digits(image(torch.rand(4, 4, generator=torch.Generator().manual_seed(0))), [0, 0], tmp_path / "digits.png")
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
