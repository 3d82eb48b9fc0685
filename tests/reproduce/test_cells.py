"""Selection and order of the cells of a table."""

import pytest

from reproduce.cells import cells, choose, table_datasets


def test_the_cells_of_a_table_come_in_the_order_of_the_paper() -> None:
    names = [cell.name for cell in cells("table1", "zinc")]
    assert len(names) == 24
    assert names[0] == "zinc/simple/mean"
    assert names[8:11] == ["zinc/complex/mean", "zinc/complex/mean-pos1", "zinc/complex/mean-pos1-pos2"]
    assert names[-1] == "zinc/complex-e/mean-dx1-av1"
    assert [cell.name for cell in cells("table2", "zinc")] == ["zinc/tuned", "zinc/tuned-no-edges"]


def test_rows_are_chosen_by_name() -> None:
    names = [cell.name for cell in choose("table1", ["pattern"], ["mean", "complex/mean-dx1"])]
    assert names == ["pattern/simple/mean", "pattern/complex/mean", "pattern/complex/mean-dx1"]


def test_unknown_tables_datasets_and_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"table: .* did you mean 'table1'"):
        cells("tabel1", "zinc")
    with pytest.raises(ValueError, match=r"dataset of table1: .* did you mean 'zinc'"):
        cells("table1", "zink")
    with pytest.raises(ValueError, match=r"row: .* did you mean 'mean-dx1'"):
        choose("table1", ["zinc"], ["mean dx1"])


def test_datasets_without_a_row_are_left_out() -> None:
    chosen = choose("table1", table_datasets("table1"), ["mean-dx1", "simple/mean"])
    with_row = {cell.data.dataset for cell in chosen if cell.name.endswith("/mean-dx1")}
    assert with_row == {"zinc", "pattern", "molhiv", "molpcba"}
    assert [cell.name for cell in chosen if cell.data.dataset == "cifar10"] == ["cifar10/simple/mean"]


def test_a_row_that_no_chosen_dataset_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row: .* got 'mean-dx1'"):
        choose("table1", ["cifar10"], ["mean", "mean-dx1"])
    with pytest.raises(ValueError, match=r"row: .* did you mean 'mean-dx1'"):
        choose("table1", ["cifar10", "zinc"], ["mean-dx"])
