"""The page of all results, from made-up ones."""

from pathlib import Path
from typing import Any

import pytest

from dgn.training.scores import main_metric
from reproduce.cells import shipped, table_of
from reproduce.page import read_notes, results_page


def test_cells_stand_beside_the_paper(make_run: Any) -> None:
    given = {"date": "2026-11-15", "device": "a GPU", "data": "resampled", "seconds": 30.0, "beside": (41, 95)}
    runs = [make_run(seed=seed, test=test, **given) for seed, test in ((41, 0.16), (95, 0.17))]
    page = results_page({"zinc/tuned": runs}, {})
    row = "| `zinc/tuned` | 0.165 ± 0.007 | 2 of 4 | 98,035 (paper: 98,035) | 0.168 ± 0.003 | better | 3 | 30 s |"
    assert row in page
    assert "### ZINC, mae (data: resampled)" in page
    assert "1 of 7 cells run; 30 s of training on a GPU, 2026-11-15." in page
    assert "| `zinc/tuned-no-edges` | not run yet |  |  | 0.219 ± 0.010 |  |  |  |" in page
    assert page.count("not run yet") == 72 + 6 + 15  # the paper's, many labels, augmentation
    assert "| **Table 2, tuned** | 1 of 7 | 1 | 0 | 2 | 30 s |" in page
    assert "| MolHIV | 0 of 8 |  |  |  |  |" in page
    assert "### ZINC, mae\n" in page  # table 1, where nothing says which data
    assert "Other runs" not in page


def test_a_dataset_of_table_1_is_also_shown_at_a_glance(make_run: Any) -> None:
    page = results_page({"zinc/complex/mean-dx1": [make_run("zinc/complex/mean-dx1", test=0.22)]}, {})
    assert "| mean dx1 | - | 0.296 | 0.220 | 0.233 | - | 0.191 |" in page
    assert page.count("| run | simple | simple paper |") == 1


def test_our_own_tables_have_no_column_of_the_paper(make_run: Any) -> None:
    page = results_page({"muv/simple/mean": [make_run("muv/simple/mean", test=0.2)]}, {"multi-label/muv": "Few."})
    assert "### MUV, average-precision\n\nFew.\n\n| run | ours | seeds | parameters | epochs | time |" in page
    assert "| `muv/simple/mean` | 20.00 | 1 of 4 | 98,035 | 3 | 2 s |" in page
    assert "| **Many labels, most of them missing** | 1 of 6 |  |  | 1 | 2 s |" in page


def test_every_cell_has_its_place(make_run: Any) -> None:
    results = {
        cell.name: [make_run(cell.name, seed, metrics={split: {main_metric(cell): 0.5} for split in ("train", "test")})
                    for seed in cell.training.seeds]
        for cell in shipped().values() if table_of(cell) is not None
    }  # fmt: skip
    page = results_page(results, {})
    assert "not run yet" not in page
    assert "Other runs" not in page
    assert "| **Table 1, the same budget** | 66 of 66 |" in page
    assert page.count("`zinc/complex-e/mean-dx1-av1`") == 3  # table, worse than the paper, running times


def test_what_is_worse_is_always_named(make_run: Any) -> None:
    page = results_page({"zinc/tuned": [make_run(test=0.18)]}, {})
    assert "`zinc/tuned`: worse than the paper, not explained yet." in page
    assert "| **worse** |" in page
    explained = results_page({"zinc/tuned": [make_run(test=0.18)]}, {"zinc/tuned": "Half the epochs."})
    assert "`zinc/tuned`: Half the epochs." in explained
    assert "not explained" not in explained
    assert "not explained" not in results_page({"zinc/tuned": [make_run(test=0.174)]}, {})


def test_notes_stand_where_they_belong(make_run: Any) -> None:
    notes = {"table1": "All.", "table1/zinc": "Molecules.", "zinc/simple/mean": "A cell."}
    parts = results_page({"zinc/tuned": [make_run()]}, notes).split("\n\n")
    assert parts[parts.index("All.") - 1] == "## Table 1, the same budget"
    assert parts[parts.index("Molecules.") - 1] == "### ZINC, mae"
    assert "`zinc/simple/mean`: A cell." in parts


def test_runs_of_ones_own_come_last(make_run: Any) -> None:
    page = results_page({"zinc/tuned": [make_run()], "digits/dx": [make_run("digits/dx", test=0.95)]}, {})
    assert "## Other runs" in page
    assert "| `digits/dx` | digits | accuracy | mean, dx1, dx2 | 95.00 | 1 | 98,035 | 2 s |" in page


def test_notes_on_nothing_are_refused(make_run: Any) -> None:
    with pytest.raises(ValueError, match=r"notes: .* got 'table1/zink'; did you mean 'table1/zinc'"):
        results_page({"zinc/tuned": [make_run()]}, {"table1/zink": "?"})


def test_notes_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    assert read_notes(path) == {}
    path.write_text("table1: >-\n  one\n  two\n")
    assert read_notes(path) == {"table1": "one two"}
    path.write_text("table1: [one]\n")
    with pytest.raises(ValueError, match=r"notes.yaml: expected lines 'name: text'"):
        read_notes(path)
