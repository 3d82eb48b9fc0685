"""The summary for the README."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.summary import BEGIN, END, HEADER, replace_summary, results_summary, summary_table
from tests.reproduce.markdown import rows


def test_a_row_for_each_dataset_with_results(make_run: Any) -> None:
    four = [make_run("zinc/complex/mean", seed=seed, test=0.3, data="resampled") for seed in (41, 95, 12, 35)]
    results = {"zinc/simple/mean": [make_run(test=0.4)], "zinc/complex/mean": four, "zinc/tuned": [make_run(test=0.17)]}
    table, summary = summary_table(results), results_summary(results)
    assert table.header == HEADER[:-1]
    assert table.rows == (("ZINC, MAE (lower is better)", "0.300 ± 0.000", "0.170, 1 seed", "0.168 ± 0.003"),)
    assert [tuple(row.values()) for row in rows(summary)] == list(table.rows)
    lines = summary.splitlines()
    assert "ZINC is not bitwise the official data ([what differs](docs/data.md#what-is-official))." in lines
    (coverage,) = [line for line in lines if "cells of the paper's two tables" in line]
    assert coverage.startswith("3 of the 73 ")
    assert "(missing: 23 of ZINC, 17 of PATTERN, 8 of CIFAR10, 9 of MolHIV, 13 of MolPCBA)" in coverage
    assert "docs/results.md" in summary


def test_without_a_tuned_network_the_derivative_stands_for_directions(make_run: Any) -> None:
    results = {name: [make_run(name, test=0.7)] for name in ("muv/simple/mean", "muv/simple/mean-dx1")}
    table = summary_table(results)
    assert table.header == HEADER[:3]
    assert len(table.rows) == 1


def test_datasets_of_the_same_origin_share_a_note(make_run: Any) -> None:
    names = ("muv/simple/mean", "tox21/simple/mean", "zinc/simple/mean")
    runs = {name: [make_run(name, data="" if name.startswith("zinc") else "our split")] for name in names}
    assert "\nMUV and Tox21 are not bitwise the official data (" in results_summary(runs)


def test_networks_beyond_the_paper_are_a_column_without_ablations(make_run: Any) -> None:
    names = ("zinc/tuned", "zinc/plus", "zinc/plus-ablation/no-directions", "zinc/plus-500k")
    results = {name: [make_run(name, test=0.07)] for name in names}
    table = summary_table(results)
    assert table.header == (HEADER[0], *HEADER[2:])
    assert table.rows == (("ZINC, MAE (lower is better)", "0.070, 1 seed", "0.168 ± 0.003", "0.070, 1 seed"),)
    assert "(docs/beyond.md)" in results_summary(results)


def test_missing_results_are_stated() -> None:
    assert results_summary({}) == "No results yet."


def test_only_text_between_the_markers_changes() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replace_summary(text, "new", Path("README.md"))
    assert new == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replace_summary(new, "new", Path("README.md")) == new


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}"])
def test_a_file_without_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"README.md: expected the lines"):
        replace_summary(text, "new", Path("README.md"))
