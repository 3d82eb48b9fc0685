"""``python -m reproduce TABLE``: train the cells of a table of the paper or of our own."""

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
from dgn.cli.display import as_time, echo, make_console, print_table
from dgn.cli.errors import STOPPED, echo_error
from dgn.cli.process_pool import output, workers
from dgn.cli.run_seeds import draw_summary, echo_conditions, install_sigterm_handler, read_seeds, run_seeds

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.run_folder import FinishedRun

    Outcome = tuple[Experiment, list[FinishedRun] | None, float]  # cell, runs (None if it failed), seconds


def command_of(table: str) -> Callable[..., None]:
    """The command that trains the cells of a table."""

    def command(
        dataset: Annotated[
            str | None,
            typer.Option(
                help="zinc, pattern, cifar10, molhiv, molpcba, peptides-func, muv or tox21; comma-separated.",
                show_default="all of the table",
            ),
        ] = None,
        rows: Annotated[
            str | None, typer.Option(help="Only these rows, comma-separated: mean,mean-dx1 or complex/mean.")
        ] = None,
        seeds: Annotated[
            str | None, typer.Option(help="Comma-separated seeds; default: those of each experiment.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Runs folder; finished seeds are not trained again.")] = Path("runs"),
        change: Annotated[
            list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every cell.")
        ] = None,
        data: Annotated[str | None, typer.Option(help="Dataset file, or folder with all datasets.")] = None,
        device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
        curves: Annotated[
            bool, typer.Option("--curves/--no-curves", help="Draw training curves of all cells at the end.")
        ] = True,
        parallel: Annotated[
            int, typer.Option(help="Number of cells trained in parallel, one process each.", min=1)
        ] = 1,
    ) -> None:
        """Train the cells of the table, row by row, and print our scores next to the paper's."""
        from dgn.training.experiment import load_experiment
        from reproduce.cells import choose, table_datasets

        install_sigterm_handler()
        changes = [*(change or ()), *([] if data is None else [f"data.path={data}"])]
        chosen = read_seeds(seeds)
        if chosen is not None:
            changes.append(f"training.seeds={chosen}")
        row_names = [row.strip() for row in rows.split(",")] if rows else []
        datasets = [name.strip() for name in dataset.split(",")] if dataset else table_datasets(table)
        experiments = [load_experiment(cell.name, changes) for cell in choose(table, datasets, row_names)]
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
    """The exit code after training all cells and printing the table of those that finished.

    A cell that fails is reported and left out; the others continue. Curves are drawn at the end unless training was
    interrupted. ``parallel`` is the number of processes that train cells.
    """
    start, finished, code = time.monotonic(), dict[str, list["FinishedRun"]](), 0
    try:
        for experiment, runs, seconds in (
            _train_sequentially(console, experiments, out, device)
            if parallel == 1
            else _train_in_parallel(console, experiments, out, device, parallel)
        ):
            if runs is None:
                code = 1
            else:
                finished[experiment.name] = runs
                _echo_score(console, runs, seconds)
    except typer.Exit as end:
        code = end.exit_code
    for name in finished if curves and code != STOPPED else ():
        draw_summary(out / name)
    _print_tables(console, experiments, finished)
    echo_conditions(console, [run for runs in finished.values() for run in runs])
    echo(console, f"mean ± standard deviation over seeds; total {as_time(time.monotonic() - start)}; runs in {out}")
    return code


def _train_sequentially(
    console: Console, experiments: Sequence["Experiment"], out: Path, device: str
) -> Iterator["Outcome"]:
    """The outcomes of all cells, trained one after the other."""
    load = Datasets(experiments, out)
    for index, experiment in enumerate(experiments, 1):
        if load.lacks(experiment):
            yield experiment, None, 0.0
            continue
        echo(console, Text(f"{index}/{len(experiments)} {experiment.name}", "bold"))
        begin = time.monotonic()
        try:
            runs = _run_cell(console, experiment, load, out, device)
        except typer.Exit as end:
            if end.exit_code == STOPPED:
                raise
            continue  # a rank other than 0 under torchrun: rank 0 reports
        yield experiment, runs, time.monotonic() - begin


def _train_in_parallel(
    console: Console, experiments: Sequence["Experiment"], out: Path, device: str, processes: int
) -> Iterator["Outcome"]:
    """The outcomes of cells as they finish. Directions are computed once, before the processes read them."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--parallel: expected a single process, got several (torchrun); leave --parallel out")
    load, failed = Datasets(experiments, out), list["Experiment"]()
    for experiment in experiments:
        try:
            if not is_finished(experiment, out) and not load.lacks(experiment):
                load(experiment)
        except (FileNotFoundError, ValueError) as problem:
            echo_error(f"{experiment.name}: {problem}")
            failed.append(experiment)
    with workers(console, out, processes) as pool:
        ready = [cell for cell in experiments if cell not in failed and not load.lacks(cell)]
        yield from ((cell, None, 0.0) for cell in experiments if cell not in ready)
        for is_distilled in (False, True):  # teachers first
            group = [cell for cell in ready if (cell.training.distill_from is not None) == is_distilled]
            futures = {pool.submit(_work, cell, load.widest(cell), out, device): cell for cell in group}
            for future in as_completed(futures):
                runs, seconds = None, 0.0
                try:
                    runs, seconds = future.result()
                except Exception as problem:  # a process died
                    echo_error(f"{futures[future].name}: {problem}")
                yield futures[future], runs, seconds


def _work(
    experiment: "Experiment", widest: "Experiment", out: Path, device: str
) -> tuple[list["FinishedRun"] | None, float]:
    """The runs and seconds of one cell in a worker process; the graphs hold all inputs that ``widest`` reads."""
    begin = time.monotonic()
    with output(out / experiment.name) as console:
        runs = _run_cell(console, experiment, lambda _: own_graphs()(widest), out, device)
    return runs, time.monotonic() - begin


def _run_cell(
    console: Console, experiment: "Experiment", load: Callable[["Experiment"], "Benchmark"], out: Path, device: str
) -> list["FinishedRun"] | None:
    """The finished seeds of a cell, or None after reporting a failure."""
    from dgn.training.devices import free_memory
    from dgn.training.errors import TrainingError

    folder, seeds = out / experiment.name, experiment.training.seeds
    try:
        return run_seeds(console, experiment, lambda: load(experiment), seeds, folder, device, curves=False)
    except typer.Exit:
        raise
    except (TrainingError, FileNotFoundError, ValueError) as problem:
        echo_error(f"{experiment.name}: {problem}")
    except Exception as problem:  # any error: the results of the other cells must not be lost
        echo_error(f"{experiment.name}: {type(problem).__name__}: {problem}\n{traceback.format_exc()}")
    finally:
        free_memory()
    return None


def _echo_score(console: Console, runs: Sequence["FinishedRun"], seconds: float) -> None:
    from dgn.training.scores import published_score, summarize

    experiment = runs[0].experiment
    paper = "" if experiment.published is None else f" (paper {published_score(experiment)})"
    echo(console, f"{experiment.name}: {summarize(runs)}{paper}, {as_time(seconds)}")


def _print_tables(
    console: Console, experiments: Sequence["Experiment"], finished: dict[str, list["FinishedRun"]]
) -> None:
    """Print a table per dataset, in the order of the paper."""
    from dgn.training.scores import summarize
    from reproduce.beyond import beyond_table
    from reproduce.cells import in_order, table_of
    from reproduce.tables import paper_table

    scores = {name: summarize(runs) for name, runs in finished.items()}
    for _, chosen in groupby(experiments, key=lambda cell: cell.data.dataset):
        ordered = in_order(list(chosen))
        is_beyond = table_of(ordered[0]) == "plus"
        print_table(console, beyond_table(ordered, finished) if is_beyond else paper_table(ordered, scores))
