"""The summary for the README."""

from pathlib import Path
from typing import Any

import pytest

from reproduce.summary import BEGIN, END, replace_summary, results_summary


def test_a_row_for_each_dataset_and_layer_that_was_run(make_run: Any) -> None:
    four = [make_run("zinc/simple/mean", seed=seed, test=0.3, data="resampled") for seed in (41, 95, 12, 35)]
    summary = results_summary({"zinc/simple/mean": four, "zinc/tuned": [make_run(test=0.17)]})
    assert summary.splitlines()[:4] == [
        "|  | mean | tuned |",
        "|---|---|---|",
        "| ZINC simple, mae | 0.300 ± 0.000 (0.316) |  |",
        "| ZINC, mae |  | 0.170, 1 seed (0.168 ± 0.003) |",
    ]
    assert "\nNot the official data: ZINC (resampled).\n" in summary
    assert (
        "\n2 of the 73 cells of the paper's two tables have been run (left: ZINC, PATTERN, CIFAR10, MolHIV, MolPCBA); "
        in summary
    )
    assert "docs/results.md" in summary


def test_datasets_of_one_origin_are_named_together(make_run: Any) -> None:
    names = ("muv/simple/mean", "tox21/simple/mean", "zinc/simple/mean")
    runs = {name: [make_run(name, data="" if name.startswith("zinc") else "our split")] for name in names}
    assert "\nNot the official data: MUV and Tox21 (our split).\n" in results_summary(runs)


def test_what_goes_beyond_the_paper_is_a_column_without_its_ablations(make_run: Any) -> None:
    names = ("zinc/tuned", "zinc/plus", "zinc/plus-ablation/no-directions", "zinc/plus-500k")
    summary = results_summary({name: [make_run(name, test=0.07)] for name in names})
    assert summary.splitlines()[:4] == [
        "|  | tuned | plus |",
        "|---|---|---|",
        "| ZINC, mae | 0.070, 1 seed (0.168 ± 0.003) | 0.070, 1 seed |",
        "",
    ]
    assert "\nplus: newer blocks" in summary


def test_without_results_it_says_so() -> None:
    assert results_summary({}) == "No results yet."


def test_only_what_is_between_the_markers_changes() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replace_summary(text, "new", Path("README.md"))
    assert new == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replace_summary(new, "new", Path("README.md")) == new


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}"])
def test_a_file_without_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"README.md: expected the lines"):
        replace_summary(text, "new", Path("README.md"))
