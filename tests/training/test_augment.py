"""The graphs of an epoch: what each augmentation does to them, and that validation never sees it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from dgn.aggregation import make_plan
from dgn.data.datasets.coordinates import add_coordinates
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.training.augment import augment, changes_field, is_active, mirrors_alone
from dgn.training.config import AugmentationSettings
from dgn.training.shared_data import prepare
from dgn.training.tta import reflect_weights
from tests.training.small import make_benchmark, make_experiment, molecules

AS_IT_IS = SimpleNamespace(compute_weights=lambda field, *_: field)  # shows the field itself
MIRROR_REMEDY = "leave it out, or set augmentation.reflection"
EVERYTHING = {"reflection": True, "rotation": 45.0, "distortion": 0.1, "resample": True}


@pytest.fixture(scope="module")
def store():
    names = {"nodes": ["gap", "component"], "edges": ["field"]}
    return DeviceDataset(molecules(), names, "cpu")


def augmented(store, seed=0, plan=AS_IT_IS, **settings):
    return augment(plan, store, AugmentationSettings(**settings), torch.Generator().manual_seed(seed)).weights


def of_edge(store):
    return store.graph.batch[store.graph.target]


def row_sums(store, values):
    return store.graph.sum_to_target(values)


def test_reflection_flips_each_direction_of_each_graph_or_leaves_it(store):
    field, found = store.edges["field"], augmented(store, reflection=True)
    assert torch.equal(found.abs(), field.abs())
    flipped = (found * field < 0) & (field != 0)
    kept = (found * field > 0) & (field != 0)
    flips = torch.zeros(40, 2).index_add(0, of_edge(store), flipped.float()) > 0
    keeps = torch.zeros(40, 2).index_add(0, of_edge(store), kept.float()) > 0
    assert not (flips & keeps).any()  # one sign for a whole graph
    assert 8 < flips[:, 0].sum() < 32
    assert 4 < (flips[:, 0] ^ flips[:, 1]).sum() < 36  # one draw for each direction


def test_rotation_turns_unit_rows_by_one_angle_for_each_graph(store):
    field, graph = store.edges["field"], store.graph
    plain = field / row_sums(store, field**2).sqrt()[graph.target].clamp(min=1e-12)
    found = augmented(store, rotation=60.0)
    lengths = row_sums(store, found**2)
    there = row_sums(store, field**2) > 1e-12  # what is less is rounding, and no direction
    torch.testing.assert_close(lengths[there], torch.ones(int(there.sum())))
    assert not lengths[~there].any()
    cosine = row_sums(store, plain * found)[:, 0]
    assert (cosine[there[:, 0]] >= math.cos(math.radians(60)) - 1e-5).all()
    turned = there[:, 0] & (cosine < 1 - 1e-4)  # elsewhere the two directions span no plane
    angles = [cosine[turned & (graph.batch == number)] for number in range(40)]
    assert all(each.max() - each.min() < 1e-3 for each in angles if len(each))
    assert torch.stack([each.mean() for each in angles if len(each)]).std() > 0.02


def test_rotation_changes_no_sum_of_absolute_weights(store):
    plan = make_plan(["av1", "dx1", "dx2"])
    plain = plan.compute_weights(store.edges["field"], store.graph)
    none, some = (augmented(store, plan=plan, rotation=degrees) for degrees in (1e-6, 90.0))
    torch.testing.assert_close(none.edge, plain.edge, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(some.edge, plain.edge, atol=1e-2)
    torch.testing.assert_close(row_sums(store, some.edge.abs()), row_sums(store, plain.edge.abs()), atol=1e-5, rtol=0)


def test_distortion_is_bounded_and_antisymmetric(store):
    field, graph = store.edges["field"], store.graph
    noise = augmented(store, distortion=0.3) - field
    count = of_edge(store).bincount(minlength=40).clamp(min=1)[:, None]
    mean = torch.zeros(40, 2).index_add(0, of_edge(store), field.abs()) / count
    bound = 0.3 * mean[of_edge(store)]
    assert (noise.abs() <= bound + 1e-6).all()
    assert noise.abs().max() > 0.8 * bound.max()
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, 2)
    dense[graph.source, graph.target] = noise
    torch.testing.assert_close(dense, -dense.transpose(0, 1), atol=1e-6, rtol=0)


def test_another_basis_mixes_repeated_eigenspaces_and_nothing_else(store):
    field, found = store.edges["field"], augmented(store, resample=True)
    mixed = molecules().nodes["repeated"].all(dim=1)[store.graph.target]
    assert 0.2 < mixed.float().mean() < 0.8
    assert torch.equal(found[~mixed], field[~mixed])
    # A rotation of two columns keeps the length of every row of two numbers.
    torch.testing.assert_close(found[mixed].norm(dim=1), field[mixed].norm(dim=1), atol=1e-6, rtol=0)
    moved = torch.zeros(40).index_add(0, of_edge(store), (found - field).norm(dim=1))
    rings = torch.arange(1, 40, 3)
    assert (moved[rings] > 1e-3).all()
    turn = [(field[of_edge(store) == ring].T @ found[of_edge(store) == ring]).flatten() for ring in rings[:2]]
    assert not torch.allclose(turn[0] / turn[0].norm(), turn[1] / turn[1].norm(), atol=1e-2)  # each ring by its own


@pytest.mark.parametrize("settings", [*({name: value} for name, value in EVERYTHING.items()), EVERYTHING])
def test_the_generator_decides(store, settings):
    plan = make_plan(["av1", "dx1"])
    one, same, other = (augmented(store, seed, plan, **settings) for seed in (0, 0, 1))
    assert torch.equal(one.edge, same.edge)
    assert torch.equal(one.self, same.self)
    assert not torch.equal(one.edge, other.edge)
    assert one.edge.isfinite().all()


def test_rotation_needs_two_directions():
    store = DeviceDataset(molecules(), {"edges": ["field"]}, "cpu")
    store.edges["field"] = store.edges["field"][:, :1]
    with pytest.raises(ValueError, match=r"augmentation.rotation: expected at least 2 directions to rotate, got 1"):
        augmented(store, rotation=10.0)


def test_no_augmentation_makes_a_direction_of_rounding(store):
    plan = make_plan(["dx1"])
    plain = row_sums(store, plan.compute_weights(store.edges["field"], store.graph).edge.abs()) > 0
    unmixed = ~molecules().nodes["repeated"].any(dim=1)
    for settings in ({"resample": True}, {"reflection": True}, {"rotation": 1e-3}):
        found = row_sums(store, augmented(store, plan=plan, **settings).edge.abs()) > 0
        assert torch.equal(found[unmixed], plain[unmixed])
    assert not plain[unmixed].all()


def test_coordinates_have_no_other_basis():
    store = DeviceDataset(molecules(), {"nodes": ["potential"], "edges": ["field"]}, "cpu")
    with pytest.raises(ValueError, match=r"augmentation.resample: expected eigenvectors that were computed"):
        augmented(store, resample=True)


def test_without_repeated_eigenvalues_there_is_nothing_to_mix():
    graphs = molecules().select(
        (~molecules().nodes["repeated"].any(dim=1)[molecules().node_pointer[:-1]]).nonzero()[:, 0]
    )
    store = DeviceDataset(graphs, {"nodes": ["gap", "component"], "edges": ["field"]}, "cpu")
    assert torch.equal(augmented(store, resample=True), store.edges["field"])


@pytest.fixture(scope="module")
def pictures():
    """Forty graphs with a colour and two coordinates as inputs, which are their directions too."""
    graphs, draw = molecules(), torch.Generator().manual_seed(3)
    x = torch.rand(graphs.num_nodes, 3, generator=draw)
    graphs = add_coordinates(graphs.with_values(nodes={"x": x}), x[:, 1:])
    store = DeviceDataset(graphs, {"nodes": ["x", "potential"], "edges": ["field"]}, "cpu")
    store.deviation = x.std(dim=0, unbiased=False)
    return store


def seen(store, seed=0, **settings):
    return augment(AS_IT_IS, store, AugmentationSettings(**settings), torch.Generator().manual_seed(seed))


def test_mirrored_graphs_have_mirrored_coordinates_and_field(pictures):
    found, batch = seen(pictures, mirror=True), pictures.graph.batch
    x, now = pictures.nodes["x"], found.nodes["x"]
    assert torch.equal(now[:, :2], x[:, :2])
    same = torch.tensor([torch.equal(now[batch == g], x[batch == g]) for g in range(40)])
    assert 10 < same.sum() < 30
    for g in (~same).nonzero()[:, 0]:
        old, new = x[batch == g, 2], now[batch == g, 2]
        torch.testing.assert_close(new, old.min() + old.max() - old)
    assert torch.equal(found.nodes["potential"], now[:, 1:])
    gradient = now[pictures.graph.source, 1:] - now[pictures.graph.target, 1:]
    torch.testing.assert_close(found.weights, gradient)
    assert pictures.nodes["x"] is x  # the store keeps its own


def test_weights_of_mirrored_graphs_that_were_computed_before_are_those_of_their_fields(pictures):
    plan, settings = make_plan(["fwd2", "dx2-signed", "dx1", "fwd1-2"]), AugmentationSettings(mirror=True)
    known = pictures.replaced(plan.compute_weights(pictures.edges["field"], pictures.graph))
    known.mirrored = reflect_weights(plan, known)
    found, anew = (augment(plan, each, settings, torch.Generator().manual_seed(0)) for each in (known, pictures))
    assert torch.equal(found.weights.edge, anew.weights.edge)
    assert torch.equal(found.weights.self, anew.weights.self)
    for one in known.weights, known.mirrored:
        assert not any(torch.equal(a, b) for a, b in zip(found.weights, one, strict=True))


def test_only_mirrored_graphs_have_one_of_two_fields():
    assert mirrors_alone(AugmentationSettings(mirror=True, cutout=0.3, input_noise=0.1))
    assert not mirrors_alone(AugmentationSettings(mirror=True, distortion=0.1))
    assert not mirrors_alone(AugmentationSettings(cutout=0.3))


def test_inputs_that_are_no_coordinate_are_not_mirrored(pictures):
    plain = pictures.replaced(pictures.weights, {"x": pictures.nodes["x"][:, :1]})
    assert torch.equal(seen(plain, mirror=True).nodes["x"], plain.nodes["x"])


def test_mirrored_twice_is_as_it_was(pictures):
    once = seen(pictures, mirror=True)
    again = DeviceDataset.replaced(once, once.weights)
    again.edges = {"field": once.weights}
    torch.testing.assert_close(seen(again, mirror=True).nodes["x"], pictures.nodes["x"])


def test_a_square_is_hidden(pictures):
    found, batch = seen(pictures, cutout=0.4), pictures.graph.batch
    x, now = pictures.nodes["x"], found.nodes["x"]
    assert torch.equal(now[:, 1:], x[:, 1:])  # coordinates stay
    assert found.weights is pictures.weights
    for g in range(40):
        old, new = x[batch == g], now[batch == g]
        hidden = old[:, 0] != new[:, 0]
        torch.testing.assert_close(new[hidden, 0], old[:, 0].mean().expand(int(hidden.sum())))
        width = old[:, 1:].amax(dim=0) - old[:, 1:].amin(dim=0)
        near = ((old[:, None, 1:] - old[None, :, 1:]).abs() <= 0.2 * width).all(dim=2)
        assert len(old) == 1 or (near == hidden).all(dim=1).any()  # a square around one of the nodes


def test_mirrored_graphs_are_hidden_in_part_as_well(pictures):
    found, mirrored = seen(pictures, mirror=True, cutout=0.4), seen(pictures, mirror=True)
    assert torch.equal(found.nodes["x"][:, 1:], mirrored.nodes["x"][:, 1:])
    share = (found.nodes["x"][:, 0] != mirrored.nodes["x"][:, 0]).float().mean()
    assert 0.02 < share < 0.5


def test_a_shift_is_one_for_a_graph(pictures):
    found, batch = seen(pictures, input_noise=0.5), pictures.graph.batch
    moved = found.nodes["x"] - pictures.nodes["x"]
    of_graph = torch.stack([moved[batch == g][0] for g in range(40)])
    torch.testing.assert_close(moved, of_graph[batch])
    size = 0.5 * pictures.nodes["x"].std(dim=0, unbiased=False)
    assert ((of_graph.std(dim=0) / size) > 0.7).all()
    assert ((of_graph.std(dim=0) / size) < 1.4).all()
    assert found.weights is pictures.weights


def test_a_shift_is_as_large_as_training_graphs_vary():
    known = make_benchmark("classification", coordinates=True)
    x = torch.rand(known.graphs.num_nodes, 2, generator=torch.Generator().manual_seed(3))
    shown = (known.graphs.graphs["split"] == 0)[known.graphs.graph.batch]
    for factor in (1, 100):
        graphs = known.graphs.with_values(nodes={"x": torch.where(shown[:, None], x, factor * x)})
        benchmark = replace(known, graphs=graphs, node_categories=None)
        store = prepare(make_experiment(augmentation={"input_noise": 0.2}), benchmark, torch.device("cpu")).store
        torch.testing.assert_close(store.deviation, x[shown].std(dim=0, unbiased=False))


@pytest.mark.parametrize("name", ["shift", "hide"])
def test_inputs_that_are_categories_are_not_changed(name):
    with pytest.raises(ValueError, match=rf"augmentation\.{name}: expected nodes with numbers as inputs"):
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
def test_hiding_and_mirror_images_need_places(name, settings, remedy):
    experiment = make_experiment(data={"directions": 2}, **settings)
    with pytest.raises(ValueError, match=rf"^{name}: expected graphs with coordinates, got .* eigenvectors; {remedy}$"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))


def test_what_is_active():
    assert not is_active(AugmentationSettings())
    assert all(is_active(AugmentationSettings(**{name: value})) for name, value in EVERYTHING.items())
    assert is_active(AugmentationSettings(input_noise=0.1))
    assert not changes_field(AugmentationSettings(input_noise=0.1, cutout=0.1))
    assert changes_field(AugmentationSettings(mirror=True))


def test_scores_are_those_of_the_plain_field():
    plain, changed = (
        prepare(make_experiment(data={"directions": 2}, augmentation=settings), make_benchmark(), torch.device("cpu"))
        for settings in ({}, EVERYTHING)
    )
    for name in ("train", "val", "test"):
        for one, other in zip(plain.splits[name].batches, changed.splits[name].batches, strict=True):
            assert torch.equal(one.weights.edge, other.weights.edge)
