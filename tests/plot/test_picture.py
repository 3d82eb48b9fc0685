"""The figure of a graph: contents and file formats."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from dgn.plot.curves import new_figure
from dgn.plot.graph_view import INK, SIGNED, arrows, ink_on
from dgn.plot.picture import NOTHING, _compose, direction_note, draw_picture, settle
from dgn.plot.scene import Scene
from dgn.plot.sources import read_scene
from dgn.plot.spectrum_view import multiples

pytest.importorskip("rdkit", reason="RDKit is optional")


@pytest.mark.parametrize("smiles", ["CC(=O)O", "O", "CC.[Na+]"])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_reproducible_to_the_byte(tmp_path: Path, smiles: str, suffix: str) -> None:
    scene, first, second = read_scene(smiles), tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    draw_picture(scene, first, normalization="rw")
    draw_picture(scene, second, normalization="rw")
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [first.name, second.name]
    if suffix == ".svg":
        assert ElementTree.parse(first).getroot().tag.endswith("svg")
    else:
        assert first.read_bytes().startswith(b"\x89PNG")


def test_every_requested_direction_is_drawn(tmp_path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context():
        draw_picture(read_scene("CCCC"), tmp_path / "one.svg", k=1)
        draw_picture(read_scene("CCCC"), tmp_path / "all.svg", k=9)
    one, all_three = ((tmp_path / name).read_text().count("B_{av}") for name in ("one.svg", "all.svg"))
    assert (one, all_three) == (1, 3)


def test_the_subtitle_explains_missing_directions() -> None:
    figure = _compose(read_scene("CC.[Na+]"), 2, None)
    note = "1 of 2 directions: n connected atoms have n − 1, and here at most 2 are connected"  # noqa: RUF001
    assert figure.get_suptitle() == f"CC.[Na+]\n{note}"
    assert _compose(read_scene("CCC"), 2, None).get_suptitle() == "CCC"


@pytest.mark.parametrize("smiles", ["C", "[Na+].[Cl-]"])
def test_a_graph_without_edges_is_drawn_alone(smiles: str) -> None:
    figure = _compose(read_scene(smiles), 2, None)
    (axes,) = figure.axes
    assert axes.get_title() == NOTHING
    assert "here none are connected" in figure.get_suptitle()


def spectrum_legend(smiles: str) -> list[str]:
    legend = _compose(read_scene(smiles), 1, None).axes[-1].get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def test_components_differ_in_the_spectrum() -> None:
    assert spectrum_legend("CCO.O.c1ccccc1") == ["C0 and 2 more", "C4 and 5 more"]
    assert spectrum_legend("CC.[Na+]") == []
    assert spectrum_legend(".".join(["CC"] * 7))[-2:] == ["C8 and 1 more", "the others"]
    axes = _compose(read_scene("CC.CC"), 1, None).axes[-1]
    first, second = (points for points in axes.collections if len(points.get_offsets()))
    assert tuple(first.get_edgecolor()[0]) != tuple(second.get_edgecolor()[0])
    assert first.get_offsets()[0][0] < second.get_offsets()[0][0]


@pytest.mark.parametrize("smiles", ["C1CC1", "CC", "c1ccccc1", "CC(=O)O"])
def test_the_spectrum_has_room_above_its_values(smiles: str) -> None:
    figure = _compose(read_scene(smiles), 1, None)
    settle(figure)
    axes = figure.axes[-1]
    top = axes.get_window_extent().y1
    assert all(text.get_window_extent().y1 < top for text in axes.texts)
    assert axes.transData.transform((1, max(spectrum_values(axes))))[1] < top - 8


def spectrum_values(axes: Axes) -> list[float]:
    return [float(points.get_offsets()[0][1]) for points in axes.collections if len(points.get_offsets())]


def test_the_titles_of_a_mixture_fit_on_the_paper() -> None:
    figure = _compose(read_scene("CO.CCO.CCCO.c1ccccc1.CCCCO"), 2, None)
    settle(figure)
    assert all(axes.title.get_window_extent().x0 > 0 for axes in figure.axes)


def test_arrows_point_uphill_and_vanish_where_the_field_does() -> None:
    scene = read_scene("CCC")
    assert arrows(scene, torch.tensor([0.0, 1.0, 1.0])) == [(0, 1, 1.0)]
    assert arrows(scene, torch.tensor([3.0, 0.0, 1.0])) == [(1, 0, 0.875), (1, 2, 0.625)]


def test_coinciding_nodes_are_drawn(tmp_path: Path) -> None:
    ends, place = torch.tensor([[0, 1, 2], [1, 2, 3]]), np.array([[0.0, 0.0], [0.0, 0.0], [1e6, 0.0], [2e6, 0.0]])
    draw_picture(Scene("piled", ends, place, tuple("abcd")), tmp_path / "a.png")  # and without a warning
    assert (tmp_path / "a.png").exists()


@pytest.mark.parametrize(("smiles", "lines"), [("CC", 1), ("C=C", 2), ("C#C", 3), ("[Re]$[Re]", 4), ("C->[Fe]", 1)])
def test_a_bond_has_as_many_lines_as_its_order(smiles: str, lines: int) -> None:
    bonds = _compose(read_scene(smiles), 1, None).axes[0].collections[0]
    assert len(bonds.get_segments()) == lines


def test_repeated_eigenvalues_are_noted() -> None:
    benzene = read_scene("c1ccccc1").directions(5)
    assert multiples(benzene, 0) == [(1, 2, 1.0), (3, 4, 3.0)]
    assert direction_note(benzene, 1) == "1.000, repeated: one basis of many"
    assert direction_note(read_scene("CCC").directions(1), 1) == "1.000, sign arbitrary"
    assert direction_note(read_scene("C").directions(1), 1) == "none: the graph has no edge"
    assert direction_note(read_scene("CO.CCO.CCCO.CCCCO").directions(1), 1).startswith("2.000 | 1.000 | 0.586 | ...")


def test_names_with_dollars_are_drawn_literally(tmp_path: Path) -> None:
    ends, place = torch.tensor([[0, 2], [1, 3]]), np.arange(8.0).reshape(4, 2)
    draw_picture(Scene("$n_$", ends, place, ("$x_$", "b", "$z_$", "d")), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for name in ("$n_$", "$x_$", "$z_$ and 1 more"):
        assert f"<!-- {name} -->" in text


def test_large_graphs_and_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"picture.pdf: expected a picture called .svg or .png, got .pdf"):
        draw_picture(read_scene("CC"), tmp_path / "picture.pdf")
    with pytest.raises(ValueError, match="expected at most 1000 nodes in a picture, got 1001"):
        draw_picture(read_scene("C" * 1001), tmp_path / "picture.png")


def luminance(color: Any) -> float:
    value = np.array(to_rgb(color))
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: Any, other: Any) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_has_contrast_on_every_colour() -> None:
    colors = colormaps[SIGNED]
    assert min(contrast(colors((share + 1) / 2), ink_on(share)) for share in np.linspace(-1, 1, 201)) > 3.6
    texts = [text for axes in _compose(read_scene("CC(=O)Oc1ccccc1"), 2, None).axes for text in axes.texts]
    assert {text.get_color() for text in texts} >= {"white", INK}


def matrix_numbers(smiles: str) -> list[tuple[float, float]]:
    """Width of every number in the matrices, and of its cell, in pixels."""
    figure = _compose(read_scene(smiles), 2, None)
    settle(figure)
    matrices = [axes for axes in figure.axes if axes.get_xlabel() == "from j"]
    cells = [axes.get_window_extent().width / (axes.get_xlim()[1] - axes.get_xlim()[0]) for axes in matrices]
    return [
        (text.get_window_extent().width, cell)
        for axes, cell in zip(matrices, cells, strict=True)
        for text in axes.texts
    ]


@pytest.mark.parametrize("smiles", ["CC", "CCCCCCCC", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"])
def test_numbers_fit_into_the_cells_of_a_matrix(smiles: str) -> None:
    numbers = matrix_numbers(smiles)
    assert numbers
    assert all(width < cell for width, cell in numbers)


def test_a_large_matrix_has_no_numbers() -> None:
    assert not matrix_numbers("C" * 16)


def test_positions_of_axes_are_rounded() -> None:
    figure = new_figure((3.0, 2.0))
    for axes in figure.subplots(1, 3):
        axes.set_ylabel("y")
    settle(figure)
    places = [value for axes in figure.axes for value in axes.get_position(original=True).bounds]
    assert places == pytest.approx([round(value, 9) for value in places], rel=0, abs=1e-15)
    assert places[0] > 0.05  # there is room for the label
