"""``dgn reproduce``: the cells of a table, once each, beside the paper's."""

from pathlib import Path
from typing import Any

CELLS = ("reproduce", "table1", "--dataset", "zinc", "--rows", "mean,complex/mean-dx1", "--seeds", "41,95")


def test_all_cells_are_run_and_printed_beside_the_paper(dgn: Any, training: Any) -> None:
    done = dgn(*CELLS, "--device", "cpu", "--out", "here")
    assert done.exit_code == 0, done.output
    names = ["zinc/simple/mean", "zinc/complex/mean", "zinc/complex/mean-dx1", "zinc/complex-e/mean"]
    assert training.calls == [(name, [41, 95]) for name in names]
    assert done.output.count("0.680 ± 0.382") == 4
    assert "data: made up" in done.output
    assert "not as published" not in done.output
    assert all(score in done.output for score in ("0.316", "0.353", "0.262", "0.233"))
    assert Path("here/zinc/complex/mean-dx1/seed-95/result.json").exists()


def test_finished_cells_are_skipped(dgn: Any, training: Any) -> None:
    dgn(*CELLS, "--device", "cpu")
    again = dgn(*CELLS, "--device", "cpu")
    assert len(training.calls) == 4
    assert again.output.count("0.680 ± 0.382") == 4


def test_a_cell_that_fails_does_not_stop_the_others(dgn: Any, training: Any) -> None:
    training.failing = 95
    done = dgn(*CELLS, "--device", "cpu")
    assert done.exit_code == 1
    assert len(training.calls) == 4
    assert "zinc/complex/mean-dx1: loss: expected a number, got nan" in done.stderr
    assert "0.353" in done.output


def test_an_interruption_shows_what_is_there(dgn: Any, training: Any) -> None:
    training.interrupt = True
    done = dgn(*CELLS, "--device", "cpu")
    assert done.exit_code == 130
    assert len(training.calls) == 1
    assert "0.353" in done.output


def test_the_tuned_table(dgn: Any, training: Any) -> None:
    done = dgn("reproduce", "table2", "--dataset", "zinc", "--seeds", "41", "--device", "cpu")
    assert [name for name, _ in training.calls] == ["zinc/tuned", "zinc/tuned-no-edges"]
    assert "0.219 ± 0.010" in done.output


def test_unknown_tables_are_refused(dgn: Any, training: Any) -> None:
    refused = dgn("reproduce", "table3", "--dataset", "zinc")
    assert refused.exit_code == 1
    assert "table: expected one of 'table1', 'table2'" in refused.stderr
    assert not training.calls
