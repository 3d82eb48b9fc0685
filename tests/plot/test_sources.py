"""Scenes from SMILES and files, and inputs that are refused."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn.data import PackedGraphs
from dgn.plot.scene import Scene
from dgn.plot.sources import read_scene

pytest.importorskip("rdkit", reason="RDKit is optional")
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="x" for="node" attr.name="x" attr.type="double"/><key id="y" for="node" attr.name="y" attr.type="double"/>
<key id="h" for="node" attr.name="heat" attr.type="int"/><key id="w" for="edge" attr.name="weight" attr.type="double"/>
<key id="s" for="node" attr.name="colour" attr.type="string"/>
<graph edgedefault="{edge_default}">
<node id="a"><data key="x">0</data><data key="y">1</data><data key="h">7</data><data key="s">red</data></node>
<node id="b"><data key="x">2</data><data key="y">3</data><data key="h">8</data></node>
<edge source="a" target="b"><data key="w">2.5</data></edge>
</graph></graphml>"""


def test_a_molecule_has_atoms_bonds_and_coordinates() -> None:
    scene = read_scene("C=CC#N")
    assert scene.labels == ("C0", "C1", "C2", "N3")
    assert scene.signals["atomic number"].tolist() == [6, 6, 6, 7]
    assert scene.signals["degree"].tolist() == [1, 2, 2, 1]
    assert scene.line_orders() == [2.0, 1.0, 3.0]
    ends = scene.position[scene.pairs().numpy()]
    assert np.allclose(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), 1, atol=0.05)


@pytest.mark.parametrize(("edge_default", "edges"), [("undirected", [[0, 1], [1, 0]]), ("directed", [[0], [1]])])
def test_graphml_has_positions_weights_and_signals(tmp_path: Path, edge_default: str, edges: list[list[int]]) -> None:
    path = tmp_path / "pair.graphml"
    path.write_text(GRAPHML.format(edge_default=edge_default))
    scene = read_scene(str(path))
    assert scene.labels == ("a", "b")
    assert scene.edge_index.tolist() == edges
    assert scene.position.tolist() == [[0, 1], [2, 3]]
    assert set(scene.signals) == {"degree", "heat"}
    assert scene.directions(1).eigenvalues.tolist() == [[pytest.approx(5)]]


def test_packed_graphs_are_chosen_by_index_and_laid_out(tmp_path: Path) -> None:
    graphs = PackedGraphs.pack([(PATH, 3), (PATH, 4)]).with_values(nodes={"x": torch.arange(7)})
    graphs.save(tmp_path / "two.safetensors")
    scene = read_scene(str(tmp_path / "two.safetensors"), 1)
    assert scene.num_nodes == 4
    assert scene.signals["x0"].tolist() == [3, 4, 5, 6]
    ends = scene.position[scene.pairs().numpy()]
    assert np.allclose(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), 1, atol=0.05)
    assert scene.position[3, 0] > scene.position[:3, 0].max()
    holes = graphs.with_values(nodes={"x": torch.tensor([[1.0, torch.nan]]).repeat(7, 1)})
    holes.save(tmp_path / "holes.safetensors")
    assert set(read_scene(str(tmp_path / "holes.safetensors")).signals) == {"degree", "x0"}
    placed = graphs.with_values(nodes={"pos": torch.arange(14.0).view(7, 2)})
    placed.save(tmp_path / "placed.safetensors")
    assert read_scene(str(tmp_path / "placed.safetensors")).position.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_large_component_is_laid_out_by_its_directions(tmp_path: Path) -> None:
    ring = torch.stack([torch.arange(200), (torch.arange(200) + 1) % 200])
    PackedGraphs.pack([(ring, 200)]).save(tmp_path / "ring.safetensors")
    place = read_scene(str(tmp_path / "ring.safetensors")).position
    radius = np.linalg.norm(place - place.mean(axis=0), axis=1)
    assert np.allclose(radius, radius[0])


def test_directions_that_do_not_exist_are_left_out() -> None:
    assert read_scene("CC.C").directions(5).potential.shape == (3, 1)
    assert read_scene("C").directions(5).potential.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("source", "graph", "message"),
    [
        ("C1CC", None, "smiles: expected a molecule that RDKit can read"),
        ("", None, "expected at least one node to draw"),
        ("none.graphml", None, "none.graphml: expected a file with a graph, found nothing"),
        ("none.npz", None, "none.npz: expected a file with a graph, found nothing"),
        ("table.csv", None, "table.csv: expected SMILES or a file called .graphml"),
        ("bad.graphml", None, "expected a graph as GraphML"),
        ("CC", 1, "graph: expected an index only with a file of many graphs"),
        ("weight.graphml", None, "weight.graphml: expected numbers as weight of the edges, got 'heavy'"),
        ("none.safetensors", 0, "none.safetensors, graph 0: expected at least one node to draw"),
        ("line.safetensors", None, r"position: expected finite numbers of shape \[3, 2\], got shape \[3\]"),
        ("two.safetensors", 2, "graph: expected an index from 0 to 1, got 2"),
    ],
)
def test_inputs_that_cannot_be_drawn_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, graph: int | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("smiles\nCC\n")
    Path("bad.graphml").write_text("<graphml><graph>")
    heavy = GRAPHML.format(edge_default="directed").replace(
        '"weight" attr.type="double"', '"weight" attr.type="string"'
    )
    Path("weight.graphml").write_text(heavy.replace(">2.5<", ">heavy<"))
    PackedGraphs.pack([(PATH[:, :0], 0)]).save("none.safetensors")
    PackedGraphs.pack([(PATH, 3)]).with_values(nodes={"pos": torch.rand(3)}).save("line.safetensors")
    PackedGraphs.pack([(PATH, 3), (PATH, 4)]).save("two.safetensors")
    with pytest.raises((ValueError, FileNotFoundError), match="^.*" + message):
        read_scene(source, graph)


def test_a_long_smiles_with_a_dot_is_not_a_file() -> None:
    assert read_scene(f"{'C' * 300}.[Na+]").num_nodes == 301


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('attr.type="int"', 'attr.type="number"'),
        ('attr.type="int"', 'attr.type="boolean"'),
        ('attr.type="string"', 'attr.type="double"'),
        ("<graphml", '<?xml version="1.0" encoding="klingon"?><graphml'),
        ("<graph ", '<key id="q" for="node" attr.name="q" attr.type="boolean"><default/></key><graph '),
    ],
)
def test_graphml_with_bad_attributes_is_refused(tmp_path: Path, good: str, bad: str) -> None:
    path = tmp_path / "bad.graphml"
    path.write_text(GRAPHML.format(edge_default="directed").replace(good, bad, 1))
    with pytest.raises(ValueError, match=r"bad\.graphml: expected a graph as GraphML"):
        read_scene(str(path))


def test_without_rdkit_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r"pip install 'dgn\[molecules\]'"):
        read_scene("CC")


def test_positions_must_be_finite() -> None:
    with pytest.raises(ValueError, match="position: expected finite numbers of shape"):
        Scene("pair", PATH, np.full((3, 2), np.nan), ("a", "b", "c"))


def test_positions_are_in_edge_lengths_unless_nodes_would_overlap() -> None:
    far = Scene("path", PATH, np.array([[0.0, 0.0], [50.0, 0.0], [100.0, 0.0]]), ("a", "b", "c"))
    assert far.places()[:, 0].tolist() == [0, 1, 2]
    star = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]])
    crowd = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0], [10.0, 3.0]])
    assert Scene("star", star, crowd, tuple("abcde")).places()[2, 1] == pytest.approx(0.65)
    assert Scene("one", PATH[:, :0], np.array([[3.0, 4.0]]), ("a",)).places().shape == (1, 2)
    assert np.isfinite(Scene("same", PATH, np.zeros((3, 2)), ("a", "b", "c")).places()).all()
    piled = np.array([[0.0, 0.0], [0.0, 0.0], [1e6, 0.0]])
    assert Scene("piled", PATH, piled, ("a", "b", "c")).places()[:, 0].tolist() == [0, 0, 1]
