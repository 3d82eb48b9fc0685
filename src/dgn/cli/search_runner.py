"""The trials of a search, sequentially or in parallel processes.

Several processes on one GPU keep it busy where one network is too small to. The main process proposes trials and
records their scores; the workers train, each with its own graphs. So no two run the same trial, and trials that were
running when the search was killed come first when it resumes. A trial that fails is reported and has no score; what
would fail every trial (missing data, packages or device) ends the search.
"""

import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from dgn.cli.datasets import CacheWarmer, Graphs, own_graphs
from dgn.cli.display import echo
from dgn.cli.errors import echo_error
from dgn.cli.process_pool import output, workers
from dgn.cli.run_seeds import run_seeds

if TYPE_CHECKING:
    from dgn.training.experiment import Experiment
    from dgn.tuning.space import Value
    from dgn.tuning.study import Search, Trial

FATAL = (OSError, ImportError)  # errors that would fail every trial


class Outcome(NamedTuple):
    """The validation score of a trial, if there is one, and the message to print."""

    score: float | None
    message: str
    pruned: bool = False


def run_sequentially(console: Console, search: "Search", total: int, device: str, prune: bool = False) -> None:
    """Run trials one after the other."""
    from dgn.training.devices import free_memory

    graphs = Graphs()
    prepare(search, total, device, graphs)
    while (trial := search.next(total)) is not None:
        experiment = begin(console, search, trial, total, graphs)
        if experiment is not None:
            end(console, search, [trial], run_trial(console, experiment, trial.folder, graphs, device, prune))
            free_memory()  # after the trial is recorded: a lost device ends the search, but not at the same trial again


def run_in_parallel(
    console: Console, search: "Search", total: int, device: str, processes: int, prune: bool = False
) -> None:
    """Run several trials in parallel, the next one as soon as one has ended.

    A trial with the values of a running one waits for it and shares its score. On an interrupt the workers end at
    once; their progress is in checkpoints. Graphs are loaded here first, so that they are downloaded and precomputed
    once.
    """
    graphs = CacheWarmer()
    prepare(search, total, device, graphs)
    running: dict[Future[Outcome], list[Trial]] = {}
    with workers(console, search.folder, processes) as pool:
        while True:
            while len(running) < processes:
                busy = {trial.number: future for future, trials in running.items() for trial in trials}
                trial = search.next(total, busy)
                if trial is None:
                    break
                experiment = begin(console, search, trial, total, graphs)
                if experiment is None:
                    continue
                same = next((trials for trials in running.values() if trials[0].folder == trial.folder), None)
                if same is None:
                    running[pool.submit(_run_in_worker, experiment, trial.folder, device, prune)] = [trial]
                else:
                    same.append(trial)
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                end(console, search, running.pop(future), outcome_of(future))


def prepare(search: "Search", total: int, device: str, load: Callable[["Experiment"], object]) -> None:
    """Load the graphs of the base experiment, if a trial is left: an error in them or in the device would fail every
    trial, and is reported once."""
    from dgn.training.devices import choose_device

    if search.next(total) is not None:
        choose_device(device)
        load(search.experiment)


def begin(
    console: Console, search: "Search", trial: "Trial", total: int, load: Callable[["Experiment"], object]
) -> "Experiment | None":
    """The experiment of a trial, announced, its graphs loaded; None for settings that are invalid together."""
    settings = ", ".join(f"{name} {as_text(value)}" for name, value in trial.values.items())
    echo(console, Text.assemble((f"{trial.number + 1}/{total} ", "bold"), settings))
    try:
        experiment = search.resolve(trial)
        load(experiment)
        return experiment
    except ValueError as problem:
        echo(console, f"skipped: {problem}")
        search.tell(trial, None)
        return None


def as_text(value: "Value") -> str:
    """A value for display: floats with three significant digits; the folder of the trial has all digits.

    >>> as_text(0.0023456789), as_text(1024), as_text("[mean, dx1]")
    ('0.00235', '1024', '[mean, dx1]')
    """
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def run_trial(
    console: Console, experiment: "Experiment", folder: Path, graphs: Graphs, device: str, prune: bool
) -> Outcome:
    """The validation score of a trial; None if training failed or, with ``prune``, the trial was pruned."""
    from dgn.training.errors import DivergedError, OutOfMemoryError
    from dgn.training.scores import summarize, unit
    from dgn.tuning.pruning import TrialPruned, Watch

    seeds, watch = experiment.training.seeds, Watch(folder, experiment) if prune else None
    try:
        runs = run_seeds(console, experiment, lambda: graphs(experiment), seeds, folder, device, False, watch)
    except (typer.Exit, *FATAL):
        raise
    except (DivergedError, OutOfMemoryError, ValueError) as problem:
        return Outcome(None, str(problem))
    except TrialPruned as reason:
        return Outcome(None, str(reason), pruned=True)
    except Exception as problem:  # a bug in one trial must not lose the others
        echo(console, traceback.format_exc())
        return Outcome(None, f"{type(problem).__name__}: {problem}")
    score = summarize(runs, "val")
    return Outcome(score.mean / unit(score.metric), f"validation {score.metric} {score}")


def outcome_of(future: Future[Outcome]) -> Outcome:
    """The outcome of a trial in a worker process, also if the process died."""
    try:
        return future.result()
    except FATAL:
        raise
    except Exception as problem:
        return Outcome(None, str(problem))


def end(console: Console, search: "Search", trials: "list[Trial]", outcome: Outcome) -> None:
    """Record and print the outcome of trials with equal values."""
    for trial in trials:
        search.tell(trial, outcome.score, outcome.pruned)
        message = f"trial {trial.number}: {outcome.message}"
        if outcome.score is None and not outcome.pruned:
            echo_error(message)
        else:
            echo(console, message)


def _run_in_worker(experiment: "Experiment", folder: Path, device: str, prune: bool) -> Outcome:
    """Run one trial in a worker process; a lost device raises, which replaces the process."""
    from dgn.training.devices import free_memory

    try:
        with output(folder) as console:
            return run_trial(console, experiment, folder, own_graphs(), device, prune)
    finally:
        free_memory()
