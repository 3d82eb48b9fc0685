"""The page of all results, from made-up results."""

from pathlib import Path
from typing import Any

import pytest

from dgn.training.scores import main_metric
from reproduce.cells import shipped, table_of
from reproduce.page import read_notes, results_page
from tests.reproduce.markdown import find_row, find_rows, rows


def test_scores_stand_next_to_the_paper(make_run: Any) -> None:
    conditions = {"date": "2026-11-15", "device": "a GPU", "data": "resampled", "seconds": 30.0, "beside": (41, 95)}
    runs = [make_run(seed=seed, test=test, **conditions) for seed, test in ((41, 0.16), (95, 0.17))]
    page = results_page({"zinc/tuned": runs}, {})
    assert find_row(page, "zinc/tuned", "ours") == {
        "experiment": "zinc/tuned", "ours": "0.165 ± 0.007", "seeds": "2 of 4",
        "parameters": "98,035 (paper: 98,035)", "paper": "0.168 ± 0.003", "vs. paper": "as good", "epochs": "3",
        "time": "30 s",
    }  # fmt: skip
    missing = find_row(page, "zinc/tuned-no-edges", "ours")
    assert (missing["ours"], missing["paper"], missing["vs. paper"]) == ("not trained yet", "0.219 ± 0.010", "")
    cells = [cell for row in rows(page) for cell in row.values()]
    assert cells.count("not trained yet") == 72 + 6 + 20  # the paper's, multi-label, augmentation
    assert list(find_row(page, "Table 2, tuned", "cells trained").values())[1:] == ["1 of 7", "1", "0", "2", "30 s"]
    assert [row["cells trained"] for row in find_rows(page, "MolHIV")] == ["0 of 8", "0 of 1"]
    assert "1 of 7 cells trained; 30 s of training on a GPU, 2026-11-15." in page
    assert page.count("### ZINC, MAE\n") == 2
    assert page.count("### ZINC, MAE\n\nData: resampled.\n") == 1  # table 1 has no runs, so no line on its data
    assert "Other experiments" not in page


def test_table_1_is_also_shown_as_in_the_paper(make_run: Any) -> None:
    page = results_page({"zinc/complex/mean-dx1": [make_run("zinc/complex/mean-dx1", test=0.22)]}, {})
    (row,) = find_rows(page, "mean dx1")
    assert (row["simple"], row["complex"], row["complex-e"]) == ("-", "0.220", "-")
    assert (row["simple paper"], row["complex paper"], row["complex-e paper"]) == ("0.296", "0.233", "0.191")


def test_tables_without_published_scores_have_no_paper_column(make_run: Any) -> None:
    page = results_page({"muv/simple/mean": [make_run("muv/simple/mean", test=0.2)]}, {"multi-label/muv": "Few."})
    blocks = page.split("\n\n")
    assert blocks[blocks.index("Few.") - 1] == "### MUV, average precision"
    assert find_row(page, "muv/simple/mean", "ours") == {
        "experiment": "muv/simple/mean", "ours": "20.00", "seeds": "1 of 4", "parameters": "98,035", "epochs": "3",
        "time": "2 s",
    }  # fmt: skip
    overview = find_row(page, "Multi-label datasets with missing labels", "cells trained")
    assert list(overview.values())[1:] == ["1 of 6", "", "", "1", "2 s"]


def test_every_cell_of_a_table_is_on_the_page(make_run: Any) -> None:
    results = {
        cell.name: [make_run(cell.name, seed, metrics={split: {main_metric(cell): 0.5} for split in ("train", "test")})
                    for seed in cell.training.seeds]
        for cell in shipped().values() if table_of(cell) is not None
    }  # fmt: skip
    page = results_page(results, {})
    assert "not trained yet" not in page
    assert "Other experiments" not in page
    assert find_row(page, "Table 1, the same parameter budget", "cells trained")["cells trained"] == "66 of 66"
    assert len(find_rows(page, "zinc/complex-e/mean-dx1-av1")) == 2  # scores, running times
    assert "`zinc/complex-e/mean-dx1-av1`: worse than the paper" in page


def test_a_worse_score_always_has_a_paragraph(make_run: Any) -> None:
    page = results_page({"zinc/tuned": [make_run(test=0.18)]}, {})
    assert "`zinc/tuned`: worse than the paper, not explained yet." in page
    assert find_row(page, "zinc/tuned", "ours")["vs. paper"] == "worse"
    explained = results_page({"zinc/tuned": [make_run(test=0.18)]}, {"zinc/tuned": "Trained for half the epochs."})
    assert "`zinc/tuned`: Trained for half the epochs." in explained
    assert "not explained" not in explained
    assert "not explained" not in results_page({"zinc/tuned": [make_run(test=0.174)]}, {})


def test_notes_follow_the_heading_of_their_subject(make_run: Any) -> None:
    notes = {"table1": "All.", "table1/zinc": "Molecules.", "zinc/simple/mean": "A cell."}
    parts = results_page({"zinc/tuned": [make_run()]}, notes).split("\n\n")
    assert parts[parts.index("All.") - 1] == "## Table 1, the same parameter budget"
    assert parts[parts.index("Molecules.") - 1] == "### ZINC, MAE"
    assert "`zinc/simple/mean`: A cell." in parts


def test_experiments_that_are_not_shipped_come_last(make_run: Any) -> None:
    page = results_page({"zinc/tuned": [make_run()], "digits/dx": [make_run("digits/dx", test=0.95)]}, {})
    assert "## Other experiments" in page
    row = find_row(page, "digits/dx", "ours")
    assert (row["data"], row["metric"], row["aggregators"]) == ("digits", "accuracy", "mean, dx1, dx2")
    assert (row["ours"], row["seeds"], row["parameters"], row["time"]) == ("95.00", "1", "98,035", "2 s")


def test_notes_on_unknown_subjects_are_refused(make_run: Any) -> None:
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
