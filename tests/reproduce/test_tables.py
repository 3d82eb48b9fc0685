"""Tables with the paper's scores."""

from typing import Any

from dgn.training.scores import Score
from dgn.training.tables import comparison_table, seeds_table
from reproduce.cells import cells, choose
from reproduce.tables import paper_table


def test_the_seeds_of_a_run_end_with_their_mean_and_the_paper(make_run: Any) -> None:
    table = seeds_table([make_run(seed=41, test=0.1), make_run(seed=95, test=0.2)])
    assert table.title == "zinc/tuned, 98,035 parameters"
    assert table.header == ("seed", "val mae", "test mae", "epochs", "seconds")
    assert table.rows[0] == ("41", "0.200", "0.100", "3", "2")
    assert table.rows[2] == ("mean", "0.200 ± 0.000", "0.150 ± 0.071", "", "")
    assert table.rows[3] == ("paper", "", "0.168 ± 0.003", "", "")


def test_one_seed_of_an_unpublished_run_is_one_row(make_run: Any) -> None:
    assert [row[0] for row in seeds_table([make_run("digits/mean")]).rows] == ["41"]


def test_compared_runs_are_rows(make_run: Any) -> None:
    table = comparison_table({"mean": [make_run("digits/mean", test=0.9)], "dx": [make_run("digits/dx", test=0.95)]})
    assert table.header[3] == "test accuracy"
    assert table.rows == (
        ("mean", "mean", "98,035", "90.00", "2"),
        ("dx", "mean, dx1, dx2", "98,035", "95.00", "2"),
    )


def test_a_table_of_the_paper_has_our_scores_next_to_it() -> None:
    chosen = choose("table1", ["zinc"], ["mean", "complex/mean-dx1"])
    table = paper_table(chosen, {"zinc/complex/mean-dx1": Score("mae", (0.22, 0.24))})
    assert table.title == "Table 1, the same parameter budget: ZINC, MAE"
    assert table.header == (
        "aggregators", "simple", "simple paper", "complex", "complex paper", "complex-e", "complex-e paper",
    )  # fmt: skip
    assert table.rows == (
        ("mean", "-", "0.316", "-", "0.353", "-", "0.262"),
        ("mean dx1", "", "", "0.230 ± 0.014", "0.233", "", ""),
    )


def test_the_tuned_table_has_one_column_of_ours() -> None:
    table = paper_table(cells("table2", "cifar10"), {"cifar10/tuned": Score("accuracy", (0.73,))})
    assert table.header == ("experiment", "ours", "paper")
    assert table.rows == (("tuned", "73.00", "72.84 ± 0.42"), ("tuned-no-edges", "-", "72.70 ± 0.54"))
