"""The figure of digits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn.data import PackedGraphs
from dgn.plot.digits import _images, draw_digits

pytest.importorskip("matplotlib")


def images(*pixels: torch.Tensor) -> PackedGraphs:
    """Images of one size as grid graphs with coordinates (row, column) as potentials."""
    position = torch.cartesian_prod(*(torch.arange(side) for side in pixels[0].shape)).float()
    edges = (torch.cdist(position, position, p=1) == 1).nonzero().T
    source, target = edges
    count = len(pixels)
    return PackedGraphs.pack([(edges, len(position))] * count).with_values(
        nodes={"x": torch.stack(pixels).reshape(-1, 1), "node_potential": position.repeat(count, 1)},
        edges={"edge_field": (position[source] - position[target]).repeat(count, 1)},
    )


def test_derivatives_lie_where_the_image_changes() -> None:
    pixels = torch.zeros(4, 5)
    pixels[:, 2] = 1  # a vertical stroke
    x, mean, down, across, down_size, across_size = _images(images(pixels), 0)
    assert np.array_equal(x, pixels.double().numpy())
    assert not down.any()
    assert not down_size.any()
    assert across[1, 1] > 0 > across[1, 3]
    assert np.array_equal(across_size, abs(across))
    assert mean[1, 2] == pytest.approx(0.5)


def test_digits_share_their_scales_and_arrows_have_the_colour_of_their_derivative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.colors import to_hex

    figures: list[Any] = []
    monkeypatch.setattr("dgn.plot.digits.save_png", lambda figure, _: figures.append(figure))
    faint, bold = torch.zeros(4, 4), torch.zeros(4, 4)
    faint[1, 1], bold[1, 1] = 0.1, 1.0
    digits = images(faint, bold).with_values(graphs={"y": torch.tensor([7, 8])})
    draw_digits(digits, [0, 1], tmp_path / "digits.png")
    axes = figures[0].axes
    assert [axes[0].get_ylabel(), axes[6].get_ylabel()] == ["digit 7", "digit 8"]
    assert len({place.images[0].get_clim() for place in (*axes[2:6], *axes[8:12])}) == 1
    assert len(axes) == 2 * 6 + 2  # and two scales
    for arrows, title in zip(axes[0].collections, (axes[2].title, axes[3].title), strict=True):
        assert to_hex(arrows.get_facecolor()[0]) == title.get_color()
        assert to_hex(arrows.get_edgecolor()[0]) == "#ffffff"


def test_the_figure_is_a_png(tmp_path: Path) -> None:
    draw_digits(images(torch.rand(4, 4, generator=torch.Generator().manual_seed(0))), [0, 0], tmp_path / "digits.png")
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
