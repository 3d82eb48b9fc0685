"""The trials of a search: one after the other, or several processes at once.

Several processes on one GPU keep it busy where one network is too small to. One process proposes and remembers; the
others train, each with graphs of its own. So no two take the same trial, and what they were at when everything was
killed comes first when it goes on.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from dgn.cli.errors import say_error
from dgn.cli.running import STOPPED, run_seeds

if TYPE_CHECKING:
    from dgn.data.benchmarks import Benchmark
    from dgn.search.study import Search, Trial
    from dgn.training.experiment import Experiment
    from dgn.training.settings import DataSettings

OUTPUT = "output.txt"  # what a trial of several at once would have printed
Outcome = tuple[float | None, str]  # the validation score if there is one, and what to say


class Graphs:
    """The graphs of the last trial, loaded again only when the next needs others or more directions."""

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress
        self.benchmark: Benchmark | None = None
        self.directions = 0
        self.data: DataSettings | None = None

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        from dgn.training.load import any_directions, load_graphs

        data = any_directions(experiment.data)
        if self.benchmark is None or data != self.data or self.directions < experiment.num_directions:
            self.benchmark = load_graphs(experiment, self.progress)
            self.directions, self.data = experiment.num_directions, data
        return self.benchmark


def run_in_turn(console: Console, search: "Search", total: int, device: str) -> None:
    """One trial after the other."""
    graphs = Graphs()
    while (trial := search.next(total)) is not None:
        experiment = begin(console, search, trial, total)
        if experiment is not None:
            end(console, search, [trial], run_trial(console, experiment, trial.folder, graphs, device))


def run_at_once(console: Console, search: "Search", total: int, device: str, processes: int) -> None:
    """Several trials at once, the next one as soon as one has ended.

    A trial with the values of one that is under way waits for it and shares its score. Interrupted, the processes end
    at once: what they trained is in their checkpoints.
    """
    under_way: dict[Future[Outcome], list[Trial]] = {}
    with _workers(console, search.folder, processes) as pool:
        while True:
            while len(under_way) < processes:
                busy = {trial.number: future for future, trials in under_way.items() for trial in trials}
                trial = search.next(total, busy)
                if trial is None:
                    break
                experiment = begin(console, search, trial, total)
                if experiment is None:
                    continue
                same = next((trials for trials in under_way.values() if trials[0].folder == trial.folder), None)
                if same is None:
                    under_way[pool.submit(_work, experiment, trial.folder, device)] = [trial]
                else:
                    same.append(trial)
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                end(console, search, under_way.pop(future), future.result())


def begin(console: Console, search: "Search", trial: "Trial", total: int) -> "Experiment | None":
    """The experiment of a trial, announced; settings that do not fit together are left out."""
    told = ", ".join(f"{name} {value}" for name, value in trial.values.items())
    console.print(f"[bold]{trial.number + 1}/{total}[/bold] {escape(told)}", highlight=False, soft_wrap=True)
    try:
        return search.resolve(trial)
    except ValueError as problem:
        console.print(f"left out: {problem}", highlight=False, soft_wrap=True, markup=False)
        search.tell(trial, None)
        return None


def run_trial(console: Console, experiment: "Experiment", folder: Path, graphs: Graphs, device: str) -> Outcome:
    """The validation score of a trial; nothing where training failed."""
    from dgn.reports.scores import summarize, unit
    from dgn.training.errors import DivergedError, OutOfMemoryError

    seeds = experiment.training.seeds
    try:
        runs = run_seeds(console, experiment, lambda: graphs(experiment), seeds, folder, device)
    except (DivergedError, OutOfMemoryError) as problem:
        return None, str(problem)
    score = summarize(runs, "val")
    return score.mean / unit(score.metric), f"validation {score.metric} {score}"


def end(console: Console, search: "Search", trials: "list[Trial]", outcome: Outcome) -> None:
    """Remember and print the outcome of trials of equal values."""
    score, told = outcome
    for trial in trials:
        search.tell(trial, score)
        if score is None:
            say_error(f"trial {trial.number}: {told}")
        else:
            console.print(f"trial {trial.number}: {told}", highlight=False)


@contextmanager
def _workers(console: Console, folder: Path, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that share the threads of this one, and end with it, whatever ends it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with ProcessPoolExecutor(processes, context, _prepare, (ours, processes)) as pool:
        try:
            yield pool
        except BaseException as reason:
            theirs.close()  # before the pool waits for what is under way
            if isinstance(reason, KeyboardInterrupt):
                console.print(f"Stopped. The same command goes on in {folder}.", soft_wrap=True)
                raise typer.Exit(STOPPED) from None
            raise


def _prepare(life_line: Connection, processes: int) -> None:
    """Begin the life of a process: its share of the threads, and an end when the other side of the pipe is closed."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears it and lets go of the pipe
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))

    def live() -> None:
        try:
            life_line.recv()
        except EOFError:
            os._exit(0)

    Thread(target=live, daemon=True).start()


def _work(experiment: "Experiment", folder: Path, device: str) -> Outcome:
    """One trial in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / OUTPUT).open("a", encoding="utf-8") as output:
        return run_trial(Console(file=output), experiment, folder, _graphs(), device)


@cache
def _graphs() -> Graphs:  # one process works on one trial after the other
    return Graphs(progress=False)
