"""The standardisation of structural encodings."""

import torch

from dgn.encodings import Standardization, Structure


def test_return_probabilities_are_centred_and_counts_stay() -> None:
    values = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    values[:, 3] = torch.arange(50) % 3
    structure = Structure.find(values, random_walk=3, rings=(6,))
    scaled = values * structure.scale + structure.offset
    torch.testing.assert_close(scaled[:, :3].mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled[:, :3].std(dim=0, correction=0), torch.ones(3))
    assert torch.equal(scaled[:, 3], values[:, 3])


def test_small_deviations_are_not_scaled_up() -> None:
    structure = Structure.find(torch.tensor([[0.0, 0.0], [0.6, 0.001]]), random_walk=2)
    torch.testing.assert_close(structure.scale, torch.tensor([1 / 0.3, 20.0]))


def test_where_all_deviations_are_small_the_largest_is_used() -> None:
    structure = Structure.find(torch.tensor([[0.0, 0.0], [0.01, 0.001]]), random_walk=2)
    torch.testing.assert_close(structure.scale, torch.full((2,), 200.0))
    rounding = Structure.find(torch.tensor([[0.5], [0.5 + 1e-7]]), random_walk=1)
    torch.testing.assert_close(rounding.scale, torch.tensor([1000.0]))


def test_without_nodes_the_scale_is_1() -> None:
    structure = Structure.find(torch.empty(0, 2), random_walk=2)
    assert torch.equal(structure.scale, torch.ones(2))
    assert torch.equal(structure.offset, torch.zeros(2))


def test_a_blank_structure_has_the_right_shapes() -> None:
    blank = Structure.blank(2, (5, 6), (4, 3))
    assert blank.scale.shape == (4,)
    assert blank.edge_types is not None
    assert blank.edge_types.features().shape == (1, 4 + 3 + 2)
    assert Structure.blank(2, (), (4,)).edge_types is None
    assert Structure.blank(2, (5,), None).edge_types is None


def test_features_of_graphs_are_standardized_and_constant_ones_are_0() -> None:
    values = 1000 + 3 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    values[:, 1], values[::2, 2] = 0.1, torch.nan
    features = Standardization.find(values)
    scaled = values * features.scale + features.offset
    torch.testing.assert_close(scaled[:, 0].mean(), torch.tensor(0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(scaled[:, 0].std(correction=0), torch.tensor(1.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(scaled[:, 1], torch.zeros(50))
    torch.testing.assert_close(scaled[1::2, 2].std(correction=0), torch.tensor(1.0), atol=1e-3, rtol=0)
    missing = Standardization.find(torch.full((3, 1), torch.nan))
    assert missing.scale.isfinite().all()
