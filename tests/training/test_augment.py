"""Augmentation: the law of each transformation, and that validation is not augmented."""

import math
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
import torch

import dgn
from dgn.aggregation import make_plan
from dgn.data import PackedGraphs, add_directions
from dgn.data.datasets.coordinates import add_coordinates
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.eigenspaces import find_eigenspaces
from dgn.testing import complete, cycle, disjoint_union, path
from dgn.training.augment import augment, changes_field, is_active, mirrors_alone
from dgn.training.config import AugmentationSettings
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from dgn.training.tta import reflect_weights
from tests.training.small import make_benchmark, make_experiment, molecules

IDENTITY = SimpleNamespace(compute_weights=lambda field, *_: field)  # weights that are the field itself
MIRROR_REMEDY = "leave it out, or set augmentation.reflection"
EVERYTHING = {"reflection": True, "rotation": 45.0, "distortion": 0.1, "resample": True}


def make_dataset(graphs, *nodes):
    dataset = DeviceDataset(graphs, {"nodes": ["component", *nodes], "edges": ["edge_field"]}, "cpu")
    dataset.eigenspaces = find_eigenspaces(graphs, dataset.graph, None)
    return dataset


@pytest.fixture(scope="module")
def dataset():
    return make_dataset(molecules())


def augmented(dataset, seed=0, plan=IDENTITY, **settings):
    return augment(plan, dataset, AugmentationSettings(**settings), torch.Generator().manual_seed(seed)).weights


def of_edge(dataset):
    return dataset.graph.batch[dataset.graph.target]


def row_sums(dataset, values):
    return dataset.graph.sum_to_target(values)


def test_reflection_flips_whole_directions_of_graphs(dataset):
    field, result = dataset.edges["edge_field"], augmented(dataset, reflection=True)
    assert torch.equal(result.abs(), field.abs())
    flipped = (result * field < 0) & (field != 0)
    unflipped = (result * field > 0) & (field != 0)
    flips = torch.zeros(40, 2).index_add(0, of_edge(dataset), flipped.float()) > 0
    keeps = torch.zeros(40, 2).index_add(0, of_edge(dataset), unflipped.float()) > 0
    assert not (flips & keeps).any()  # one sign for a graph
    assert 8 < flips[:, 0].sum() < 32
    assert 4 < (flips[:, 0] ^ flips[:, 1]).sum() < 36  # one draw for each direction


def test_rotation_is_by_one_angle_for_each_graph(dataset):
    field, graph = dataset.edges["edge_field"], dataset.graph
    plain = field / row_sums(dataset, field**2).sqrt()[graph.target].clamp(min=1e-12)
    result = augmented(dataset, rotation=60.0)
    lengths = row_sums(dataset, result**2)
    is_direction = row_sums(dataset, field**2) > 1e-12  # below is rounding
    torch.testing.assert_close(lengths[is_direction], torch.ones(int(is_direction.sum())))
    assert not lengths[~is_direction].any()
    cosine = row_sums(dataset, plain * result)[:, 0]
    assert (cosine[is_direction[:, 0]] >= math.cos(math.radians(60)) - 1e-5).all()
    turned = is_direction[:, 0] & (cosine < 1 - 1e-4)  # elsewhere the two directions span no plane
    angles = [cosine[turned & (graph.batch == number)] for number in range(40)]
    assert all(angle.max() - angle.min() < 1e-3 for angle in angles if len(angle))
    assert torch.stack([angle.mean() for angle in angles if len(angle)]).std() > 0.02


def test_rotation_changes_no_sum_of_absolute_weights(dataset):
    plan = make_plan(["av1", "dx1", "dx2"])
    plain = plan.compute_weights(dataset.edges["edge_field"], dataset.graph)
    none, some = (augmented(dataset, plan=plan, rotation=degrees) for degrees in (1e-6, 90.0))
    torch.testing.assert_close(none.edge, plain.edge, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(some.edge, plain.edge, atol=1e-2)
    torch.testing.assert_close(
        row_sums(dataset, some.edge.abs()), row_sums(dataset, plain.edge.abs()), atol=1e-5, rtol=0
    )


def test_distortion_is_bounded_and_antisymmetric(dataset):
    field, graph = dataset.edges["edge_field"], dataset.graph
    noise = augmented(dataset, distortion=0.3) - field
    count = of_edge(dataset).bincount(minlength=40).clamp(min=1)[:, None]
    mean = torch.zeros(40, 2).index_add(0, of_edge(dataset), field.abs()) / count
    bound = 0.3 * mean[of_edge(dataset)]
    assert (noise.abs() <= bound + 1e-6).all()
    assert noise.abs().max() > 0.8 * bound.max()
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, 2)
    dense[graph.source, graph.target] = noise
    torch.testing.assert_close(dense, -dense.transpose(0, 1), atol=1e-6, rtol=0)


def test_resampling_mixes_repeated_eigenspaces_only(dataset):
    field, result = dataset.edges["edge_field"], augmented(dataset, resample=True)
    repeated = molecules().nodes["repeated"][dataset.graph.target]
    assert torch.equal(result[~repeated], field[~repeated])
    mixed = (of_edge(dataset) % 3 == 1) & repeated.all(dim=1)  # rings, whose first eigenspace has two dimensions
    assert 0.2 < mixed.float().mean() < 0.8
    # A rotation of two columns keeps the length of every row of two numbers.
    torch.testing.assert_close(result[mixed].norm(dim=1), field[mixed].norm(dim=1), atol=1e-6, rtol=0)
    moved = torch.zeros(40).index_add(0, of_edge(dataset), (result - field).norm(dim=1))
    rings = torch.arange(1, 40, 3)
    assert (moved[rings] > 1e-3).all()
    turn = [(field[of_edge(dataset) == ring].T @ result[of_edge(dataset) == ring]).flatten() for ring in rings[:2]]
    assert not torch.allclose(
        turn[0] / turn[0].norm(), turn[1] / turn[1].norm(), atol=1e-2
    )  # each ring by its own rotation


@pytest.mark.parametrize("settings", [*({name: value} for name, value in EVERYTHING.items()), EVERYTHING])
def test_the_generator_determines_the_augmentation(dataset, settings):
    plan = make_plan(["av1", "dx1"])
    one, same, other = (augmented(dataset, seed, plan, **settings) for seed in (0, 0, 1))
    assert torch.equal(one.edge, same.edge)
    assert torch.equal(one.self, same.self)
    assert not torch.equal(one.edge, other.edge)
    assert one.edge.isfinite().all()


def test_rotation_needs_two_directions():
    dataset = DeviceDataset(molecules(), {"edges": ["edge_field"]}, "cpu")
    dataset.edges["edge_field"] = dataset.edges["edge_field"][:, :1]
    with pytest.raises(ValueError, match=r"augmentation.rotation: expected at least 2 directions to rotate, got 1"):
        augmented(dataset, rotation=10.0)


def test_no_augmentation_amplifies_rounding_to_a_direction(dataset):
    plan = make_plan(["dx1"])
    plain = row_sums(dataset, plan.compute_weights(dataset.edges["edge_field"], dataset.graph).edge.abs()) > 0
    unmixed = ~molecules().nodes["repeated"].any(dim=1)
    for settings in ({"resample": True}, {"reflection": True}, {"rotation": 1e-3}):
        result = row_sums(dataset, augmented(dataset, plan=plan, **settings).edge.abs()) > 0
        assert torch.equal(result[unmixed], plain[unmixed])
    assert not plain[unmixed].all()


def test_resampling_of_coordinates_is_refused():
    pictures = add_coordinates(PackedGraphs.pack([cycle(4), cycle(5)]), torch.rand(9, 2))
    with pytest.raises(ValueError, match=r"augmentation.resample: expected eigenvectors that were computed"):
        find_eigenspaces(pictures, pictures.graph, None)


def test_resampling_reaches_vectors_beyond_the_last_column():
    """Direction 1 of a ring has a partner, those of a complete graph of six nodes have three more."""
    graphs = add_directions(PackedGraphs.pack([cycle(6), complete(6), path(5)]), k=1)
    dataset = make_dataset(graphs, "node_potential")
    assert dataset.eigenspaces.gap.size(1) == 5
    result = seen(dataset, resample=True)
    batch, potential = dataset.graph.batch, dataset.nodes["node_potential"]
    drawn, field = result.nodes["node_potential"], dgn.gradient(result.nodes["node_potential"], dataset.graph)
    torch.testing.assert_close(result.weights, field, atol=1e-6, rtol=0)
    for graph, edges, moves in ((0, cycle(6), True), (1, complete(6), True), (2, path(5), False)):
        value = dgn.directions(*edges, k=1).eigenvalues[0, 0].float()
        one = drawn[batch == graph]
        torch.testing.assert_close(dgn.laplacian(*edges).float() @ one, value * one, atol=1e-5, rtol=0)
        torch.testing.assert_close(one.norm(), torch.tensor(1.0))
        assert torch.equal(one, potential[batch == graph]) != moves


@pytest.mark.parametrize("name", ["reflection", "resample"])
def test_potentials_follow_their_field(name):
    dataset = make_dataset(molecules(), "node_potential")
    result = seen(dataset, **{name: True})
    expected = dgn.gradient(result.nodes["node_potential"], dataset.graph)
    torch.testing.assert_close(result.weights, expected, atol=1e-6, rtol=0)
    assert not torch.equal(result.nodes["node_potential"], dataset.nodes["node_potential"])


def test_noise_on_the_potential_leaves_a_gradient():
    dataset = make_dataset(molecules(), "node_potential")
    result, potential, batch = seen(dataset, distortion=0.3, distortion_of="potential"), *bounds_of(dataset)
    noise = (result.nodes["node_potential"] - dataset.nodes["node_potential"]).abs()
    assert (noise <= 0.3 * potential[batch] + 1e-6).all()
    assert noise.max() > 0.25 * potential.max()
    torch.testing.assert_close(
        result.weights, dgn.gradient(result.nodes["node_potential"], dataset.graph), atol=1e-6, rtol=0
    )


def bounds_of(dataset):
    """The mean absolute value of each potential in each graph, and the graph of each node."""
    batch, potential = dataset.graph.batch, dataset.nodes["node_potential"]
    return torch.stack([potential[batch == graph].abs().mean(dim=0) for graph in range(40)]), batch


def test_each_connected_component_has_a_sign_of_its_own():
    pairs = disjoint_union(*[path(3)] * 200)
    dataset = make_dataset(add_directions(PackedGraphs.pack([pairs[:2], path(4)]), k=2))
    ratio = (augmented(dataset, reflection=True) / dataset.edges["edge_field"])[: 200 * 4].view(200, 4, 2)
    signs = ratio.nanmean(dim=1)
    assert (signs.abs() == 1).all()
    assert (signs.mean(dim=0).abs() < 0.25).all()
    assert len(signs.unique(dim=0)) == 4  # directions are independent


@pytest.mark.parametrize(
    ("settings", "network", "message"),
    [
        ({"rotation": 9.0}, {"num_eigenvector_features": 2}, "rotation: .* reads the field alone, got .*num_eigenvec"),
        ({"rotation": 9.0}, {"readout": "directional"}, "rotation: .* reads the field alone, got .*readout: direct"),
        ({"distortion": 0.1}, {"num_eigenvector_features": 2}, "distortion: .*set augmentation.distortion_of: poten"),
    ],
)
def test_changes_that_no_potential_can_follow_are_refused(settings, network, message):
    experiment = make_experiment(data={"directions": 2}, augmentation=settings, network=network)
    with pytest.raises(ValueError, match=rf"^augmentation\.{message}"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))


def losses(augmentation, network=MappingProxyType({}), graphs=None):
    benchmark = make_benchmark()
    benchmark = benchmark if graphs is None else replace(benchmark, graphs=graphs)
    experiment = make_experiment(augmentation=augmentation, network=dict(network))
    (result,) = train(experiment, benchmark, [1], None, "cpu")
    return [row["train_loss"] for row in result.history]


def test_training_on_rings_differs_with_and_without_resampling():
    example = make_benchmark().graphs
    rings = add_directions(PackedGraphs.pack([cycle(5 + index % 4) for index in range(60)]), k=1)
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(5, (rings.num_nodes,), generator=draw)
    split = torch.arange(60) % 3
    rings = rings.with_values(
        nodes={"x": x},
        edges={"edge_attr": torch.zeros(rings.num_edges, dtype=example.edges["edge_attr"].dtype)},
        graphs={"y": torch.rand(60, generator=draw), "split": split.to(torch.uint8)},
    )
    plain, resampled = (losses({"resample": resample}, graphs=rings) for resample in (False, True))
    assert plain != resampled


@pytest.mark.parametrize(
    ("settings", "readout"),
    [
        ({"reflection": True}, "mean"),  # the directional readout is blind to the sign of a connected graph
        ({"resample": True}, "mean"),
        ({"resample": True}, "directional"),
        ({"distortion": 0.3, "distortion_of": "potential"}, "mean"),
        ({"distortion": 0.3, "distortion_of": "potential"}, "directional"),
    ],
)
def test_augmentation_changes_the_loss_of_positional_inputs(settings, readout):
    network = {"aggregators": ["mean"], "readout": readout, "num_eigenvector_features": 2 * (readout == "mean")}
    plain, changed = (losses(augmentation, network) for augmentation in ({}, settings))
    assert plain != changed


def test_resampling_without_repeated_eigenvalues_is_the_identity():
    graphs = molecules().select(
        (~molecules().nodes["repeated"].any(dim=1)[molecules().node_pointer[:-1]]).nonzero()[:, 0]
    )
    dataset = make_dataset(graphs)
    assert torch.equal(augmented(dataset, resample=True), dataset.edges["edge_field"])


@pytest.fixture(scope="module")
def pictures():
    """Forty graphs with a colour and two coordinates as node features; the coordinates are the directions too."""
    graphs, draw = molecules(), torch.Generator().manual_seed(3)
    x = torch.rand(graphs.num_nodes, 3, generator=draw)
    graphs = add_coordinates(graphs.with_values(nodes={"x": x}), x[:, 1:])
    dataset = DeviceDataset(graphs, {"nodes": ["x", "node_potential"], "edges": ["edge_field"]}, "cpu")
    dataset.deviation = x.std(dim=0, unbiased=False)
    return dataset


def seen(dataset, seed=0, **settings):
    return augment(IDENTITY, dataset, AugmentationSettings(**settings), torch.Generator().manual_seed(seed))


def test_mirrored_graphs_have_mirrored_coordinates_and_field(pictures):
    result, batch = seen(pictures, mirror=True), pictures.graph.batch
    x, now = pictures.nodes["x"], result.nodes["x"]
    assert torch.equal(now[:, :2], x[:, :2])
    same = torch.tensor([torch.equal(now[batch == g], x[batch == g]) for g in range(40)])
    assert 10 < same.sum() < 30
    for g in (~same).nonzero()[:, 0]:
        old, new = x[batch == g, 2], now[batch == g, 2]
        torch.testing.assert_close(new, old.min() + old.max() - old)
    assert torch.equal(result.nodes["node_potential"], now[:, 1:])
    gradient = now[pictures.graph.source, 1:] - now[pictures.graph.target, 1:]
    torch.testing.assert_close(result.weights, gradient)
    assert pictures.nodes["x"] is x  # the dataset is unchanged


def test_precomputed_weights_of_mirrored_graphs_equal_those_of_their_fields(pictures):
    plan, settings = make_plan(["fwd2", "dx2-signed", "dx1", "fwd1-2"]), AugmentationSettings(mirror=True)
    precomputed = pictures.replaced(plan.compute_weights(pictures.edges["edge_field"], pictures.graph))
    precomputed.mirrored = reflect_weights(plan, precomputed)
    result, expected = (
        augment(plan, dataset, settings, torch.Generator().manual_seed(0)) for dataset in (precomputed, pictures)
    )
    assert torch.equal(result.weights.edge, expected.weights.edge)
    assert torch.equal(result.weights.self, expected.weights.self)
    for one in precomputed.weights, precomputed.mirrored:
        assert not any(torch.equal(a, b) for a, b in zip(result.weights, one, strict=True))


def test_mirroring_alone_allows_precomputed_weights():
    assert mirrors_alone(AugmentationSettings(mirror=True, cutout=0.3, input_noise=0.1))
    assert not mirrors_alone(AugmentationSettings(mirror=True, distortion=0.1))
    assert not mirrors_alone(AugmentationSettings(cutout=0.3))


def test_features_that_are_no_coordinates_are_not_mirrored(pictures):
    plain = pictures.replaced(pictures.weights, {"x": pictures.nodes["x"][:, :1]})
    assert torch.equal(seen(plain, mirror=True).nodes["x"], plain.nodes["x"])


def test_mirroring_is_an_involution(pictures):
    once = seen(pictures, mirror=True)
    again = DeviceDataset.replaced(once, once.weights)
    again.edges = {"edge_field": once.weights}
    torch.testing.assert_close(seen(again, mirror=True).nodes["x"], pictures.nodes["x"])


def test_cutout_replaces_a_square_by_the_mean(pictures):
    result, batch = seen(pictures, cutout=0.4), pictures.graph.batch
    x, now = pictures.nodes["x"], result.nodes["x"]
    assert torch.equal(now[:, 1:], x[:, 1:])  # coordinates stay
    assert result.weights is pictures.weights
    for g in range(40):
        old, new = x[batch == g], now[batch == g]
        hidden = old[:, 0] != new[:, 0]
        torch.testing.assert_close(new[hidden, 0], old[:, 0].mean().expand(int(hidden.sum())))
        width = old[:, 1:].amax(dim=0) - old[:, 1:].amin(dim=0)
        near = ((old[:, None, 1:] - old[None, :, 1:]).abs() <= 0.2 * width).all(dim=2)
        assert len(old) == 1 or (near == hidden).all(dim=1).any()  # a square around one of the nodes


def test_cutout_applies_to_mirrored_graphs(pictures):
    result, mirrored = seen(pictures, mirror=True, cutout=0.4), seen(pictures, mirror=True)
    assert torch.equal(result.nodes["x"][:, 1:], mirrored.nodes["x"][:, 1:])
    share = (result.nodes["x"][:, 0] != mirrored.nodes["x"][:, 0]).float().mean()
    assert 0.02 < share < 0.5


def test_input_noise_is_constant_over_a_graph(pictures):
    result, batch = seen(pictures, input_noise=0.5), pictures.graph.batch
    moved = result.nodes["x"] - pictures.nodes["x"]
    of_graph = torch.stack([moved[batch == g][0] for g in range(40)])
    torch.testing.assert_close(moved, of_graph[batch])
    size = 0.5 * pictures.nodes["x"].std(dim=0, unbiased=False)
    assert ((of_graph.std(dim=0) / size) > 0.7).all()
    assert ((of_graph.std(dim=0) / size) < 1.4).all()
    assert result.weights is pictures.weights


def test_input_noise_is_scaled_by_the_deviation_of_training_nodes():
    original = make_benchmark("classification", coordinates=True)
    x = torch.rand(original.graphs.num_nodes, 2, generator=torch.Generator().manual_seed(3))
    shown = (original.graphs.graphs["split"] == 0)[original.graphs.graph.batch]
    for factor in (1, 100):
        graphs = original.graphs.with_values(nodes={"x": torch.where(shown[:, None], x, factor * x)})
        benchmark = replace(original, graphs=graphs, node_categories=None)
        dataset = prepare(make_experiment(augmentation={"input_noise": 0.2}), benchmark, torch.device("cpu")).store
        torch.testing.assert_close(dataset.deviation, x[shown].std(dim=0, unbiased=False))


@pytest.mark.parametrize("name", ["input_noise", "cutout"])
def test_categorical_features_are_refused(name):
    with pytest.raises(ValueError, match=rf"augmentation\.{name}: expected continuous node features"):
        seen(DeviceDataset(molecules(), {"nodes": ["x"]}, "cpu"), **{name: 0.1})


@pytest.mark.parametrize(
    ("name", "settings", "remedy"),
    [
        ("augmentation.cutout", {"augmentation": {"cutout": 0.3}}, "leave it out"),
        ("network.tta_mirror", {"network": {"tta_mirror": True}}, "leave it out"),
        ("augmentation.mirror", {"augmentation": {"mirror": True}}, MIRROR_REMEDY),
        (
            "augmentation.mirror",
            {"augmentation": {"mirror": True}, "network": {"num_eigenvector_features": 1}},
            MIRROR_REMEDY,
        ),
    ],
)
def test_cutout_and_mirroring_need_coordinates(name, settings, remedy):
    experiment = make_experiment(data={"directions": 2}, **settings)
    with pytest.raises(ValueError, match=rf"^{name}: expected graphs with coordinates, got .*; {remedy}$"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))


def test_any_changed_setting_is_active():
    assert not is_active(AugmentationSettings())
    assert all(is_active(AugmentationSettings(**{name: value})) for name, value in EVERYTHING.items())
    assert is_active(AugmentationSettings(input_noise=0.1))
    assert not changes_field(AugmentationSettings(input_noise=0.1, cutout=0.1))
    assert changes_field(AugmentationSettings(mirror=True))


def test_splits_are_not_augmented():
    plain, changed = (
        prepare(make_experiment(data={"directions": 2}, augmentation=settings), make_benchmark(), torch.device("cpu"))
        for settings in ({}, EVERYTHING)
    )
    for name in ("train", "val", "test"):
        for one, other in zip(plain.splits[name].batches, changed.splits[name].batches, strict=True):
            assert torch.equal(one.weights.edge, other.weights.edge)
