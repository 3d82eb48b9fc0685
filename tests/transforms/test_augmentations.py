"""Random changes of the field: reproducible, within their bounds, and constant over a graph."""

import math

import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

import dgn
from dgn.testing import assert_antisymmetric, complete, cycle, disjoint_union, grid, path
from dgn.transforms import (
    AddCoordinates,
    AddDirections,
    RandomBasis,
    RandomDistortion,
    RandomReflection,
    RandomRotation,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def data(graph=None, dimensions=2):
    edge_index, num_nodes = grid(3, 4) if graph is None else graph
    pos = torch.randn(num_nodes, dimensions, generator=seeded(7))
    return AddCoordinates()(Data(edge_index=edge_index, num_nodes=num_nodes, pos=pos))


AUGMENTATIONS = {
    "reflection": lambda generator: RandomReflection(generator),
    "rotation": lambda generator: RandomRotation(40, generator),
    "distortion": lambda generator: RandomDistortion(0.3, generator),
    "distortion of the potential": lambda generator: RandomDistortion(0.3, generator, of="potential"),
}
every_augmentation = pytest.mark.parametrize("make", AUGMENTATIONS.values(), ids=AUGMENTATIONS)


@every_augmentation
def test_the_result_follows_the_generator(make):
    one, other = make(seeded()), make(seeded())
    first = [one(data()).edge_field for _ in range(8)]
    assert all(torch.equal(a, other(data()).edge_field) for a in first)
    assert not all(torch.equal(first[0], later) for later in first[1:])


@every_augmentation
def test_the_global_generator_is_not_used(make):
    state = torch.get_rng_state()
    make(seeded())(data())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_every_epoch_of_a_loader_with_workers_draws_new_values():
    transforms = [make(None) for make in AUGMENTATIONS.values()]
    loader = DataLoader(
        [data(dimensions=9)],
        collate_fn=lambda graphs: [transform(graphs[0]).edge_field for transform in transforms],
        num_workers=1,
        generator=seeded(),
    )
    (first,), (second,) = loader, loader
    for one, other in zip(first, second, strict=True):
        assert not torch.equal(one, other)


@every_augmentation
def test_the_default_generator_is_that_of_pytorch(make):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        got = make(None)(data()).edge_field
    assert torch.equal(got, make(seeded(5))(data()).edge_field)


@every_augmentation
def test_the_input_is_left_alone(make):
    graph = data()
    field, potential = graph.edge_field.clone(), graph.node_potential.clone()
    assert make(seeded())(graph).edge_field.shape == field.shape
    assert torch.equal(graph.edge_field, field)
    assert torch.equal(graph.node_potential, potential)


@every_augmentation
def test_a_potential_follows_its_field_or_is_gone(make):
    """A rotated or distorted field is no gradient: a network that reads the old potential would see another graph."""
    got = make(seeded())(data())
    if "node_potential" in got:
        torch.testing.assert_close(got.edge_field, dgn.gradient(got.node_potential, got))
        assert not torch.equal(got.node_potential, data().node_potential)


def test_reflections_draw_a_sign_for_each_component():
    edges, num_nodes, _ = disjoint_union(*[path(3)] * 100)
    graph = AddDirections(k=2)(Data(edge_index=edges, num_nodes=num_nodes))
    got = RandomReflection(seeded())(Batch.from_data_list([graph, graph]))
    ratio = (got.node_potential / torch.cat([graph.node_potential] * 2)).view(200, 3, 2).nanmean(dim=1)
    assert (ratio.abs() == 1).all()
    assert (ratio.mean(dim=0).abs() < 0.25).all()
    assert len(ratio.unique(dim=0)) == 4
    assert not torch.equal(ratio[:100], ratio[100:])


def ring(n=6, k=1):
    return AddDirections(k=k, whole_eigenspaces=True)(Data(edge_index=cycle(n)[0], num_nodes=n))


def test_a_random_basis_reaches_vectors_beyond_the_last_column():
    transform, graph = RandomBasis(seeded()), ring()
    assert graph.node_potential.shape == (6, 1)
    drawn = torch.stack([transform(graph).node_potential[:, 0] for _ in range(200)])
    torch.testing.assert_close(drawn.norm(dim=1), torch.ones(200))
    torch.testing.assert_close(dgn.laplacian(*cycle(6)).float() @ drawn.T, drawn.T, atol=1e-5, rtol=0)
    angle = torch.atan2(drawn[:, 1], drawn[:, 0])
    assert angle.max() > 2.8
    assert angle.min() < -2.8
    one = transform(graph)
    torch.testing.assert_close(one.edge_field, dgn.gradient(one.node_potential, one), atol=1e-6, rtol=0)


def test_a_random_basis_leaves_simple_vectors_alone():
    graph = AddDirections(k=2, whole_eigenspaces=True)(Data(edge_index=path(5)[0], num_nodes=5))
    assert torch.equal(RandomBasis(seeded())(graph).edge_field, graph.edge_field)


def test_graphs_with_whole_eigenspaces_batch():
    one, other = Batch.from_data_list([ring(6), ring(8)]).to_data_list()
    assert torch.equal(RandomBasis(seeded())(one).edge_field, RandomBasis(seeded())(ring(6)).edge_field)
    assert torch.equal(RandomBasis(seeded())(other).edge_field, RandomBasis(seeded())(ring(8)).edge_field)


def test_a_random_basis_needs_the_whole_eigenspace_of_one_graph():
    with pytest.raises(
        ValueError, match=r"data: expected eigenspaces .*; apply AddDirections\(whole_eigenspaces=True\)"
    ):
        RandomBasis(seeded())(AddDirections()(Data(edge_index=cycle(4)[0], num_nodes=4)))
    with pytest.raises(ValueError, match=r"data: expected one graph for RandomBasis, got a batch; "):
        RandomBasis(seeded())(Batch.from_data_list([ring(), ring()]))


def test_noise_on_the_potential_needs_it():
    graph = data()
    del graph.node_potential
    with pytest.raises(ValueError, match="data: expected a potential for RandomDistortion"):
        RandomDistortion(0.1, seeded(), of="potential")(graph)


@every_augmentation
def test_augmentations_compose_with_other_transforms(make):
    chain = Compose([AddCoordinates(), make(seeded())])
    graph = data()
    assert torch.equal(chain(graph).edge_field, make(seeded())(graph).edge_field)


@every_augmentation
def test_a_missing_field_is_refused(make):
    with pytest.raises(ValueError, match=r"data: expected a field for Random.*AddDirections or AddCoordinates"):
        make(seeded())(Data(edge_index=path(3)[0], num_nodes=3))


def test_each_direction_is_reflected_half_of_the_time_and_as_a_whole():
    graph, transform = data(dimensions=3), RandomReflection(seeded())
    signs = []
    for _ in range(200):
        ratio = transform(graph).edge_field / graph.edge_field
        assert (ratio.abs() == 1).all()
        assert (ratio == ratio[:1]).all()
        signs.append(ratio[0])
    signs = torch.stack(signs)
    assert (signs.mean(dim=0).abs() < 0.25).all()  # 3.5 standard deviations of 200 fair coins
    assert len(signs.unique(dim=0)) == 8  # directions are independent


def test_one_angle_rotates_every_node_in_the_plane_of_its_directions():
    graph = data(complete(5))
    unit = dgn.normalize(graph.edge_field, graph, p=2)
    transform, reference = RandomRotation(90, seeded()), seeded()
    for _ in range(20):
        angle = math.radians(90) * (2 * float(torch.rand((), generator=reference)) - 1)
        got = transform(graph).edge_field
        expected = dgn.rotate(*graph.edge_field.T, angle, graph)
        torch.testing.assert_close(got, torch.stack(expected, dim=1))
        cosine = dgn.inner_product(got[:, :1], unit[:, :1], graph)
        torch.testing.assert_close(cosine, torch.full_like(cosine, math.cos(angle)), rtol=0, atol=1e-5)


def test_angles_fill_their_range():
    graph, transform = data(complete(4)), RandomRotation(30, seeded())
    unit = dgn.normalize(graph.edge_field, graph, p=2)
    turned = [dgn.inner_product(transform(graph).edge_field[:, :1], unit[:, :1], graph)[0] for _ in range(200)]
    angles = torch.stack(turned).clamp(max=1).arccos().rad2deg()
    assert angles.max() <= 30.1
    assert angles.max() > 28
    assert angles.min() < 2


def test_an_angle_of_0_gives_unit_rows():
    graph = data(complete(5))
    got = RandomRotation(0, seeded())(graph).edge_field
    torch.testing.assert_close(got, dgn.normalize(graph.edge_field, graph, p=2))


def test_nodes_with_collinear_directions_are_not_rotated():
    graph = data(path(4))  # both ends have one neighbour
    got = RandomRotation(180, seeded())(graph).edge_field
    end = (graph.edge_index[1] == 0) | (graph.edge_index[1] == 3)
    assert torch.equal(got[end], graph.edge_field[end].sign())
    assert not torch.allclose(got[~end], dgn.normalize(graph.edge_field, graph, p=2)[~end])


def test_other_directions_are_kept():
    graph = data(complete(5), dimensions=4)
    got = RandomRotation(60, seeded(), directions=(2, 4))(graph).edge_field
    assert torch.equal(got[:, [0, 2]], graph.edge_field[:, [0, 2]])
    assert not torch.allclose(got[:, [1, 3]], dgn.normalize(graph.edge_field, graph, p=2)[:, [1, 3]])


def test_a_missing_direction_is_refused():
    with pytest.raises(
        ValueError, match=r"directions: expected .* 1 to 2, got \(1, 3\); pass a larger k to AddDirections"
    ):
        RandomRotation(10, seeded(), directions=(1, 3))(data())


@pytest.mark.parametrize("strength", [0.0, 0.1, 1.0])
def test_distortion_stays_within_its_strength_and_antisymmetric(strength):
    graph = data()
    got = RandomDistortion(strength, seeded())(graph).edge_field
    bound = strength * graph.edge_field.abs().mean(dim=0)
    noise = (got - graph.edge_field).abs().amax(dim=0)
    assert (noise <= bound * (1 + 1e-5)).all()
    assert (noise >= 0.7 * bound).all()
    assert_antisymmetric(got, graph.edge_index)


def test_distortion_of_a_batch_is_measured_by_each_graph():
    small, large = data(), data()
    large.edge_field = 1000 * large.edge_field
    batch = Batch.from_data_list([small, large])
    noise = RandomDistortion(0.5, seeded())(batch).edge_field - batch.edge_field
    mean = small.edge_field.abs().mean(dim=0)
    assert (noise[: small.num_edges].abs().amax(dim=0) <= 0.5001 * mean).all()
    assert (noise[small.num_edges :].abs().amax(dim=0) > 100 * mean).all()


def test_rotation_of_a_batch_is_that_of_each_graph():
    small, large = data(), data()
    large.edge_field = 1e9 * large.edge_field
    turned = RandomRotation(40, seeded())(Batch.from_data_list([small, large])).edge_field
    alone = RandomRotation(40, seeded())(data()).edge_field
    torch.testing.assert_close(turned, torch.cat([alone, alone]))


def test_distortion_of_a_graph_with_isolated_nodes():
    edge_index, num_nodes = path(3)
    graph = Data(edge_index=edge_index, num_nodes=num_nodes + 2, edge_field=torch.ones(4, 1))
    assert RandomDistortion(0.5, seeded())(graph).edge_field.shape == (4, 1)


@pytest.mark.parametrize("strength", [-0.1, math.inf, math.nan])
def test_a_negative_strength_is_refused(strength):
    with pytest.raises(ValueError, match="strength: expected a finite number of 0 or more"):
        RandomDistortion(strength, seeded())(data())


@pytest.mark.parametrize("degrees", [math.inf, math.nan])
def test_an_invalid_range_of_angles_is_refused(degrees):
    with pytest.raises(ValueError, match=r"degrees|angle"):
        RandomRotation(degrees, seeded())(data())


@pytest.mark.parametrize("directions", [(0, 1), (1, 1), (-1, 2)])
def test_directions_that_span_no_plane_are_refused(directions):
    with pytest.raises(ValueError, match="directions"):
        RandomRotation(10, seeded(), directions=directions)(data())


def test_a_potential_of_other_columns_than_the_field_is_not_changed_with_it():
    graph = data()
    graph.node_potential = graph.node_potential[:, :1]
    assert "node_potential" not in RandomReflection(seeded())(graph)
    assert "node_potential" in graph
    with pytest.raises(ValueError, match=r"node_potential: expected the columns of edge_field .*of='field'"):
        RandomDistortion(0.3, of="potential")(graph)
