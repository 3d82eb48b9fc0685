"""A progress bar with rate and remaining time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dgn.graph.checks import check_package


@contextmanager
def progress_bar(
    description: str, total: int, unit: str = "graphs", show: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr; the yielded function advances it by a count."""
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
        task = bar.add_task(description, total=total, rate="")

        def advance(count: int) -> None:
            bar.advance(task, count)
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield advance
