"""One page to explore the fields of some graphs: a file that works offline."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from dgn.plot.picture import direction_note
from dgn.plot.scene import Scene
from dgn.spectral.laplacians import Normalization
from dgn.training.run_folder import write_text

MOST_NODES = 300  # above, the page would answer too slowly
SCRIPTS = ("field.js", "graph.js", "view.js")


def write_page(scenes: Sequence[Scene], path: Path, k: int = 2, normalization: Normalization = None) -> None:
    """Write a page on which direction, operator, hardening and signal are chosen, and the field turned and distorted.

    Potentials are computed here, everything else in the page, in the same way: F, the gradient of direction k, is
    distorted (:func:`dgn.distort`), turned towards the next direction (:func:`dgn.rotate`, ``collinear="keep"``),
    normalised by rows, cut to one side, hardened, and made an operator. The page loads nothing.
    """
    check_page(scenes, path)
    given = json.dumps([describe(scene, k, normalization) for scene in scenes], allow_nan=False, separators=(",", ":"))
    parts = {
        "style": _part("page.css"),
        "script": "\n".join(_part(name) for name in SCRIPTS),
        "scenes": given.replace("<", "\\u003c"),  # a name must not end the script that holds it
    }
    page = _part("page.html")
    for name, text in parts.items():
        before, after = page.split(f"{{{{{name}}}}}")
        page = before + text + after
    write_text(path, page)


def check_page(scenes: Sequence[Scene], path: Path) -> None:
    """Refuse a name that does not say HTML, no graph, and graphs that are too large."""
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path}: expected a page called .html, got {path.suffix or 'no suffix'}; rename it")
    if not scenes:
        raise ValueError("scenes: expected one or more graphs to choose from, got none")
    for scene in scenes:
        if scene.num_nodes > MOST_NODES:
            raise ValueError(
                f"{scene.name}: expected at most {MOST_NODES} nodes on a page, got {scene.num_nodes}; draw a picture "
                "with --out, or a part of the graph"
            )


def describe(scene: Scene, k: int, normalization: Normalization = None) -> dict[str, Any]:
    """What the page needs to know of a graph, as JSON takes it."""
    found = scene.directions(k, normalization)
    lines = [[*ends, kind] for ends, kind in zip(scene.pairs().tolist(), scene.line_orders(), strict=True)]
    return {
        "name": scene.name,
        "word": scene.node_word,
        "labels": list(scene.labels),
        "position": scene.places().tolist(),
        "source": scene.edge_index[0].tolist(),
        "target": scene.edge_index[1].tolist(),
        "lines": lines,
        "potential": found.potential.T.tolist(),
        "notes": [direction_note(found, number) for number in range(1, found.potential.size(1) + 1)],
        "signals": {name: signal.tolist() for name, signal in scene.signals.items()},
    }


def _part(name: str) -> str:
    return (files("dgn.plot") / "page" / name).read_text(encoding="utf-8").rstrip()
