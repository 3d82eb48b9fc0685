"""A progress bar with rate and remaining time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dgn.graph.checks import check_package


@contextmanager
def progress_bar(what: str, total: int, unit: str = "graphs", show: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a bar on the error stream; the function given tells it how many more are done."""
    if not show:
        yield lambda _: None
        return
    check_package("progress", "rich")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, rate="")

        def advance(count: int) -> None:
            bar.advance(task, count)
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield advance
