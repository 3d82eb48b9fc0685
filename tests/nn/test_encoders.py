"""Categories become features: by node, by edge, or as a table."""

import pytest
import torch
from torch import nn

from dgn.nn import ATOM_SIZES, BOND_SIZES, DGN, CategoryEncoder, NetworkSettings

several_sizes = pytest.mark.parametrize("sizes", [(4,), (3, 5), BOND_SIZES, (1, 1, 1)], ids=str)


def categories(sizes, rows=50):
    draw = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(size, (rows,), generator=draw) for size in sizes], dim=1)


@several_sizes
def test_one_embedding_per_column_is_summed(sizes):
    encoder, codes = CategoryEncoder(sizes, 7), categories(sizes)
    tables = encoder.weight.split(list(sizes))
    expected = sum(nn.functional.embedding(codes[:, c], table) for c, table in enumerate(tables))
    torch.testing.assert_close(encoder(codes), expected)


@several_sizes
def test_a_table_gives_the_embedding_of_each_edge(sizes):
    encoder, codes = CategoryEncoder(sizes, 7).double(), categories(sizes)
    table = encoder.as_table(codes)
    assert table.table.size(0) == torch.tensor(sizes).prod()
    looked_up, direct = table.table[table.row], encoder(codes)
    torch.testing.assert_close(looked_up, direct)
    slope = torch.randn_like(direct)
    gradients = [torch.autograd.grad(out, encoder.weight, slope)[0] for out in (looked_up, direct)]
    torch.testing.assert_close(*gradients)


def test_one_column_may_come_without_its_dimension():
    encoder = CategoryEncoder((4,), 3)
    assert torch.equal(encoder(torch.tensor([1, 3])), encoder(torch.tensor([[1], [3]])))


def test_the_columns_of_ogb_are_counted_as_published():
    assert (sum(ATOM_SIZES), len(ATOM_SIZES), sum(BOND_SIZES), len(BOND_SIZES)) == (173, 9, 13, 3)


def test_several_columns_start_from_small_numbers_and_one_from_normal_ones():
    torch.manual_seed(0)
    one, several = (CategoryEncoder(sizes, 50).weight.detach() for sizes in ((200,), (200, 4)))
    assert 0.95 < float(one.std()) < 1.05
    assert 0.8 * (6 / 250) ** 0.5 < float(several[:200].abs().max()) <= (6 / 250) ** 0.5
    assert 0.8 * (6 / 54) ** 0.5 < float(several[200:].abs().max()) <= (6 / 54) ** 0.5


@pytest.mark.parametrize("wrong", [torch.ones(3, 2), torch.ones(3, 3).long(), torch.ones(3).long()], ids=str)
def test_numbers_and_other_widths_are_refused(wrong):
    with pytest.raises(ValueError, match=r"categories: expected integers \[N, 2\].*nn.Linear"):
        CategoryEncoder((3, 5), 4)(wrong)


def test_the_buffer_of_offsets_is_not_saved():
    assert list(CategoryEncoder((3, 5), 4).state_dict()) == ["weight"]


def test_few_edges_make_no_large_table():
    encoder = CategoryEncoder((60, 60, 60), 4)
    assert CategoryEncoder(BOND_SIZES, 4).has_few_rows(0)
    assert not encoder.has_few_rows(3)
    assert encoder.has_few_rows(60**3)
    net = DGN(3, NetworkSettings(hidden=8, edge_dim=4, message="complex", aggregators=["mean"]), edge_encoder=encoder)
    encoder.as_table = None
    ends = torch.tensor([[0, 1, 1], [1, 0, 0]])
    assert net(torch.randn(2, 3), ends, edge_attr=torch.full((3, 3), 59)).shape == (1, 1)
