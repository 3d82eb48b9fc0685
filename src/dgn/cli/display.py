"""Progress of training: one line per seed, updated every epoch."""

import math
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from dgn.training.run import EpochReport
    from dgn.training.tables import Table as TextTable

REFRESH = 0.1  # seconds between redraws: drawing must not slow training down
WIDE = 10_000  # columns without a terminal: a pipe or a file gets full names
LINES = 10  # reports per seed without a terminal, as in a log file


class Display:
    """A live table on a terminal, redrawn as epochs end; elsewhere ``LINES`` log lines per seed.

    ``metric`` is the column shown; with ``early``, training may stop before its last epoch.
    """

    def __init__(self, console: Console, metric: str, early: bool) -> None:
        self.console, self.metric, self.early = console, metric, early
        self.latest: dict[int, EpochReport] = {}
        self.drawn = -math.inf
        self.live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> "Display":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def update(self, report: "EpochReport") -> None:
        """Show an epoch that has ended."""
        self.latest[report.seed] = report
        if self.live is not None:
            if time.monotonic() - self.drawn >= REFRESH:
                self.live.update(self.render(), refresh=True)
                self.drawn = time.monotonic()
        elif report.epoch == 1 or report.epoch % max(1, report.epochs // LINES) == 0 or report.epoch == report.epochs:
            cells = self.describe(report)
            echo(self.console, ", ".join(f"{name} {value}" for name, value in cells.items()))

    def echo(self, message: str) -> None:
        """Print a line above the table and clear its rows: lines come between runs, and the next run has other rows."""
        self.latest.clear()
        if self.live is not None:
            self.live.update("", refresh=True)
        echo(self.console, message)

    def render(self) -> Table:
        table = Table(box=None, pad_edge=False)
        rows = [self.describe(self.latest[seed]) for seed in sorted(self.latest)]
        for name in rows[0]:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row.values())
        return table

    def describe(self, report: "EpochReport") -> Mapping[str, str]:
        """The cells of one line, by column."""
        remaining = report.seconds / max(1, report.epoch) * (report.epochs - report.epoch)
        score = report.metrics.get(self.metric)
        return {
            "seed": str(report.seed),
            "epoch": f"{report.epoch}/{report.epochs}",
            "loss": f"{report.train_loss:.4f}",
            "val loss": f"{report.val_loss:.4f}",
            f"val {self.metric}": "" if score is None else f"{score:.4f}",
            "lr": f"{report.learning_rate:.1e}",
            "graphs/s": f"{report.graphs_per_second:,.0f}",
            "time left": ("at most " if self.early and remaining > 0 else "") + as_time(remaining),
        }


def as_time(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss.

    >>> as_time(59.6), as_time(3661)
    ('1:00', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def echo(console: Console, message: str | Text) -> None:
    """Print a line literally: no wrapping, no highlighting, no markup."""
    console.print(message, soft_wrap=True, highlight=False, markup=False)


def print_table(console: Console, table: "TextTable") -> None:
    """Print a table: text aligned to the left, numbers to the right."""
    drawn = Table(title=table.title or None, title_justify="left", show_header=any(table.header))
    for index, name in enumerate(table.header):
        is_text = index == 0 or any(row[index][:1].isalpha() for row in table.rows)
        drawn.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(escape, row))  # brackets are list syntax here, not markup
    console.print(drawn)


def make_console() -> Console:
    """The console of rank 0, of unlimited width without a terminal; other ranks of ``torchrun`` print nothing."""
    console = Console(quiet=os.environ.get("RANK", "0") != "0")
    if not console.is_terminal:
        console.width = WIDE
    return console
