"""Tables and the figure beyond the paper, from made-up results."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.beyond import beyond_sections, beyond_table, draw_beyond
from reproduce.cells import cells, in_training_order, table_datasets
from reproduce.page import results_page
from reproduce.results import Results
from reproduce.summary import results_summary
from tests.reproduce.markdown import find_row, find_rows


@pytest.fixture
def results(make_run: Any) -> Results:
    """Two seeds of two networks, one of an ablation."""
    scores = {"zinc/plus": (0.09, 0.1), "zinc/plus-ablation/no-directions": (0.11,), "zinc/plus-500k": (0.06, 0.07)}
    return {
        name: [make_run(name, seed, test=value, data="resampled") for seed, value in enumerate(values, 1)]
        for name, values in scores.items()
    }


def test_a_network_precedes_its_ablations() -> None:
    names = [cell.name.removeprefix("zinc/") for cell in cells("plus", "zinc")]
    ablations = ["no-ema", "no-ffn", "no-structure"]
    first = {"plus": "no-directions", "plus-500k": "with-directions"}
    assert names == [
        name
        for base in first
        for name in (base, *(f"{base}-ablation/{ablation}" for ablation in (first[base], *ablations)))
    ]
    order = [cell.name.removeprefix("zinc/") for cell in in_training_order(cells("plus", "zinc"))]
    assert order[:3] == ["plus", "plus-500k", "plus-ablation/no-directions"]
    assert order[-1] == "plus-500k-ablation/no-structure"
    assert table_datasets("plus") == ["zinc", "pattern", "cifar10", "molhiv", "peptides-func"]


def test_our_networks_follow_published_ones_of_the_same_size(results: Results) -> None:
    table = beyond_table(cells("plus", "zinc"), results)
    assert table.header == ("experiment", "test MAE", "validation", "parameters", "seeds")
    assert table.rows == (
        ("the paper, tuned", "0.168 ± 0.003", "", "98,035", ""),
        ("CIN-small, published", "0.094", "", "about 100,000", ""),
        ("zinc/plus", "0.095 ± 0.007", "0.200 ± 0.000", "98,035", "2"),
        ("without directions", "0.110", "0.200", "98,035", "1"),
        ("GRIT, published", "0.059", "", "about 500,000", ""),
        ("zinc/plus-500k", "0.065 ± 0.007", "0.200 ± 0.000", "98,035", "2"),
    )


def test_published_results_appear_once_per_size(make_run: Any) -> None:
    trained = ("cifar10/plus", "cifar10/plus-deep", "zinc/plus-500k", "zinc/plus-500k-ablation/with-directions")
    results = {name: [make_run(name, 1, test=0.7)] for name in trained}
    names = [row[0] for dataset in ("cifar10", "zinc") for row in beyond_table(cells("plus", dataset), results).rows]
    assert names == [
        *("the paper, tuned", "GatedGCN+, published", "cifar10/plus", "cifar10/plus-deep"),
        *("the paper, tuned", "CIN-small, published", "GRIT, published", "zinc/plus-500k", "with directions"),
    ]


def test_what_is_no_network_has_a_row_too(make_run: Any) -> None:
    table = beyond_table(cells("plus", "peptides-func"), {"peptides-func/plus": [make_run("peptides-func/plus")]})
    assert [row[:2] + row[3:4] for row in table.rows[:2]] == [
        ("ESA, published", "73.57", "about 500,000"),
        ("fingerprints with gradient boosting, published", "74.60", ""),
    ]


def test_only_datasets_with_results_have_a_section(results: Results, make_run: Any) -> None:
    assert beyond_sections({"zinc/tuned": [make_run()]}) == ""
    text = beyond_sections(results)
    assert text.count("### ") == 1
    assert "### ZINC, MAE\n\nData: resampled.\n" in text
    assert "3 of 10 cells trained" in text
    small = beyond_sections({"zinc/plus": results["zinc/plus"]})
    assert "GRIT" not in small  # published at a size without results of ours
    accuracy = beyond_sections({"cifar10/plus": [make_run("cifar10/plus", 1, test=0.77)]})
    assert find_row(accuracy, "GatedGCN+, published", "seeds")["test accuracy"] == "77.22"
    assert "![" not in accuracy


def test_cells_with_other_data_are_named(results: Results, make_run: Any) -> None:
    older = {"zinc/plus-500k": [make_run("zinc/plus-500k", 1, test=0.07, data="")]}
    text = beyond_sections({"zinc/plus": results["zinc/plus"], **older})
    assert "- `zinc/plus`: resampled\n- `zinc/plus-500k`: official data\n" in text
    assert "Data:" not in beyond_sections(older)


def test_page_and_summary_leave_out_networks_without_results(results: Results, make_run: Any) -> None:
    paper_only = {"zinc/tuned": [make_run()]}
    assert "Beyond" not in results_page(paper_only, {})
    assert "beyond" not in results_summary(paper_only)
    page = results_page({**paper_only, **results}, {})
    overview = find_row(page, "Beyond the paper", "cells trained")
    assert (overview["cells trained"], overview["worse"], overview["runs"]) == ("3 of 10", "", "5")
    network = find_row(page, "zinc/plus", "ours")
    assert (network["ours"], network["seeds"]) == ("0.095 ± 0.007", "2 of 5")
    assert find_row(page, "zinc/plus-ablation/no-structure", "ours")["ours"] == "not trained yet"
    assert not find_rows(page, "cifar10/plus")
    assert "Other experiments" not in page
    assert "(docs/beyond.md)" in results_summary({**paper_only, **results})


def test_the_figure_is_drawn_only_with_results(results: Results, make_run: Any, tmp_path: Path) -> None:
    assert draw_beyond(results, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    assert not draw_beyond({"zinc/tuned": [make_run()]}, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
