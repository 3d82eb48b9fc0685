"""A study: the trials of a search in a folder, proposed and remembered by Optuna."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from dgn.graph.checks import check_option, check_package
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.metrics import METRICS
from dgn.training.run_folder import check_folder, write_text
from dgn.training.scores import main_metric
from dgn.tuning.space import Range, Space, Value
from dgn.tuning.width import fit_width

if TYPE_CHECKING:
    import optuna

DESCRIPTION, STORAGE = "search.yaml", "study.log"
GRACE = 10  # seconds after which a lock is taken for that of a process that was killed; it is held for milliseconds


@dataclass(frozen=True)
class Trial:
    """Values of a trial, its number, and its folder; equal values share the folder of the first that had them."""

    number: int
    values: dict[str, Value]
    folder: Path


class Search:
    """A search in a folder, new or begun before.

    Trial n depends on the values and scores of those before it and on ``seed + n`` alone, so that a search that was
    stopped goes on as if it had not been. A trial that was under way is the next one, with its values and its folder.
    With several under way at once, what is proposed also depends on which of them have ended, so that another search
    of the same seed may find others. One process at a time asks and tells.
    """

    def __init__(self, folder: Path, experiment: Experiment, space: Space, seeds: Sequence[int], seed: int = 0) -> None:
        self.folder, self.experiment, self.space, self.seed = folder, experiment, space, seed
        self.seeds = tuple(seeds)
        self.metric = main_metric(experiment)
        _check_names(experiment, space)
        check_package("search", "optuna")
        _describe(folder, experiment, {"space": _plain(space), "seeds": [*seeds], "seed": seed})
        self.study = _open(folder / STORAGE, METRICS[self.metric][1])

    def next(self, total: int, busy: Collection[int] = ()) -> Trial | None:
        """The trial that was under way, else a new one; nothing once ``total`` were begun or all combinations are.

        ``busy`` are the numbers of trials that are under way now: they are not given again.

        All combinations are tried one after the other where they fit into ``total``, otherwise Optuna's
        tree-structured Parzen estimator proposes.
        """
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        names, trials = set(self.space.domains), self.study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.number in busy:
                continue
            if trial.state == TrialState.RUNNING and set(trial.params) == names:
                return self._trial(trial.number, trial.params)
            if trial.state == TrialState.RUNNING:  # stopped while it was being proposed
                self.study.tell(trial.number, state=TrialState.FAIL)
        if sum(bool(trial.params) for trial in trials) >= total:
            return None
        if self.space.size is not None and self.space.size <= total and not self._queue(trials):
            return None
        self.study.sampler = TPESampler(seed=self.seed + len(trials))
        asked = self.study.ask({name: _distribution(domain) for name, domain in self.space.domains.items()})
        return self._trial(asked.number, asked.params)

    def resolve(self, trial: Trial) -> Experiment:
        """The experiment of a trial; impossible combinations of settings are refused as in an experiment file."""
        plain = self.experiment.to_dict() | {"name": f"{self.experiment.name}/trial-{trial.number}", "published": None}
        changed = read_experiment(plain, self.space.changes(trial.values))
        changed = replace(changed, training=replace(changed.training, seeds=self.seeds))
        return changed if self.space.parameters is None else fit_width(changed, self.space.parameters)

    def tell(self, trial: Trial, score: float | None, given_up: bool = False) -> None:
        """Note the validation score of a trial that ended, or that it has none: it failed, or was given up."""
        from optuna.trial import TrialState

        state = None if score is not None else TrialState.PRUNED if given_up else TrialState.FAIL
        self.study.tell(trial.number, score, state, skip_if_finished=True)  # as by a second search in the folder

    def ended(self) -> list[Trial]:
        """All trials with a score, the best first; of equal values, and of equal scores, the first."""
        found: dict[tuple[tuple[str, Value], ...], tuple[float, Trial]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            if trial.value is not None:
                found.setdefault(tuple(trial.params.items()), (trial.value, self._trial(trial.number, trial.params)))
        sign = -1 if METRICS[self.metric][1] else 1
        return [trial for _, trial in sorted(found.values(), key=lambda pair: (sign * pair[0], pair[1].number))]

    def write_best(self, trial: Trial) -> Path:
        """The experiment of a trial as a file, with the seeds of the experiment that was searched from."""
        found = self.resolve(trial)
        training = replace(found.training, seeds=self.experiment.training.seeds)
        path = self.folder / "best.yaml"
        write_text(path, replace(found, name=f"{self.experiment.name}-search", training=training).to_yaml())
        return path

    def _trial(self, number: int, values: dict[str, Any]) -> Trial:
        trials = self.study.get_trials(deepcopy=False)
        first = next(trial.number for trial in trials if trial.params == values)
        return Trial(number, values, self.folder / f"trial-{first}")

    def _queue(self, trials: Sequence["optuna.trial.FrozenTrial"]) -> bool:
        """Queue the first combination that was not tried; tell whether one is queued."""
        from optuna.trial import TrialState

        if any(trial.state == TrialState.WAITING for trial in trials):
            return True
        tried = [trial.params for trial in trials]
        left = next((values for values in self.space.combinations() if values not in tried), None)
        if left is not None:
            self.study.enqueue_trial(dict(left))
        return left is not None


def _open(path: Path, higher_is_better: bool) -> "optuna.Study":
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    direction: Literal["maximize", "minimize"] = "maximize" if higher_is_better else "minimize"
    # A file needs no database. Not Optuna's own choice of a lock, a link: one to a relative path leads nowhere, its age
    # is unknown, and after a kill it is waited for without end.
    lock = JournalFileOpenLock(str(path), GRACE)
    lock.acquire()  # a second search may be writing
    try:
        _cut_unfinished(path)
    finally:
        lock.release()
    storage = JournalStorage(JournalFileBackend(str(path), lock))
    return optuna.create_study(study_name="dgn", storage=storage, direction=direction, load_if_exists=True)


def _cut_unfinished(path: Path) -> None:
    """Cut off a last line that has no end, as where the disk was full: what is written behind it could not be read."""
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)


def _distribution(domain: tuple[str, ...] | Range) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(domain, Range):
        return CategoricalDistribution(domain)
    if domain.whole:
        return IntDistribution(int(domain.low), int(domain.high), domain.log, int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, domain.log, domain.step)


def _check_names(experiment: Experiment, space: Space) -> None:
    """Refuse names that are no setting before the first trial, not in the middle of the night."""
    sections = {section: keys for section, keys in experiment.to_dict().items() if isinstance(keys, dict)}
    known = tuple(f"{section}.{key}" for section, keys in sections.items() for key in keys)
    grouped = [
        change.partition("=")[0] for group in space.groups.values() for each in group.values() for change in each
    ]
    for name in [*(name.partition(":")[0] for name in space.domains if name not in space.groups), *grouped]:
        check_option("setting of the space", name, known)


def _plain(space: Space) -> dict[str, Any]:
    domains = {name: repr(domain) for name, domain in space.domains.items()}
    groups = {name: {key: list(each) for key, each in group.items()} for name, group in space.groups.items()}
    return {"parameters": space.parameters, "domains": domains, "groups": groups}


def _describe(folder: Path, experiment: Experiment, told: dict[str, Any]) -> None:
    """Write down what is searched, or hold it against what was searched here before.

    Settings that dgn did not have then are taken to be at their defaults.
    """
    check_folder(folder)
    path, text = folder / DESCRIPTION, yaml.safe_dump({"experiment": experiment.to_dict(), **told}, sort_keys=False)
    if path.exists():
        before = yaml.safe_load(path.read_text(encoding="utf-8"))
        settings = experiment.format_diff(read_experiment(before["experiment"]))
        changed = [settings] * bool(settings) + [key for key in told if before.get(key) != yaml.safe_load(text)[key]]
        if changed:
            raise ValueError(
                f"{folder}: expected a new folder or one of the same search, got one that differs in "
                f"{', '.join(changed)}; choose another with --out, or remove it"
            )
    write_text(path, text)
