"""Directions and coordinates as PyG transforms, alone, in datasets and in batches."""

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import BaseTransform, Compose

import dgn
from dgn.graph import checks
from dgn.testing import complete, cycle, disjoint_union, edge_cases, grid, path, random_graph, star
from dgn.transforms import AddCoordinates, AddDirectedFields, AddDirections

GRAPHS = [grid(2, 3), path(4), path(1), star(3), disjoint_union(path(2), path(3))[:2]]
CLOSE = {"atol": 1e-7, "rtol": 1e-6}  # the transform always takes the solver of many graphs


def data(graph, **attributes):
    return Data(edge_index=graph[0], num_nodes=graph[1], **attributes)


def with_positions(graph, dimensions=2):
    return data(graph, pos=torch.randn(graph[1], dimensions, generator=torch.Generator().manual_seed(graph[1])))


class Graphs(InMemoryDataset):
    """The graphs above, processed into a folder."""

    def __init__(self, root, **transforms):
        super().__init__(root, log=False, **transforms)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self):
        return "data.pt"

    def process(self):
        graphs = [with_positions(graph) for graph in GRAPHS]
        self.save([self.pre_transform(g) if self.pre_transform else g for g in graphs], self.processed_paths[0])


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize("graph", edge_cases().values(), ids=edge_cases())
def test_directions_are_those_of_the_library(graph, normalization):
    got = AddDirections(3, normalization)(data(graph))
    expected = dgn.directions(*graph, k=3, normalization=normalization)
    assert (got.node_potential.dtype, got.edge_field.dtype) == (torch.float32, torch.float32)
    field = dgn.gradient(expected.potential, graph[0])
    torch.testing.assert_close(got.node_potential, expected.potential.float(), **CLOSE)
    torch.testing.assert_close(got.edge_field, field.float(), **CLOSE)


def test_weights_enter_the_field_on_request():
    weight = torch.tensor([1.0, 1.0, 5.0, 5.0])
    graph = data(path(3), edge_weight=weight)
    plain, weighted = AddDirections(2)(graph.clone()), AddDirections(2, weighted_field=True)(graph.clone())
    torch.testing.assert_close(weighted.edge_field, weight[:, None] * plain.edge_field)
    assert torch.equal(weighted.node_potential, plain.node_potential)
    with pytest.raises(
        ValueError, match=r"data: expected edge_weight for AddDirections\(weighted_field=True\), got none"
    ):
        AddDirections(2, weighted_field=True)(data(path(3)))


def test_arcsine_potentials_are_those_of_the_library():
    for normalization in (None, "rw"):
        got = AddDirections(2, normalization, arcsine=True)(data(grid(3, 5)))
        directions = dgn.directions(*grid(3, 5), k=2, normalization=normalization)
        expected = dgn.arcsine(directions.potential, directions.component)
        torch.testing.assert_close(got.node_potential, expected.float(), **CLOSE)
        torch.testing.assert_close(got.edge_field, dgn.gradient(expected, grid(3, 5)[0]).float(), **CLOSE)


def test_bases_of_arcsine_potentials_are_not_drawn():
    with pytest.raises(ValueError, match="whole_eigenspaces: expected False with arcsine=True"):
        AddDirections(2, arcsine=True, whole_eigenspaces=True)


def test_bases_of_weighted_fields_are_not_drawn():
    with pytest.raises(ValueError, match="whole_eigenspaces: expected False with weighted_field=True, got True"):
        AddDirections(2, whole_eigenspaces=True, weighted_field=True)


def test_the_field_is_not_a_difference_of_rounded_potentials():
    long = data(path(2000))
    field = AddDirections(1)(long).edge_field.double()[:, 0]
    exact = dgn.gradient(dgn.directions(*path(2000), k=1).potential, path(2000)[0])[:, 0].double()
    assert ((field - exact).abs() <= 2**-23 * exact.abs()).all()


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_coordinates_are_potentials(dimensions):
    graph = with_positions(grid(2, 3), dimensions)
    got = AddCoordinates()(graph)
    source, target = graph.edge_index
    assert torch.equal(got.node_potential, graph.pos)
    assert torch.equal(got.edge_field, graph.pos[source] - graph.pos[target])


def test_a_named_attribute_of_one_dimension_is_one_direction():
    got = AddCoordinates("height")(data(path(3), height=torch.tensor([0.0, 2.0, 5.0])))
    assert got.node_potential.shape == (3, 1)
    assert got.edge_field[:, 0].tolist() == [-2.0, -3.0, 2.0, 3.0]


@pytest.mark.parametrize("transform", [AddDirections(2), AddCoordinates()], ids=repr)
def test_a_transform_leaves_its_input_alone(transform):
    graph = with_positions(path(4))
    got = transform(graph)
    assert "edge_field" not in graph
    assert torch.equal(got.edge_index, graph.edge_index)


@pytest.mark.parametrize("transform", [AddDirections(2), AddCoordinates()], ids=repr)
@pytest.mark.parametrize("stage", ["transform", "pre_transform"])
def test_loaders_batch_what_was_added(transform, stage, tmp_path):
    dataset = Graphs(tmp_path, **{stage: transform})
    alone = [transform(with_positions(graph)) for graph in GRAPHS]
    first, second = DataLoader(dataset, batch_size=3)
    for batch, members in ((first, alone[:3]), (second, alone[3:])):
        assert torch.equal(batch.node_potential, torch.cat([member.node_potential for member in members]))
        assert torch.equal(batch.edge_field, torch.cat([member.edge_field for member in members]))
        assert (batch.edge_field.size(0), batch.node_potential.size(0)) == (batch.num_edges, batch.num_nodes)
        for member, graph in zip(batch.to_data_list(), members, strict=True):
            assert torch.equal(member.edge_field, graph.edge_field)
    # The offsets of nodes are right: the gradient of the batched potential is the batched field.
    torch.testing.assert_close(
        dgn.gradient(first.node_potential, first.edge_index), first.edge_field, rtol=1e-5, atol=1e-6
    )


def test_a_batch_gets_the_directions_of_its_graphs():
    graphs = [data(graph) for graph in GRAPHS]
    together = AddDirections(2)(Batch.from_data_list(graphs))
    torch.testing.assert_close(together.edge_field, torch.cat([AddDirections(2)(graph).edge_field for graph in graphs]))


def test_transforms_compose_and_are_shown():
    both = Compose([AddDirections(k=1, normalization="sym")])
    assert both(data(complete(3))).edge_field.shape == (6, 1)
    assert repr(AddDirections(1, "sym")) == "AddDirections(k=1, normalization='sym')"
    assert repr(AddCoordinates("x")) == "AddCoordinates(attribute='x')"


def test_missing_coordinates_are_refused():
    with pytest.raises(
        ValueError, match=r"expected coordinates in 'pos', got .*edge_index.*AddCoordinates\(attribute="
    ):
        AddCoordinates()(data(path(3)))


@pytest.mark.parametrize(
    ("pos", "error"), [(torch.ones(2, 2), ValueError), (torch.ones(3, 2).long(), TypeError)], ids=["rows", "integers"]
)
def test_coordinates_that_do_not_fit_are_refused(pos, error):
    with pytest.raises(error, match="pos: expected"):
        AddCoordinates()(data(path(3), pos=pos))


def test_unknown_normalizations_are_refused():
    with pytest.raises(ValueError, match="did you mean 'sym'"):
        AddDirections(1, "symm")(data(path(3)))


def test_a_graph_without_nodes_has_coordinates():
    empty = Data(edge_index=torch.zeros(2, 0).long(), num_nodes=0, pos=torch.zeros(0, 2))
    assert AddCoordinates()(empty).edge_field.shape == (0, 2)


def small_graphs():
    """Graphs with repeated eigenvalues, two components, one node, no node; as many components as the others have."""
    isolated = torch.zeros(2, 0, dtype=torch.long)
    return [
        data(graph)
        for graph in (grid(3, 5), complete(4), (isolated, 1), (isolated, 0), path(7), (isolated, 3), path(2))
    ]


@pytest.mark.parametrize(
    "options", [{}, {"normalization": "rw"}, {"arcsine": True}, {"whole_eigenspaces": True}], ids=str
)
def test_all_graphs_of_a_dataset_at_once(options):
    graphs, transform = small_graphs(), AddDirections(3, **options)
    for got, graph in zip(transform.transform_all(graphs), graphs, strict=True):
        assert "edge_field" not in graph
        expected = transform(graph)
        assert got.keys() == expected.keys()
        for name in ("node_potential", "edge_field", "gap", "component"):
            torch.testing.assert_close(got[name], expected[name], atol=0, rtol=0, equal_nan=True)
            assert got[name].untyped_storage().nbytes() == got[name].nbytes  # does not hold those of all graphs


def test_weights_enter_the_directions_of_all_graphs():
    graphs = [data(path(4)), data(grid(2, 3))]
    for graph in graphs:
        graph.edge_weight = torch.rand(graph.num_edges) + 0.5
    transform = AddDirections(2, weighted_field=True)
    for got, graph in zip(transform.transform_all(graphs), graphs, strict=True):
        assert torch.equal(got.edge_field, transform(graph).edge_field)
    del graphs[0].edge_weight
    with pytest.raises(ValueError, match="data: expected edge_weight") as error:
        transform.transform_all(graphs)
    assert error.value.__notes__ == ["in graph 0"]
    plain = AddDirections(2)  # some have weights, others not
    for got, graph in zip(plain.transform_all(graphs), graphs, strict=True):
        assert torch.equal(got.edge_field, plain(graph).edge_field)


def test_the_graph_at_fault_is_named():
    graphs = [data(path(4)), data(path(3))]
    graphs[1].edge_index[0, 0] = 3
    with pytest.raises(ValueError, match="edge_index: expected nodes from 0 to below num_nodes=3") as error:
        AddDirections(1).transform_all(graphs)
    assert error.value.__notes__ == ["in graph 1"]


def test_eigenspaces_of_earlier_directions_are_removed():
    before = AddDirections(1, whole_eigenspaces=True)(data(cycle(4)))
    assert "eigenspaces" not in AddDirections(3)(before)
    assert "eigenspaces" not in AddDirections(3).transform_all([before])[0]
    assert "eigenspaces" in before


def test_weights_of_another_graph_are_refused():
    graphs = [data(path(3), edge_weight=torch.ones(6)), data(cycle(3), edge_weight=torch.ones(4))]  # 10 together
    with pytest.raises(ValueError, match="edge_weight: expected 4 rows") as error:
        AddDirections(1).transform_all(graphs)
    assert error.value.__notes__ == ["in graph 0"]


@pytest.mark.filterwarnings("ignore:Unable to accurately infer")
def test_inferred_nodes_of_all_graphs_are_checked(monkeypatch):
    monkeypatch.setattr(checks, "DENSE_NODES", 100)
    graph = Data(edge_index=torch.tensor([[0], [5000]]))
    with pytest.raises(ValueError, match="edge_index: expected nodes numbered from 0, got node 5000"):
        AddDirections(1).transform_all([data(path(3)), graph])


def test_what_is_no_list_of_data_is_refused():
    with pytest.raises(TypeError, match="graphs: expected a list or dataset of Data, got a single Data"):
        AddDirections(1).transform_all(data(path(3)))
    hetero = HeteroData()
    hetero["a"].x, hetero["a", "to", "a"].edge_index = torch.ones(2, 2), path(2)[0]
    for transform in (AddDirections(1), AddDirectedFields(), AddDirections(1).transform_all):
        with pytest.raises(TypeError, match=r"edge_index: expected .* a homogeneous PyG Data"):
            transform(hetero if isinstance(transform, BaseTransform) else [hetero])


@pytest.mark.parametrize("normalization", [None, "sym"])
def test_the_route_of_connected_graphs_gives_the_same_bits(normalization, monkeypatch):
    pytest.importorskip("numba", reason="Numba is not installed")
    draw = torch.Generator().manual_seed(0)
    graphs = [random_graph(n, 0.3, draw) for n in (2, 3, 5, 9, 20, 47, 48, 49, 60)]
    graphs += [path(2), path(3), star(6), complete(5), cycle(7), grid(4, 4), grid(3, 20), GRAPHS[-1]]
    transform, results = AddDirections(4, normalization), []
    for use in (True, False):
        if not use:
            monkeypatch.setattr(AddDirections, "_solve_connected", lambda *_: False)
        results.append([transform(data(graph)) for graph in graphs])
    for fast, plain in zip(*results, strict=True):
        for name in ("node_potential", "edge_field", "gap", "component"):
            torch.testing.assert_close(fast[name], plain[name], atol=0, rtol=0, equal_nan=True)


def test_connected_graphs_take_their_route():
    pytest.importorskip("numba", reason="Numba is not installed")
    from dgn.spectral.solvers.direct import solve_connected

    assert solve_connected(dgn.as_graph(*path(7)), 2, symmetric=False) is not None
    assert solve_connected(dgn.as_graph(*GRAPHS[-1]), 2, symmetric=False) is None  # two components
    assert solve_connected(dgn.as_graph(*star(9)), 2, symmetric=False) is None  # an eigenspace of seven vectors
