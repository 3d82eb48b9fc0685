"""Attribution of a prediction to atoms and bonds, drawn on the molecule by RDKit."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.data.datasets.smiles import parse_smiles
from dgn.data.io.atomic import atomic_file
from dgn.plot.attribution import Attribution
from dgn.plot.curves import literal
from dgn.plot.picture import check_picture

SIZE = (640, 480)  # at least
BOND = 60  # pixels per bond of a large molecule
COLORS = ((0.70, 0.35, 0.02), (1.0, 1.0, 1.0), (0.33, 0.15, 0.53))  # negative, zero, positive
LETTER = 13.0  # font size of the legend in pixels, reduced to fit the width
SURE = 0.75  # fraction of members that must agree on the sign of a share
WRITTEN = 0.12  # fraction of the largest share above which a share is written beside its atom


def draw_attribution(
    smiles: str, shares: Attribution, path: Path, name: str = "prediction", baseline: str = "without features"
) -> None:
    """Draw positive shares in violet and negative ones in brown, as Gaussians over atoms and bonds.

    The larger shares are written beside the atoms (with a question mark where members disagree on the sign), and their
    sum in the legend, which describes the ``baseline``. Large molecules make large pictures. ``shares.edges`` holds
    both directions of every bond in RDKit's order, as :func:`dgn.data.datasets.smiles.read_smiles` returns them.
    """
    check_picture(path)
    picture = render_attribution(smiles, shares, path.suffix, name, baseline)
    with atomic_file(path) as unfinished:
        unfinished.write_bytes(picture)


def render_attribution(
    smiles: str, shares: Attribution, suffix: str, name: str, baseline: str, numbered: bool = False
) -> bytes:
    """The picture of :func:`draw_attribution`; if ``numbered``, shares have the numbers of their atoms, from 1."""
    parsed = parse_smiles(smiles)
    bonds = bond_shares(shares.edges)
    if (parsed.GetNumAtoms(), parsed.GetNumBonds()) != (len(shares.nodes), len(bonds)):
        raise ValueError(
            f"shares: expected those of {parsed.GetNumAtoms()} atoms and {parsed.GetNumBonds()} bonds, got "
            f"{len(shares.nodes)} and {len(bonds)}; pass the SMILES that was attributed"
        )
    _write_shares(parsed, shares, numbered)
    legend = f"{name} {shares.prediction:.3g} = {shares.baseline:.3g} {baseline}"
    legend += f" {float(shares.nodes.sum()):+.3g} by atoms {float(bonds.sum()):+.3g} by bonds"
    return _render(parsed, shares.nodes, bonds, suffix, legend)


def bond_shares(edges: Tensor) -> Tensor:
    """The sum over both directions of every bond, which are adjacent. [E] to [E / 2]

    >>> bond_shares(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [3.0, 7.0]
    """
    return edges.view(-1, 2).sum(dim=1)


def agreement(members: Tensor) -> Tensor:
    """The fraction of members [M, R] whose share has the sign of their mean: [R].

    >>> agreement(torch.tensor([[1.0, -1.0], [2.0, -1.0], [3.0, 1.0]])).tolist()
    [1.0, 0.6666666865348816]
    """
    return (members.sign() == members.mean(dim=0).sign()).float().mean(dim=0)


def _write_shares(parsed: Any, shares: Attribution, numbered: bool) -> None:
    largest = float(shares.nodes.abs().max())
    members = [member.nodes for member in shares.members] or [shares.nodes]
    sure = (agreement(torch.stack(members)) >= SURE).tolist()
    for atom, share, is_sure in zip(parsed.GetAtoms(), shares.nodes.tolist(), sure, strict=True):
        number = f"{atom.GetIdx() + 1}" if numbered else ""
        if abs(share) > WRITTEN * largest:
            number += f"{': ' * numbered}{share:+.2g}{'' if is_sure else '?'}"
        if number:
            atom.SetProp("atomNote", number)


def letters(text: str, size: tuple[int, int] = SIZE) -> list[tuple[list[list[float]], bool]]:
    """The outlines of a line of text at the lower edge, in pixels, and whether each is a hole; holes come last.

    >>> [inside for _, inside in letters("o")]
    [False, True]
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), literal(text), size=LETTER, prop=FontProperties("DejaVu Sans"))
    box = path.get_extents()
    scale = min(1.0, (size[0] - 24) / box.width)
    outlines = []
    for outline in path.to_polygons():
        x, y = np.asarray(outline, dtype=np.float64).T
        inside = float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum()) > 0  # outer outlines are clockwise
        across, down = size[0] / 2 + scale * (x - box.x0 - box.width / 2), size[1] - 18 - scale * y
        outlines.append((np.stack([across, down], axis=1).tolist(), inside))
    return sorted(outlines, key=lambda pair: pair[1])


def _render(parsed: Any, atoms: Tensor, bonds: Tensor, suffix: str, legend: str) -> bytes:
    from rdkit.Chem.Draw import rdMolDraw2D
    from rdkit.Geometry import Point2D

    # Explicit hydrogens at stereo centres would have no share.
    molecule = rdMolDraw2D.PrepareMolForDrawing(parsed, addChiralHs=False)
    position = molecule.GetConformer().GetPositions()[:, :2]
    extent = np.ptp(position, axis=0) if len(position) else np.zeros(2)
    width, height = (max(least, round(BOND * length / 1.5) + 120) for least, length in zip(SIZE, extent, strict=True))
    drawer = (rdMolDraw2D.MolDraw2DSVG if suffix == ".svg" else rdMolDraw2D.MolDraw2DCairo)(width, height)
    middles = [(position[bond.GetBeginAtomIdx()] + position[bond.GetEndAtomIdx()]) / 2 for bond in molecule.GetBonds()]
    spots = [Point2D(*map(float, spot)) for spot in (*position, *middles)]
    heights = torch.cat([atoms, bonds]).tolist()
    options: Any = drawer.drawOptions()
    options.annotationFontScale, options.padding, options.fixedFontSize = 0.6, 0.06, 18
    options.prepareMolsBeforeDrawing = False  # done above
    drawer.ClearDrawing()
    if any(heights):
        contours: Any = rdMolDraw2D.ContourParams()
        contours.setColourMap(COLORS)
        contours.fillGrid, contours.extraGridPadding = True, 1.0  # to where the Gaussians vanish
        contours.gridResolution = 0.16 if suffix == ".svg" else 0.08  # an SVG has an element for each cell
        widths = [0.42] * len(position) + [0.28] * len(middles)
        rdMolDraw2D.ContourAndDrawGaussians(drawer, spots, heights, widths, nContours=8, params=contours, mol=molecule)
        options.clearBackground = False
    drawer.DrawMolecule(molecule)
    # RDKit's own legend would shift the molecule against its contours, lacks accents, and breaks names such as NR-AR
    # like atom symbols.
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(0)
    for outline, inside in letters(legend, (width, height)):
        drawer.SetColour((1.0, 1.0, 1.0) if inside else (0.0, 0.0, 0.0))
        drawer.DrawPolygon([Point2D(*point) for point in outline], rawCoords=True)
    drawer.FinishDrawing()
    text: str | bytes = drawer.GetDrawingText()
    return text.encode() if isinstance(text, str) else text
