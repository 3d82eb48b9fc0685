"""The page: one self-contained file that makes no requests."""

import json
import re
from pathlib import Path

import pytest

from dgn.plot.page import write_page
from dgn.plot.sources import read_scene

pytest.importorskip("rdkit", reason="RDKit is optional")


def embedded(path: Path) -> list[dict[str, object]]:
    match = re.search(r'<script id="scenes" type="application/json">(.*?)</script>', path.read_text(), re.DOTALL)
    assert match is not None
    scenes: list[dict[str, object]] = json.loads(match[1])
    return scenes


def test_the_page_is_self_contained_and_exact(tmp_path: Path) -> None:
    scene = read_scene("CC(=O)O")
    write_page([scene], tmp_path / "page.html", 2)
    text = (tmp_path / "page.html").read_text()
    addresses = set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}  # an XML namespace
    assert not addresses
    assert not re.search(r"\ssrc=|@import|url\(|fetch\(|XMLHttpRequest", text)
    assert "{{" not in text
    assert embedded(tmp_path / "page.html")[0]["potential"] == scene.directions(2).potential.T.tolist()


def test_names_cannot_close_the_script_element(tmp_path: Path) -> None:
    graph = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">{}</graph></graphml>'
    )
    (tmp_path / "odd.graphml").write_text(graph.format('<node id="&lt;/script&gt;&lt;b&gt;"/>'))
    write_page([read_scene(str(tmp_path / "odd.graphml"))], tmp_path / "page.html")
    assert embedded(tmp_path / "page.html")[0]["labels"] == ["</script><b>"]


def test_large_graphs_and_no_graph_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected at most 300 nodes on a page, got 301"):
        write_page([read_scene("C" * 301)], tmp_path / "page.html")
    with pytest.raises(ValueError, match="scenes: expected one or more graphs"):
        write_page([], tmp_path / "page.html")
