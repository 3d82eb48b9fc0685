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

SIZE = (640, 480)
COLORS = ((0.70, 0.35, 0.02), (1.0, 1.0, 1.0), (0.33, 0.15, 0.53))  # negative, zero, positive
LETTER = 13.0  # font size of the legend in pixels, reduced to fit the width
WRITTEN = 0.12  # fraction of the largest share above which a share is written beside its atom


def draw_attribution(smiles: str, shares: Attribution, path: Path, name: str = "prediction") -> None:
    """Draw positive shares in violet and negative ones in brown, as Gaussians over atoms and bonds.

    The larger shares are written beside the atoms, and their sum in the legend. ``shares.edges`` holds both
    directions of every bond in RDKit's order, as :func:`dgn.data.datasets.smiles.read_smiles` returns them.
    """
    check_picture(path)
    parsed = parse_smiles(smiles)
    bonds = bond_shares(shares.edges)
    if (parsed.GetNumAtoms(), parsed.GetNumBonds()) != (len(shares.nodes), len(bonds)):
        raise ValueError(
            f"shares: expected those of {parsed.GetNumAtoms()} atoms and {parsed.GetNumBonds()} bonds, got "
            f"{len(shares.nodes)} and {len(bonds)}; pass the SMILES that was attributed"
        )
    _write_shares(parsed, shares.nodes)
    legend = f"{name} {shares.prediction:.3g} = {shares.baseline:.3g} without features"
    legend += f" {float(shares.nodes.sum()):+.3g} by atoms {float(bonds.sum()):+.3g} by bonds"
    picture = _render(parsed, shares.nodes, bonds, path.suffix, legend)
    with atomic_file(path) as unfinished:
        unfinished.write_bytes(picture)


def bond_shares(edges: Tensor) -> Tensor:
    """The sum over both directions of every bond, which are adjacent. [E] to [E / 2]

    >>> bond_shares(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [3.0, 7.0]
    """
    return edges.view(-1, 2).sum(dim=1)


def _write_shares(parsed: Any, atoms: Tensor) -> None:
    largest = float(atoms.abs().max())
    for atom, share in zip(parsed.GetAtoms(), atoms.tolist(), strict=True):
        if abs(share) > WRITTEN * largest:
            atom.SetProp("atomNote", f"{share:+.2g}")


def letters(text: str) -> list[tuple[list[list[float]], bool]]:
    """The outlines of a line of text at the lower edge, in pixels, and whether each is a hole; holes come last.

    >>> [inside for _, inside in letters("o")]
    [False, True]
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), literal(text), size=LETTER, prop=FontProperties("DejaVu Sans"))
    box = path.get_extents()
    scale = min(1.0, (SIZE[0] - 24) / box.width)
    outlines = []
    for outline in path.to_polygons():
        x, y = np.asarray(outline, dtype=np.float64).T
        inside = float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum()) > 0  # outer outlines are clockwise
        across, down = SIZE[0] / 2 + scale * (x - box.x0 - box.width / 2), SIZE[1] - 18 - scale * y
        outlines.append((np.stack([across, down], axis=1).tolist(), inside))
    return sorted(outlines, key=lambda pair: pair[1])


def _render(parsed: Any, atoms: Tensor, bonds: Tensor, suffix: str, legend: str) -> bytes:
    from rdkit.Chem.Draw import rdMolDraw2D
    from rdkit.Geometry import Point2D

    drawer = (rdMolDraw2D.MolDraw2DSVG if suffix == ".svg" else rdMolDraw2D.MolDraw2DCairo)(*SIZE)
    # Explicit hydrogens at stereo centres would have no share.
    molecule = rdMolDraw2D.PrepareMolForDrawing(parsed, addChiralHs=False)
    position = molecule.GetConformer().GetPositions()[:, :2]
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
        contours.fillGrid, contours.gridResolution, contours.extraGridPadding = (
            True,
            0.08,
            1.0,
        )  # where the Gaussians vanish
        widths = [0.42] * len(position) + [0.28] * len(middles)
        rdMolDraw2D.ContourAndDrawGaussians(drawer, spots, heights, widths, nContours=8, params=contours, mol=molecule)
        options.clearBackground = False
    drawer.DrawMolecule(molecule)
    # RDKit's own legend would shift the molecule against its contours, lacks accents, and breaks names such as NR-AR
    # like atom symbols.
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(0)
    for outline, inside in letters(legend):
        drawer.SetColour((1.0, 1.0, 1.0) if inside else (0.0, 0.0, 0.0))
        drawer.DrawPolygon([Point2D(*point) for point in outline], rawCoords=True)
    drawer.FinishDrawing()
    text: str | bytes = drawer.GetDrawingText()
    return text.encode() if isinstance(text, str) else text
