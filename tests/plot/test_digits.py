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


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that would have been saved."""
    saved: list[Any] = []
    monkeypatch.setattr("dgn.plot.digits.save_png", lambda figure, _: saved.append(figure))
    return saved


def three_digits() -> PackedGraphs:
    pixels = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(0))
    return images(*pixels).with_values(graphs={"y": torch.tensor([7, 8, 9])})


def test_digits_are_shown_that_only_the_last_network_reads(figures: list[Any], tmp_path: Path) -> None:
    predictions = {"mean": torch.tensor([7, 1, 2]), "av": torch.tensor([7, 8, 2]), "dx": torch.tensor([7, 8, 2])}
    draw_digits(three_digits(), predictions, tmp_path / "digits.png")
    titles = [axes.get_title() for axes in figures[0].axes]
    assert "8, not 1" in titles
    assert "9, not 2" not in titles  # none of them reads it
    assert next(axes for axes in figures[0].axes if axes.get_ylabel()).get_ylabel() == "digit 8"


def test_bars_are_shares_of_misread_digits(figures: list[Any], tmp_path: Path) -> None:
    predictions = {"mean": torch.tensor([7, 1, 2]), "dx": torch.tensor([7, 8, 2])}
    draw_digits(three_digits(), predictions, tmp_path / "digits.png")
    axes = next(axes for axes in figures[0].axes if axes.get_title() == "misread of 3 test digits")
    assert [text.get_text() for text in axes.texts] == ["66.7 %", "33.3 %"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([200 / 3, 100 / 3])


def test_derivatives_share_their_scale_and_arrows_have_their_colour(figures: list[Any], tmp_path: Path) -> None:
    from matplotlib.colors import to_hex

    draw_digits(three_digits(), {"mean": torch.tensor([7, 8, 9])}, tmp_path / "digits.png")  # nothing is misread
    row = figures[0].axes[:6]
    assert len({axes.images[0].get_clim() for axes in row[2:]}) == 1
    for arrows, title in zip(row[0].collections, (row[2].title, row[3].title), strict=True):
        assert to_hex(arrows.get_facecolor()[0]) == title.get_color()
        assert to_hex(arrows.get_edgecolor()[0]) == "#ffffff"
