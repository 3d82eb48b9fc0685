"""``python -m reproduce TABLE``: train the cells of a table of the paper, or of ours beyond it."""

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from dgn.cli.datasets import Datasets, is_finished, own_graphs
from dgn.cli.display import as_time, make_console, print_table, say
from dgn.cli.errors import say_error
from dgn.cli.process_pool import output, workers
from dgn.cli.run_seeds import STOPPED, draw_summary, install_sigterm_handler, read_seeds, run_seeds, say_conditions

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.run_folder import FinishedRun

    Outcome = tuple[Experiment, list[FinishedRun] | None, float]  # a cell, its runs if it ended, and its seconds


def command_of(table: str) -> Callable[..., None]:
    """The command that trains the cells of a table."""

    def command(
        dataset: Annotated[
            str | None,
            typer.Option(
                help="zinc, pattern, cifar10, molhiv, molpcba, muv or tox21; several with commas between.",
                show_default="all of the table",
            ),
        ] = None,
        rows: Annotated[
            str | None, typer.Option(help="Only these, with commas between: mean,mean-dx1 or complex/mean.")
        ] = None,
        seeds: Annotated[
            str | None, typer.Option(help="Seeds with commas between; without: those of each run.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder of all runs; what is finished there is not run again.")] = Path(
            "runs"
        ),
        change: Annotated[
            list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every cell.")
        ] = None,
        data: Annotated[
            str | None, typer.Option(help="File with the graphs, or folder with those of all datasets.")
        ] = None,
        device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
        curves: Annotated[
            bool, typer.Option("--curves/--no-curves", help="Draw curves of all cells at the end.")
        ] = True,
        parallel: Annotated[int, typer.Option(help="So many cells at once, each in a process of its own.", min=1)] = 1,
    ) -> None:
        """Train the cells of the table, row by row, and print it beside the paper's."""
        from dgn.training.experiment import load_experiment
        from reproduce.cells import choose, table_datasets

        install_sigterm_handler()
        changes = [*(change or ()), *([] if data is None else [f"data.path={data}"])]
        chosen = read_seeds(seeds)
        if chosen is not None:
            changes.append(f"training.seeds={chosen}")
        wanted = [row.strip() for row in rows.split(",")] if rows else []
        datasets = [each.strip() for each in dataset.split(",")] if dataset else table_datasets(table)
        experiments = [load_experiment(cell.name, changes) for cell in choose(table, datasets, wanted)]
        code = run_cells(make_console(), experiments, out, device, curves, parallel)
        if code:
            raise typer.Exit(code)

    return command


def run_cells(
    console: Console,
    experiments: Sequence["Experiment"],
    out: Path,
    device: str,
    curves: bool = True,
    parallel: int = 1,
) -> int:
    """Run all cells, print the table of those that finished, and return the exit code.

    A cell that fails is named and left out; the others go on. Curves are drawn at the end, unless it was stopped. With
    ``parallel``, so many processes train cells at once.
    """
    start, finished, code = time.monotonic(), dict[str, list["FinishedRun"]](), 0
    try:
        for experiment, runs, seconds in (
            _in_turn(console, experiments, out, device)
            if parallel == 1
            else _at_once(console, experiments, out, device, parallel)
        ):
            if runs is None:
                code = 1
            else:
                finished[experiment.name] = runs
                _say_score(console, runs, seconds)
    except typer.Exit as end:
        code = end.exit_code
    for name in finished if curves and code != STOPPED else ():
        draw_summary(out / name)
    _print_tables(console, experiments, finished)
    say_conditions(console, [run for runs in finished.values() for run in runs])
    say(console, f"mean ± deviation over seeds; {as_time(time.monotonic() - start)} in all; runs in {out}")
    return code


def _in_turn(console: Console, experiments: Sequence["Experiment"], out: Path, device: str) -> Iterator["Outcome"]:
    """One cell after the other."""
    load = Datasets(experiments, out)
    for number, experiment in enumerate(experiments, 1):
        if load.lacks(experiment):
            yield experiment, None, 0.0
            continue
        say(console, Text(f"{number}/{len(experiments)} {experiment.name}", "bold"))
        begin = time.monotonic()
        try:
            runs = _run_cell(console, experiment, load, out, device)
        except typer.Exit as end:
            if end.exit_code == STOPPED:
                raise
            continue  # one of several processes, which leaves the rest to the first
        yield experiment, runs, time.monotonic() - begin


def _at_once(
    console: Console, experiments: Sequence["Experiment"], out: Path, device: str, processes: int
) -> Iterator["Outcome"]:
    """So many cells at once, each as soon as it ends. Directions are computed once, before the processes read them."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--parallel: expected one process to begin with, got several; leave it out with torchrun")
    load, failed = Datasets(experiments, out), list["Experiment"]()
    for experiment in experiments:
        try:
            if not is_finished(experiment, out) and not load.lacks(experiment):
                load(experiment)
        except (FileNotFoundError, ValueError) as problem:
            say_error(f"{experiment.name}: {problem}")
            failed.append(experiment)
    with workers(console, out, processes) as pool:
        there = [each for each in experiments if each not in failed and not load.lacks(each)]
        yield from ((experiment, None, 0.0) for experiment in experiments if experiment not in there)
        for is_taught in (False, True):  # teachers first
            some = [each for each in there if (each.training.distill_from is not None) == is_taught]
            asked = {pool.submit(_work, each, load.widest(each), out, device): each for each in some}
            for future in as_completed(asked):
                runs, seconds = None, 0.0
                try:
                    runs, seconds = future.result()
                except Exception as problem:  # a process that was lost
                    say_error(f"{asked[future].name}: {problem}")
                yield asked[future], runs, seconds


def _work(
    experiment: "Experiment", widest: "Experiment", out: Path, device: str
) -> tuple[list["FinishedRun"] | None, float]:
    """One cell in a process of its own, with graphs that the ``widest`` cell can read too: its runs and its seconds."""
    begin = time.monotonic()
    with output(out / experiment.name) as console:
        runs = _run_cell(console, experiment, lambda _: own_graphs()(widest), out, device)
    return runs, time.monotonic() - begin


def _run_cell(
    console: Console, experiment: "Experiment", load: Callable[["Experiment"], "Benchmark"], out: Path, device: str
) -> list["FinishedRun"] | None:
    """The finished seeds of a cell, or nothing if it failed, which is said."""
    from dgn.training.devices import free_memory
    from dgn.training.errors import TrainingError

    folder, seeds = out / experiment.name, experiment.training.seeds
    try:
        return run_seeds(console, experiment, lambda: load(experiment), seeds, folder, device, curves=False)
    except typer.Exit:
        raise
    except (TrainingError, FileNotFoundError, ValueError) as problem:
        say_error(f"{experiment.name}: {problem}")
    except Exception as problem:  # whatever it is, the hours of the other cells must not be lost
        say_error(f"{experiment.name}: {type(problem).__name__}: {problem}\n{traceback.format_exc()}")
    finally:
        free_memory()
    return None


def _say_score(console: Console, runs: Sequence["FinishedRun"], seconds: float) -> None:
    from dgn.training.scores import published_score, summarize

    experiment = runs[0].experiment
    paper = "" if experiment.published is None else f" (paper {published_score(experiment)})"
    say(
        console,
        f"{experiment.name}: {summarize(runs)}{paper}, {as_time(seconds)}",
    )


def _print_tables(
    console: Console, experiments: Sequence["Experiment"], finished: dict[str, list["FinishedRun"]]
) -> None:
    """A table for each dataset, in the order of the paper."""
    from dgn.training.scores import summarize
    from reproduce.beyond import beyond_table
    from reproduce.cells import in_order, table_of
    from reproduce.tables import paper_table

    scores = {name: summarize(runs) for name, runs in finished.items()}
    for _, chosen in groupby(experiments, key=lambda each: each.data.dataset):
        ordered = in_order(list(chosen))
        is_ours = table_of(ordered[0]) == "plus"
        print_table(console, beyond_table(ordered, finished) if is_ours else paper_table(ordered, scores))
