"""The look of the gallery's figures: sphinx-gallery calls ``apply`` before each script."""

from typing import Any

import matplotlib as mpl

INK = "#2b2d33"
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": mpl.cycler(color=["#5e3c99", "#e08214", "#8c8f98", "#b2abd2", "#b35806"]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.figsize": (8.4, 3.6),
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "savefig.dpi": 150,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def apply(gallery: dict[str, Any], script: str) -> None:  # noqa: ARG001, the arguments of sphinx-gallery
    """Start a script from our style, whatever the one before has changed."""
    mpl.rcdefaults()
    mpl.rcParams.update(STYLE)
