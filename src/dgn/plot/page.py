"""An interactive page of the fields of graphs: one HTML file that works offline."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from dgn.plot.picture import direction_note
from dgn.plot.scene import Scene
from dgn.spectral.laplacians import Normalization
from dgn.training.run_folder import write_text

MOST_NODES = 300  # above, the page would be too slow
SCRIPTS = ("field.js", "graph.js", "view.js")


def write_page(scenes: Sequence[Scene], path: Path, k: int = 2, normalization: Normalization = None) -> None:
    """Write a page with controls for direction, operator, hardening and signal, rotation and distortion.

    Potentials are computed here, the rest by the page as by dgn: F, the gradient of direction k, is distorted
    (:func:`dgn.distort`), rotated towards the next direction (:func:`dgn.rotate`, ``collinear="keep"``), normalised
    by rows, restricted to one side, hardened, and made an operator. The page makes no requests.
    """
    check_page(scenes, path)
    data = json.dumps([describe(scene, k, normalization) for scene in scenes], allow_nan=False, separators=(",", ":"))
    slots = {
        "style": _read("page.css"),
        "script": "\n".join(_read(name) for name in SCRIPTS),
        "scenes": data.replace("<", "\\u003c"),  # a name must not close the script element
    }
    page = _read("page.html")
    for name, text in slots.items():
        before, after = page.split(f"{{{{{name}}}}}")
        page = before + text + after
    write_text(path, page)


def check_page(scenes: Sequence[Scene], path: Path) -> None:
    """Refuse another suffix than HTML's, no graph, and graphs that are too large."""
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path}: expected a page called .html, got {path.suffix or 'no suffix'}; rename it")
    if not scenes:
        raise ValueError("scenes: expected one or more graphs to choose from, got none")
    for scene in scenes:
        if scene.num_nodes > MOST_NODES:
            raise ValueError(
                f"{scene.name}: expected at most {MOST_NODES} nodes on a page, got {scene.num_nodes}; draw a picture "
                "with --out, or a subgraph"
            )


def describe(scene: Scene, k: int, normalization: Normalization = None) -> dict[str, Any]:
    """The data of a graph for the page, as JSON values."""
    vectors = scene.directions(k, normalization)
    lines = [[*ends, order] for ends, order in zip(scene.pairs().tolist(), scene.line_orders(), strict=True)]
    return {
        "name": scene.name,
        "word": scene.node_word,
        "labels": list(scene.labels),
        "position": scene.places().tolist(),
        "source": scene.edge_index[0].tolist(),
        "target": scene.edge_index[1].tolist(),
        "lines": lines,
        "potential": vectors.potential.T.tolist(),
        "notes": [direction_note(vectors, index) for index in range(1, vectors.potential.size(1) + 1)],
        "signals": {name: signal.tolist() for name, signal in scene.signals.items()},
    }


def _read(name: str) -> str:
    return (files("dgn.plot") / "page" / name).read_text(encoding="utf-8").rstrip()
