"""``dgn reproduce``: the cells of a table of the paper, beside the paper's."""

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dgn.cli.display import as_time, make_console, print_table
from dgn.cli.errors import say_error
from dgn.cli.running import STOPPED, read_seeds, run_seeds, say_conditions

if TYPE_CHECKING:
    from dgn.training.experiment import Experiment


def command(
    table: Annotated[str, typer.Argument(help="table1 (the same budget) or table2 (tuned).")],
    dataset: Annotated[str, typer.Option(help="zinc, pattern, cifar10, molhiv or molpcba.")],
    rows: Annotated[
        str | None, typer.Option(help="Only these, with commas between: mean,mean-dx1 or complex/mean.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds with commas between; without: those of each run.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of all runs; what is finished there is not run again.")] = Path(
        "runs"
    ),
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every cell.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="File or folder with the graphs.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Run the cells of a table of the paper and print it beside the paper's."""
    from dgn.reports.tables import cells
    from dgn.training.experiment import load_experiment

    changes = [*(change or ()), *([] if data is None else [f"data.path={data}"])]
    chosen = read_seeds(seeds)
    if chosen is not None:
        changes.append(f"training.seeds={chosen}")
    wanted = [row.strip() for row in rows.split(",")] if rows else []
    experiments = [load_experiment(cell.name, changes) for cell in cells(table, dataset, wanted)]
    code = run_cells(make_console(), experiments, out, device)
    if code:
        raise typer.Exit(code)


def run_cells(console: Console, experiments: Sequence["Experiment"], out: Path, device: str) -> int:
    """Run all cells, print the table of those that finished, and return the exit code.

    A cell that fails is named and left out; the others go on.
    """
    from dgn.reports.scores import summarize
    from dgn.reports.tables import paper_table
    from dgn.training.errors import TrainingError
    from dgn.training.load import load_graphs

    most = max(experiments, key=lambda each: each.num_directions)
    load = cache(lambda: load_graphs(most, True))  # fewer directions are the first columns of more
    start, scores, finished, code = time.monotonic(), {}, [], 0
    for number, experiment in enumerate(experiments, 1):
        console.print(f"[bold]{number}/{len(experiments)} {experiment.name}[/bold]", highlight=False)
        try:
            runs = run_seeds(console, experiment, load, experiment.training.seeds, out / experiment.name, device)
        except TrainingError as problem:
            say_error(f"{experiment.name}: {problem}")
            code = 1
        except typer.Exit:
            code = STOPPED
            break
        else:
            scores[experiment.name] = summarize(runs)
            finished += runs
    print_table(console, paper_table(experiments, scores))
    say_conditions(console, finished)
    console.print(f"mean ± deviation over seeds; {as_time(time.monotonic() - start)} in all; runs in {out}")
    return code
