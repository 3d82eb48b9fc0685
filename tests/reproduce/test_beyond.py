"""Tables and the picture beyond the paper, from made-up results."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.beyond import beyond_sections, beyond_table, draw_beyond
from reproduce.cells import cells, in_turn, table_datasets
from reproduce.page import results_page
from reproduce.results import Results
from reproduce.summary import results_summary


@pytest.fixture
def results(make_run: Any) -> Results:
    """Five seeds of two networks, one of an ablation."""
    scores = {"zinc/plus": (0.09, 0.1), "zinc/plus-ablation/no-directions": (0.11,), "zinc/plus-500k": (0.06, 0.07)}
    return {
        name: [make_run(name, seed, test=value, data="resampled") for seed, value in enumerate(values, 1)]
        for name, values in scores.items()
    }


def test_a_network_comes_before_what_it_is_without() -> None:
    names = [cell.name.removeprefix("zinc/") for cell in cells("plus", "zinc")]
    parts = ["no-ema", "no-ffn", "no-structure"]
    first = {"plus": "no-directions", "plus-500k": "with-directions"}
    assert names == [
        name for base in first for name in (base, *(f"{base}-ablation/{part}" for part in (first[base], *parts)))
    ]
    run = [cell.name.removeprefix("zinc/") for cell in in_turn(cells("plus", "zinc"))]
    assert run[:3] == ["plus", "plus-500k", "plus-ablation/no-directions"]
    assert run[-1] == "plus-500k-ablation/no-structure"
    assert table_datasets("plus") == ["zinc", "pattern", "cifar10", "molhiv"]


def test_ours_stands_below_what_was_published_at_its_size(results: Results) -> None:
    table = beyond_table(cells("plus", "zinc"), results)
    assert table.header == ("run", "test mae", "validation", "parameters", "seeds")
    assert table.rows == (
        ("the paper, tuned", "0.168 ± 0.003", "", "98,035", ""),
        ("CIN-small, published", "0.094", "", "about 100,000", ""),
        ("zinc/plus", "0.095 ± 0.007", "0.200 ± 0.000", "98,035", "2"),
        ("without directions", "0.110", "0.200", "98,035", "1"),
        ("GRIT, published", "0.059", "", "about 500,000", ""),
        ("zinc/plus-500k", "0.065 ± 0.007", "0.200 ± 0.000", "98,035", "2"),
    )


def test_what_a_network_is_with_stands_below_it_and_what_was_published_stands_once(make_run: Any) -> None:
    names = ("cifar10/plus", "cifar10/plus-deep", "zinc/plus-500k", "zinc/plus-500k-ablation/with-directions")
    results = {name: [make_run(name, 1, test=0.7)] for name in names}
    told = [row[0] for dataset in ("cifar10", "zinc") for row in beyond_table(cells("plus", dataset), results).rows]
    assert told == [
        *("the paper, tuned", "GatedGCN+, published", "cifar10/plus", "cifar10/plus-deep"),
        *("the paper, tuned", "CIN-small, published", "GRIT, published", "zinc/plus-500k", "with directions"),
    ]


def test_a_dataset_is_shown_once_it_was_begun(results: Results, make_run: Any) -> None:
    assert beyond_sections({"zinc/tuned": [make_run()]}) == ""
    told = beyond_sections(results)
    assert told.count("### ") == 1
    assert "### ZINC, mae (data: resampled)" in told
    assert "3 of 10 cells run" in told
    only = {"zinc/plus": results["zinc/plus"]}
    assert "GRIT" not in beyond_sections(only)  # nothing of that size was run
    accuracy = beyond_sections({"cifar10/plus": [make_run("cifar10/plus", 1, test=0.77)]})
    assert "| GatedGCN+, published | 77.22 |" in accuracy
    assert "![" not in accuracy


def test_the_page_and_the_summary_say_nothing_of_drafts(results: Results, make_run: Any) -> None:
    before = {"zinc/tuned": [make_run()]}
    assert "Beyond" not in results_page(before, {})
    assert "beyond" not in results_summary(before)
    page = results_page({**before, **results}, {})
    assert "| **Beyond the paper** | 3 of 10 |  |  | 5 |" in page
    assert "| `zinc/plus` | 0.095 ± 0.007 | 2 of 5 |" in page
    assert "| `zinc/plus-ablation/no-structure` | not run yet |" in page
    assert "`cifar10/plus`" not in page
    assert "Other runs" not in page
    assert "(docs/beyond.md)" in results_summary({**before, **results})


def test_the_picture_is_drawn_from_what_there_is(results: Results, make_run: Any, tmp_path: Path) -> None:
    assert draw_beyond(results, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    assert not draw_beyond({"zinc/tuned": [make_run()]}, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
