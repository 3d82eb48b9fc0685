"""A hyperparameter search in a folder, with trials proposed and stored by Optuna."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from dgn.graph.checks import check_option, check_package
from dgn.training.experiment import Experiment, load_yaml, read_experiment
from dgn.training.metrics import METRICS
from dgn.training.run_folder import check_folder, write_text
from dgn.training.scores import main_metric
from dgn.tuning.space import Range, Space, Value
from dgn.tuning.width import fit_width

if TYPE_CHECKING:
    import optuna

DESCRIPTION, STORAGE = "search.yaml", "study.log"
GRACE = 10  # seconds after which a lock counts as stale; processes hold it for milliseconds


@dataclass(frozen=True)
class Trial:
    """The number, values and folder of a trial; trials with equal values share the folder of the first."""

    number: int
    values: dict[str, Value]
    folder: Path


class Search:
    """A search in a folder, new or resumed.

    Trial n depends only on the values and scores of the trials before it and on ``seed + n``, so that a resumed search
    equals an uninterrupted one. An interrupted trial is the next one, with its values and its folder. With several
    running trials, proposals also depend on which of them have finished, so that a search with the same seed may
    differ. One process at a time calls :meth:`next` and :meth:`tell`.
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
        """An interrupted trial, else a new one; ``None`` once ``total`` trials or all combinations were started.

        ``busy`` are the numbers of running trials, which are not returned again. If all combinations fit into
        ``total``, it is a grid search; otherwise Optuna's tree-structured Parzen estimator proposes.
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
        proposal = self.study.ask({name: _distribution(domain) for name, domain in self.space.domains.items()})
        return self._trial(proposal.number, proposal.params)

    def resolve(self, trial: Trial) -> Experiment:
        """The experiment of a trial; invalid combinations of settings are refused as in an experiment file."""
        plain = self.experiment.to_dict() | {"name": f"{self.experiment.name}/trial-{trial.number}", "published": None}
        changed = read_experiment(plain, self.space.changes(trial.values))
        changed = replace(changed, training=replace(changed.training, seeds=self.seeds))
        return changed if self.space.parameters is None else fit_width(changed, self.space.parameters)

    def tell(self, trial: Trial, score: float | None, pruned: bool = False) -> None:
        """Record the validation score of a finished trial; without one, it failed or was pruned."""
        from optuna.trial import TrialState

        state = None if score is not None else TrialState.PRUNED if pruned else TrialState.FAIL
        self.study.tell(trial.number, score, state, skip_if_finished=True)  # as by a second search in the folder

    def ended(self) -> list[Trial]:
        """All trials with a score, the best first; of equal values, and of equal scores, the earliest."""
        scored: dict[tuple[tuple[str, Value], ...], tuple[float, Trial]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            if trial.value is not None:
                scored.setdefault(tuple(trial.params.items()), (trial.value, self._trial(trial.number, trial.params)))
        sign = -1 if METRICS[self.metric][1] else 1
        return [trial for _, trial in sorted(scored.values(), key=lambda pair: (sign * pair[0], pair[1].number))]

    def write_best(self, trial: Trial) -> Path:
        """Write the experiment of a trial, with the seeds of the initial experiment, and return its path."""
        best = self.resolve(trial)
        training = replace(best.training, seeds=self.experiment.training.seeds)
        path = self.folder / "best.yaml"
        write_text(path, replace(best, name=f"{self.experiment.name}-search", training=training).to_yaml())
        return path

    def _trial(self, number: int, values: dict[str, Any]) -> Trial:
        trials = self.study.get_trials(deepcopy=False)
        first = next(trial.number for trial in trials if trial.params == values)
        return Trial(number, values, self.folder / f"trial-{first}")

    def _queue(self, trials: Sequence["optuna.trial.FrozenTrial"]) -> bool:
        """Queue the first untried combination; whether one is queued."""
        from optuna.trial import TrialState

        if any(trial.state == TrialState.WAITING for trial in trials):
            return True
        tried = [trial.params for trial in trials]
        untried = next((values for values in self.space.combinations() if values not in tried), None)
        if untried is not None:
            self.study.enqueue_trial(dict(untried))
        return untried is not None


def _open(path: Path, higher_is_better: bool) -> "optuna.Study":
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    direction: Literal["maximize", "minimize"] = "maximize" if higher_is_better else "minimize"
    # A file needs no database. Optuna's default lock is a symbolic link: a relative one dangles, its age is
    # unknown, and after a kill it is waited for forever.
    lock = JournalFileOpenLock(str(path), GRACE)
    lock.acquire()  # a second search may be writing
    try:
        _cut_unfinished(path)
    finally:
        lock.release()
    storage = JournalStorage(JournalFileBackend(str(path), lock))
    return optuna.create_study(study_name="dgn", storage=storage, direction=direction, load_if_exists=True)


def _cut_unfinished(path: Path) -> None:
    """Truncate an incomplete last line, as after a full disk, which would make later lines unreadable."""
    if path.exists():
        content = path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            with path.open("r+b") as file:
                file.truncate(complete)


def _distribution(domain: tuple[str, ...] | Range) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(domain, Range):
        return CategoricalDistribution(domain)
    if domain.integer:
        return IntDistribution(int(domain.low), int(domain.high), domain.log, int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, domain.log, domain.step)


def _check_names(experiment: Experiment, space: Space) -> None:
    """Refuse names that are not settings before the first trial."""
    sections = {section: keys for section, keys in experiment.to_dict().items() if isinstance(keys, dict)}
    settings = tuple(f"{section}.{key}" for section, keys in sections.items() for key in keys)
    grouped = [
        change.partition("=")[0] for group in space.groups.values() for changes in group.values() for change in changes
    ]
    for name in [*(name.partition(":")[0] for name in space.domains if name not in space.groups), *grouped]:
        check_option("setting of the space", name, settings)


def _plain(space: Space) -> dict[str, Any]:
    domains = {name: repr(domain) for name, domain in space.domains.items()}
    groups = {name: {key: list(changes) for key, changes in group.items()} for name, group in space.groups.items()}
    return {"parameters": space.parameters, "domains": domains, "groups": groups}


def _describe(folder: Path, experiment: Experiment, description: dict[str, Any]) -> None:
    """Write the description of a search, or compare it with that of an earlier search in the folder.

    Settings that are missing in an older description have their defaults.
    """
    check_folder(folder)
    path, text = (
        folder / DESCRIPTION,
        yaml.safe_dump({"experiment": experiment.to_dict(), **description}, sort_keys=False),
    )
    if path.exists():
        try:
            before = load_yaml(path.read_text(encoding="utf-8"))
            settings = experiment.format_diff(read_experiment(before["experiment"]))
        except (ValueError, TypeError, KeyError) as problem:
            raise ValueError(
                f"{path}: expected the description of a search, got {problem}; restore it, or choose another --out"
            ) from problem
        changed = [settings] * bool(settings) + [
            key for key in description if before.get(key) != yaml.safe_load(text)[key]
        ]
        if changed:
            raise ValueError(
                f"{folder}: expected a new folder or one of the same search, got one that differs in "
                f"{', '.join(changed)}; choose another with --out, or remove it"
            )
    write_text(path, text)
