"""The progress display of training."""

import io

import pytest
from rich.console import Console

from dgn.cli.display import Display, make_console, print_table
from dgn.training.run import EpochReport
from dgn.training.tables import Table


def report(epoch: int, seed: int = 41, epochs: int = 100) -> EpochReport:
    return EpochReport(seed, epoch, epochs, 1e-3, 0.5, 0.25, {"mae": 0.125}, 2.0 * epoch, 12345.6)


def test_a_log_gets_ten_lines_per_seed() -> None:
    text = io.StringIO()
    with Display(Console(file=text, width=200), "mae", early=True) as display:
        for epoch in range(1, 101):
            display.update(report(epoch))
    lines = text.getvalue().splitlines()
    assert len(lines) == 11  # the first, and every tenth
    assert lines[1] == (
        "seed 41, epoch 10/100, loss 0.5000, val loss 0.2500, val mae 0.1250, lr 1.0e-03, graphs/s 12,346, "
        "time left at most 3:00"
    )
    assert lines[-1].endswith("time left 0:00")


def test_a_terminal_gets_one_row_per_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.cli.display.REFRESH", 0.0)
    text = io.StringIO()
    with Display(Console(file=text, width=120, force_terminal=True), "mae", early=False) as display:
        display.update(report(1))
        display.update(report(2, seed=12))
        rows = display.render().row_count
        shown = text.getvalue()
    assert rows == 2
    assert "2/100" in shown
    assert "at most" not in shown


def test_rows_of_an_earlier_run_are_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.cli.display.REFRESH", 0.0)
    text = io.StringIO()
    with Display(Console(file=text, width=120, force_terminal=True), "mae", early=False) as display:
        display.update(report(100, seed=0))
        display.echo("trial 2 of 3: hidden 56")
        display.update(report(1, seed=2))
        assert "trial 2 of 3: hidden 56" in text.getvalue()
        assert "100/100" not in text.getvalue().partition("trial 2 of 3")[2]


def test_a_terminal_is_not_redrawn_for_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.cli.display.REFRESH", 1e9)
    text = io.StringIO()
    with Display(Console(file=text, width=120, force_terminal=True), "mae", early=False) as display:
        for epoch in range(1, 101):
            display.update(report(epoch))
        assert text.getvalue().count("1/100") == 1
        assert "2/100" not in text.getvalue()


def test_text_is_left_aligned_and_numbers_right_aligned() -> None:
    text = io.StringIO()
    print_table(Console(file=text, width=60), Table("", ("run", "score"), (("a", "1"), ("b", "10.5"))))
    assert "│ a   │     1 │" in text.getvalue()
    print_table(Console(file=text, width=60), Table("", ("run", "kind"), (("a", "x"), ("b", "longer"))))
    assert "│ a   │ x      │" in text.getvalue()


LONG = "cifar10/augmentation/mean-av1-av2-distortion-30"


def test_a_pipe_gets_full_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(make_console(), Table("", ("run", "paper"), ((LONG, "1"),)))
    assert LONG in capsys.readouterr().out


def test_a_narrow_terminal_folds_names() -> None:
    text = io.StringIO()
    print_table(Console(file=text, width=30, force_terminal=True), Table("", ("run", "paper"), ((LONG, "1"),)))
    cells = [line.split("│")[1].strip() for line in text.getvalue().splitlines() if "│" in line]
    assert "".join(cells) == LONG


def test_only_rank_0_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert not make_console().quiet
    monkeypatch.setenv("RANK", "1")
    assert make_console().quiet
