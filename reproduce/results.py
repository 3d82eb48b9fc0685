"""Committed results: one small file for each seed of each experiment, ``results/NAME/seed-N.json``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dgn.training.experiment import Experiment
from dgn.training.run_folder import RESULT, FinishedRun, read_run, to_json, write_text
from reproduce.cells import shipped

Results = Mapping[str, Sequence[FinishedRun]]


def read_results(folder: Path) -> dict[str, list[FinishedRun]]:
    """All results of a folder, by the name of their experiment, with seeds in order.

    A file that is not where its name and seed belong is refused, and so is one under the name of an experiment that
    comes with the package but trained with other settings. Seeds of one name have the same settings.
    """
    found: dict[str, list[FinishedRun]] = {}
    for path in sorted(folder.rglob("seed-*.json")):
        run = read_run(path)
        if path != result_path(folder, run):
            raise ValueError(f"{path}: expected {result_path(folder, run)} for what it holds; move it there")
        check_settings(run, str(path))
        found.setdefault(run.experiment.name, []).append(run)
    for name, runs in found.items():
        _check_alike(runs, name)
        runs.sort(key=lambda run: run.seed)
    return found


def collect_results(runs: Path, folder: Path, name: str | None = None, overwrite: bool = False) -> list[Path]:
    """Copy the results of all finished seeds below ``runs`` into ``folder``, and return what was written.

    ``name`` stores them under another name than that of their experiment, for settings of one's own; then all must be
    of one experiment. What is there already stays as it is: another result in its place is refused, unless
    ``overwrite``, and so are seeds beside those of other settings. Nothing is written when anything is refused.
    """
    found = [read_run(path) for path in sorted(runs.rglob(f"seed-*/{RESULT}"))]
    if not found:
        raise FileNotFoundError(f"{runs}: expected run folders with finished seeds, found none; check the path")
    if name is not None:
        _check_alike(found, str(runs))
        found = [replace(run, experiment=_named(run.experiment, name)) for run in found]
    texts: dict[Path, str] = {}
    for run in found:
        _check_name(run.experiment.name)
        check_settings(run, f"{runs}, seed {run.seed} of {run.experiment.name}")
        path, text = result_path(folder, run), to_json(run)
        there = texts.get(path) or (path.read_text(encoding="utf-8") if path.exists() else text)
        if there != text and not (overwrite and path not in texts):
            raise ValueError(
                f"{path}: expected no other result in this place, got one that differs; take it away first, pass "
                "--overwrite, or collect under another --name"
            )
        texts[path] = text
    for each in {run.experiment.name for run in found}:
        kept = [read_run(path) for path in sorted((folder / each).glob("seed-*.json")) if path not in texts]
        _check_alike([*kept, *(run for run in found if run.experiment.name == each)], each)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def result_path(folder: Path, run: FinishedRun) -> Path:
    return folder / run.experiment.name / f"seed-{run.seed}.json"


def check_settings(run: FinishedRun, subject: str) -> None:
    """Refuse a result under the name of an experiment that comes with the package, but with other settings."""
    name = run.experiment.name
    changed = run.experiment.differences(shipped()[name]) if name in shipped() else []
    if changed:
        raise ValueError(
            f"{subject}: expected the settings of {name}, got others in {', '.join(changed)}; store it under another "
            "name, with --name"
        )


def _check_name(name: str) -> None:
    """A name is a place inside the folder of results."""
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute():
        raise ValueError(
            f"name: expected a place in the folder of results, got {name!r}; give another with --name, such as "
            "mine/first"
        )


def _named(experiment: Experiment, name: str) -> Experiment:
    """An experiment under another name; that of one that comes with the package brings what was published of it."""
    published = shipped()[name].published if name in shipped() else experiment.published
    return replace(experiment, name=name, published=published)


def _check_alike(runs: Sequence[FinishedRun], subject: str) -> None:
    for run in runs:
        changed = run.experiment.differences(runs[0].experiment)
        if changed:
            raise ValueError(
                f"{subject}: expected seeds of one experiment, got seeds {runs[0].seed} and {run.seed} that differ in "
                f"{', '.join(changed)}; give each its own --name"
            )


def wall_seconds(runs: Sequence[FinishedRun]) -> float:
    """How long runs took one after the other, where seeds trained side by side count once, with the longest."""
    groups: dict[tuple[object, ...], float] = {}
    for run in runs:
        key = (run.experiment.name, run.date, *(run.beside or (run.seed,)))
        groups[key] = max(groups.get(key, 0.0), run.seconds)
    return sum(groups.values())
