"""The trials of a search: one after the other, or several processes at once.

Several processes on one GPU keep it busy where one network is too small to. One process proposes and remembers; the
others train, each with graphs of its own. So no two take the same trial, and what they were at when everything was
killed comes first when it goes on. A trial that fails is named and has no score; what would fail every trial (data,
packages or the device are missing) ends the search.
"""

import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from dgn.cli.datasets import Graphs, Prepared, own_graphs
from dgn.cli.display import say
from dgn.cli.errors import say_error
from dgn.cli.process_pool import output, workers
from dgn.cli.run_seeds import run_seeds

if TYPE_CHECKING:
    from dgn.training.experiment import Experiment
    from dgn.tuning.space import Value
    from dgn.tuning.study import Search, Trial

FOR_ALL = (OSError, ImportError)  # what keeps every trial from training


class Outcome(NamedTuple):
    """The validation score of a trial, if there is one, and what to say of it."""

    score: float | None
    told: str
    given_up: bool = False


def run_in_turn(console: Console, search: "Search", total: int, device: str, prune: bool = False) -> None:
    """One trial after the other."""
    from dgn.training.devices import free_memory

    graphs = Graphs()
    prepare(search, total, device, graphs)
    while (trial := search.next(total)) is not None:
        experiment = begin(console, search, trial, total, graphs)
        if experiment is not None:
            end(console, search, [trial], run_trial(console, experiment, trial.folder, graphs, device, prune))
            free_memory()  # once the trial is told: a device that was lost ends the search, and not again at this trial


def run_at_once(
    console: Console, search: "Search", total: int, device: str, processes: int, prune: bool = False
) -> None:
    """Several trials at once, the next one as soon as one has ended.

    A trial with the values of one that is under way waits for it and shares its score. Interrupted, the processes end
    at once: what they trained is in their checkpoints. Graphs are loaded here first, so that what they need is
    fetched and computed once.
    """
    graphs = Prepared()
    prepare(search, total, device, graphs)
    under_way: dict[Future[Outcome], list[Trial]] = {}
    with workers(console, search.folder, processes) as pool:
        while True:
            while len(under_way) < processes:
                busy = {trial.number: future for future, trials in under_way.items() for trial in trials}
                trial = search.next(total, busy)
                if trial is None:
                    break
                experiment = begin(console, search, trial, total, graphs)
                if experiment is None:
                    continue
                same = next((trials for trials in under_way.values() if trials[0].folder == trial.folder), None)
                if same is None:
                    under_way[pool.submit(_work, experiment, trial.folder, device, prune)] = [trial]
                else:
                    same.append(trial)
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                end(console, search, under_way.pop(future), outcome_of(future))


def prepare(search: "Search", total: int, device: str, load: Callable[["Experiment"], object]) -> None:
    """Load the graphs of the experiment that is searched from, if a trial is left: what is wrong with them or with the
    device is wrong with every trial, and must not be told of each."""
    from dgn.training.devices import choose_device

    if search.next(total) is not None:
        choose_device(device)
        load(search.experiment)


def begin(
    console: Console, search: "Search", trial: "Trial", total: int, load: Callable[["Experiment"], object]
) -> "Experiment | None":
    """The experiment of a trial, announced, its graphs loaded; settings that do not fit together are left out."""
    told = ", ".join(f"{name} {as_text(value)}" for name, value in trial.values.items())
    say(console, Text.assemble((f"{trial.number + 1}/{total} ", "bold"), told))
    try:
        experiment = search.resolve(trial)
        load(experiment)
        return experiment
    except ValueError as problem:
        say(console, f"left out: {problem}")
        search.tell(trial, None)
        return None


def as_text(value: "Value") -> str:
    """A value as it is shown: fractions with three significant digits; all digits are in the folder of the trial.

    >>> as_text(0.0023456789), as_text(1024), as_text("[mean, dx1]")
    ('0.00235', '1024', '[mean, dx1]')
    """
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def run_trial(
    console: Console, experiment: "Experiment", folder: Path, graphs: Graphs, device: str, prune: bool
) -> Outcome:
    """The validation score of a trial; nothing where training failed or, with ``prune``, it fell behind."""
    from dgn.training.errors import DivergedError, OutOfMemoryError
    from dgn.training.scores import summarize, unit
    from dgn.tuning.pruning import TrialPruned, Watch

    seeds, watch = experiment.training.seeds, Watch(folder, experiment) if prune else None
    try:
        runs = run_seeds(console, experiment, lambda: graphs(experiment), seeds, folder, device, False, watch)
    except (typer.Exit, *FOR_ALL):
        raise
    except (DivergedError, OutOfMemoryError, ValueError) as problem:
        return Outcome(None, str(problem))
    except TrialPruned as reason:
        return Outcome(None, str(reason), given_up=True)
    except Exception as problem:  # whatever it is, the other trials must not be lost
        say(console, traceback.format_exc())
        return Outcome(None, f"{type(problem).__name__}: {problem}")
    score = summarize(runs, "val")
    return Outcome(score.mean / unit(score.metric), f"validation {score.metric} {score}")


def outcome_of(future: Future[Outcome]) -> Outcome:
    """The outcome of a trial in another process, also where the process was lost."""
    try:
        return future.result()
    except FOR_ALL:
        raise
    except Exception as problem:
        return Outcome(None, str(problem))


def end(console: Console, search: "Search", trials: "list[Trial]", outcome: Outcome) -> None:
    """Remember and print the outcome of trials of equal values."""
    for trial in trials:
        search.tell(trial, outcome.score, outcome.given_up)
        told = f"trial {trial.number}: {outcome.told}"
        if outcome.score is None and not outcome.given_up:
            say_error(told)
        else:
            say(console, told)


def _work(experiment: "Experiment", folder: Path, device: str, prune: bool) -> Outcome:
    """One trial in a process of its own, which is given up where its device was lost."""
    from dgn.training.devices import free_memory

    try:
        with output(folder) as console:
            return run_trial(console, experiment, folder, own_graphs(), device, prune)
    finally:
        free_memory()
