"""Every transform of PyG behind ours: the field is right afterwards, or an error names the remedy."""

import pytest
import torch
import torch_geometric.transforms as pyg
from torch_geometric.data import Batch, Data, InMemoryDataset

import dgn
from dgn.nn import DGN, DGNConv, NetworkSettings
from dgn.testing import cycle
from dgn.transforms import AddCoordinates, AddDirections, AddRings, CheckDirections, RandomBasis, RandomReflection

#: Transforms that change neither nodes nor edges.
HARMLESS = [
    "AddGPSE",
    "AddLaplacianEigenvectorPE",
    "AddRandomWalkPE",
    "BaseTransform",
    "Cartesian",
    "Center",
    "Compose",
    "ComposeFilters",
    "Constant",
    "Distance",
    "FeaturePropagation",
    "GenerateMeshNormals",
    "IndexToMask",
    "LaplacianLambdaMax",
    "LinearTransformation",
    "LocalCartesian",
    "LocalDegreeProfile",
    "MaskToIndex",
    "NodePropertySplit",
    "NormalizeFeatures",
    "NormalizeRotation",
    "NormalizeScale",
    "OneHotDegree",
    "PointPairFeatures",
    "Polar",
    "RandomFlip",
    "RandomJitter",
    "RandomNodeSplit",
    "RandomRotate",
    "RandomScale",
    "RandomShear",
    "RemoveTrainingClasses",
    "SIGN",
    "SVDFeatureReduction",
    "Spherical",
    "TargetIndegree",
    "ToDevice",
]
#: Transforms that make graphs of something else: meshes, images, several types of nodes, points without edges.
NO_GRAPH = ["AddMetaPaths", "AddRandomMetaPaths", "Delaunay", "FaceToEdge", "SamplePoints", "ToSLIC", "GridSampling"]
#: The field stays right, also where there are as many edges as nodes.
RIGHT = {
    "RemoveSelfLoops": pyg.RemoveSelfLoops(),
    "RemoveIsolatedNodes": pyg.RemoveIsolatedNodes(),
    "LargestConnectedComponents": pyg.LargestConnectedComponents(),
    "RemoveDuplicatedEdges with the field": pyg.RemoveDuplicatedEdges(key=["edge_field"], reduce="mean"),
    "RandomLinkSplit": lambda data: pyg.RandomLinkSplit()(data)[0],
    "Pad": pyg.Pad(12, 20),
    "VirtualNode": pyg.VirtualNode(),
    "RootedEgoNets": pyg.RootedEgoNets(1),
    "subgraph": lambda data: data.subgraph(torch.tensor([0, 1, 3, 4, 5])),
    "edge_subgraph": lambda data: data.edge_subgraph(torch.tensor([0, 2, 3, 7])),
    "sort": lambda data: data.sort(),
}
#: A layer refuses the field: it has not one row per edge, or the edges are not there.
REFUSED = {
    "AddSelfLoops": pyg.AddSelfLoops(),
    "AddRemainingSelfLoops": pyg.AddRemainingSelfLoops(),
    "GCNNorm": pyg.GCNNorm(),
    "GDC": pyg.GDC(),
    "HalfHop": pyg.HalfHop(),
    "LineGraph": lambda data: pyg.Constant()(pyg.LineGraph()(data)),
    "TwoHop": pyg.TwoHop(),
    "KNNGraph": pyg.KNNGraph(k=3),
    "RadiusGraph": pyg.RadiusGraph(0.5),
    "FixedPoints": pyg.FixedPoints(5, replace=False),
    "ToDense": pyg.ToDense(),
    "RootedRWSubgraph": pyg.RootedRWSubgraph(2),
}
#: The rows fit: ``DGN``, given the data, and ``CheckDirections`` refuse the field.
WRONG = {
    "ToUndirected": pyg.ToUndirected(),
    "RemoveDuplicatedEdges": pyg.RemoveDuplicatedEdges(),
    "RandomLinkSplit, undirected": lambda data: pyg.RandomLinkSplit(is_undirected=True)(data)[0],
    "other edges": lambda data: data.clone().update({"edge_index": data.edge_index.roll(1, dims=1)}),
}
EDGES = torch.tensor([[3, 0, 1, 2, 5, 4, 6, 0, 1], [0, 1, 2, 3, 4, 6, 5, 4, 0]])  # in no order, and node 7 is isolated


def data(num_edges: int) -> Data:
    torch.manual_seed(0)
    graph = Data(x=torch.randn(8, 4), edge_index=EDGES[:, :num_edges], pos=torch.rand(8, 2), number=torch.arange(8))
    return AddDirections(2)(AddRings([3, 4])(graph))


def applied(transform, graph):
    try:
        return transform(graph)
    except (ImportError, AttributeError) as error:
        if not any(package in str(error) for package in ("pyg", "torch-cluster", "torch_cluster")):  # by version of PyG
            raise
        pytest.skip(f"a package of PyG is not installed: {error}")


def convolved(graph):
    width = graph.x.size(1)
    return DGNConv(width, 3, ["mean", "dx2"])(graph.x, graph.edge_index, edge_field=graph.edge_field)


def predicted(graph):
    settings = NetworkSettings(hidden=8, num_layers=1, aggregators=["mean", "dx2"])
    return DGN(graph.x.size(1), settings)(graph)


def test_every_transform_of_pyg_is_looked_at():
    tried = {name.split()[0].rstrip(",") for name in (*RIGHT, *REFUSED, *WRONG)}
    assert {*pyg.__all__} - tried - {*HARMLESS, *NO_GRAPH, "ToSparseTensor"} == set()


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("num_edges", [8, 9])
@pytest.mark.parametrize("transform", RIGHT.values(), ids=RIGHT)
def test_the_field_follows_nodes_and_edges(transform, num_edges):
    before = data(num_edges)
    graph = applied(transform, before.clone())
    number, (source, target) = graph.number, graph.edge_index
    real = torch.ones(len(source), dtype=torch.bool)
    if graph.num_nodes > 8:  # nodes that were added have no direction
        real = (source < 8) & (target < 8)
        assert not graph.edge_field[~real].any()
    expected = before.node_potential[number[source]] - before.node_potential[number[target]]
    torch.testing.assert_close(graph.edge_field[real], expected[real], atol=1e-6, rtol=0)
    assert len(graph.edge_rings) == len(source)
    for name in ("node_potential", "gap", "component", "rings"):
        assert len(graph[name]) == graph.num_nodes
    assert convolved(graph).isfinite().all()
    assert predicted(graph).isfinite().all()


@pytest.mark.parametrize("num_edges", [8, 9])
@pytest.mark.parametrize("transform", REFUSED.values(), ids=REFUSED)
def test_a_layer_refuses_the_field_of_other_edges(transform, num_edges):
    graph = applied(transform, data(num_edges))
    with pytest.raises((ValueError, TypeError), match=r"before AddDirections|remove the edge|build it with"):
        convolved(graph)


@pytest.mark.parametrize("num_edges", [8, 9])
@pytest.mark.parametrize("transform", WRONG.values(), ids=WRONG)
def test_a_wrong_field_of_the_right_size_is_refused(transform, num_edges):
    graph = transform(data(num_edges))
    for use in (predicted, CheckDirections(), RandomBasis()):
        with pytest.raises(
            ValueError, match=r"edge_field: expected the slope of node_potential .*before AddDirections"
        ):
            use(graph)
    repaired = AddCoordinates("node_potential")(graph)  # the remedy
    torch.testing.assert_close(repaired.edge_field, dgn.gradient(graph.node_potential, graph.edge_index))
    assert predicted(repaired).isfinite().all()


def test_a_field_that_was_cancelled_is_refused():
    graph = pyg.ToUndirected()(AddDirections(2)(Data(x=torch.randn(6, 4), edge_index=cycle(6)[0])))
    assert not graph.edge_field.any()
    with pytest.raises(ValueError, match=r"got 0 on every edge; .*AddCoordinates\('node_potential'\) after them"):
        predicted(graph)


def test_a_field_of_ones_own_needs_no_potential():
    graph = data(9)
    graph.edge_field = torch.randn(9, 2)
    with pytest.raises(ValueError, match="delete node_potential if the field is your own"):
        predicted(graph)
    del graph.node_potential
    assert predicted(graph).isfinite().all()


def test_a_field_of_ones_own_beside_eigenvector_features():
    graph = data(9)
    graph.edge_field = torch.randn(9, 2)
    settings = NetworkSettings(hidden=8, aggregators=["mean", "dx1"], num_eigenvector_features=2)
    assert DGN(4, settings)(graph).isfinite().all()


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_the_field_follows_a_sparse_matrix():
    before = data(9)
    graph = pyg.ToSparseTensor(layout=torch.sparse_csr)(before.clone())
    layer = DGNConv(4, 3, ["mean", "dx2"])
    expected = layer(before.x, before.edge_index, edge_field=before.edge_field)
    torch.testing.assert_close(layer(graph.x, graph.adj_t, edge_field=graph.edge_field), expected)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("transform", [CheckDirections(), RandomReflection()], ids=repr)
def test_a_sparse_matrix_cannot_be_checked(transform):
    graph = pyg.ToSparseTensor(layout=torch.sparse_csr)(data(9))
    with pytest.raises(ValueError, match=r"data: expected edge_index for .*; apply it before ToSparseTensor"):
        transform(graph)
    with pytest.raises(TypeError, match="edge_index: expected a tensor"):
        DGN(4, NetworkSettings(hidden=8, aggregators=["mean", "dx1"]))(graph)


def test_a_single_direction_may_have_one_dimension():
    graph = data(9)
    graph.edge_field, graph.node_potential = graph.edge_field[:, 0], graph.node_potential[:, 0]
    CheckDirections()(graph)
    graph.edge_field = -graph.edge_field
    with pytest.raises(ValueError, match="edge_field: expected the slope of node_potential along each edge, got"):
        CheckDirections()(graph)


def test_a_batch_taken_apart_keeps_directions():
    graphs = [data(8), data(9), AddDirections(2)(data(9).subgraph(torch.arange(5)))]
    for got, expected in zip(Batch.from_data_list(graphs).to_data_list(), graphs, strict=True):
        assert got.keys() == expected.keys()
        for name in ("edge_field", "node_potential", "gap", "component", "edge_rings"):
            torch.testing.assert_close(got[name], expected[name], atol=0, rtol=0, equal_nan=True)


class Rings(InMemoryDataset):
    """Rings of different sizes, with whole eigenspaces, which have as many numbers as the graph has edges."""

    def __init__(self, root):
        super().__init__(root, pre_transform=AddDirections(2, whole_eigenspaces=True))
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self):
        return "rings.pt"

    def process(self):
        graphs = [Data(x=torch.ones(n, 1), edge_index=cycle(n)[0]) for n in (4, 5, 6)]
        self.save([self.pre_transform(graph) for graph in graphs], self.processed_paths[0])


def test_a_dataset_keeps_whole_eigenspaces(tmp_path):
    for graph, n in zip(Rings(tmp_path), (4, 5, 6), strict=True):
        assert graph.eigenspaces["vectors"].shape == (2 * n,) == (graph.num_edges,)
        expected = AddDirections(2, whole_eigenspaces=True)(Data(edge_index=cycle(n)[0], num_nodes=n))
        draws = [RandomBasis(torch.Generator().manual_seed(0))(one).edge_field for one in (graph, expected)]
        assert torch.equal(*draws)


def test_whole_eigenspaces_of_other_nodes_are_refused():
    graph = AddDirections(2, whole_eigenspaces=True)(Data(x=torch.ones(6, 1), edge_index=cycle(6)[0]))
    with pytest.raises(ValueError, match=r"eigenspaces: expected those of 4 nodes .* before AddDirections"):
        RandomBasis()(graph.subgraph(torch.arange(4)))
    with pytest.raises(ValueError, match=r"eigenspaces: expected those of 7 nodes .* before AddDirections"):
        RandomBasis()(pyg.VirtualNode()(graph))
    fewer_edges = graph.edge_subgraph(torch.arange(8))  # the same nodes: the field is that of the edges that are left
    drawn = RandomBasis()(fewer_edges)
    torch.testing.assert_close(
        drawn.edge_field, dgn.gradient(drawn.node_potential, drawn.edge_index), atol=1e-6, rtol=0
    )
