"""Committed results: one small file per seed of an experiment, ``results/NAME/seed-N.json``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dgn.training.experiment import Experiment
from dgn.training.run_folder import RESULT, FinishedRun, read_run, to_json, write_text
from reproduce.cells import shipped

Results = Mapping[str, Sequence[FinishedRun]]


def read_results(folder: Path) -> dict[str, list[FinishedRun]]:
    """All results of a folder by experiment name, sorted by seed.

    A file is refused if its path does not match its name and seed, or if it has the name of a shipped experiment but
    other settings. All seeds of a name have the same settings.
    """
    by_name: dict[str, list[FinishedRun]] = {}
    for path in sorted(folder.rglob("seed-*.json")):
        run = read_run(path)
        if path != result_path(folder, run):
            raise ValueError(f"{path}: expected {result_path(folder, run)} for its name and seed; move it there")
        check_settings(run, str(path))
        by_name.setdefault(run.experiment.name, []).append(run)
    for name, runs in by_name.items():
        _check_same_settings(runs, name)
        runs.sort(key=lambda run: run.seed)
    return by_name


def collect_results(runs: Path, folder: Path, name: str | None = None, overwrite: bool = False) -> list[Path]:
    """The result files written to ``folder``, one for each finished seed below ``runs``.

    ``name`` replaces the experiment name, for changed settings; all runs must then have the same settings. A different
    result at the same path is refused unless ``overwrite``, and so are seeds whose settings differ from those already
    stored. If anything is refused, nothing is written.
    """
    collected = [read_run(path) for path in sorted(runs.rglob(f"seed-*/{RESULT}"))]
    if not collected:
        raise FileNotFoundError(f"{runs}: expected run folders with finished seeds, found none; check the path")
    if name is not None:
        _check_same_settings(collected, str(runs))
        collected = [replace(run, experiment=_renamed(run.experiment, name)) for run in collected]
    texts: dict[Path, str] = {}
    for run in collected:
        _check_name(run.experiment.name)
        check_settings(run, f"{runs}, seed {run.seed} of {run.experiment.name}")
        path, text = result_path(folder, run), to_json(run)
        is_other = path.exists() and not overwrite and read_run(path) != run
        if texts.get(path, text) != text or is_other:
            raise ValueError(
                f"{path}: expected no other result for this seed, got one that differs; remove it, pass --overwrite, "
                "or collect under another --name"
            )
        texts[path] = text
    for name in {run.experiment.name for run in collected}:
        stored = [read_run(path) for path in sorted((folder / name).glob("seed-*.json")) if path not in texts]
        _check_same_settings([*stored, *(run for run in collected if run.experiment.name == name)], name)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def result_path(folder: Path, run: FinishedRun) -> Path:
    return folder / run.experiment.name / f"seed-{run.seed}.json"


def check_settings(run: FinishedRun, subject: str) -> None:
    """Refuse a result with the name of a shipped experiment but other settings."""
    name = run.experiment.name
    changed = run.experiment.differences(shipped()[name]) if name in shipped() else []
    if changed:
        raise ValueError(
            f"{subject}: expected the settings of {name}, got others in {', '.join(changed)}; choose another "
            "name with --name"
        )


def _check_name(name: str) -> None:
    """Refuse a name that is not a relative path inside the results folder."""
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute():
        raise ValueError(
            f"name: expected a path inside the results folder, got {name!r}; choose another with --name, such as "
            "mine/first"
        )


def _renamed(experiment: Experiment, name: str) -> Experiment:
    """An experiment under another name; the name of a shipped experiment brings its published score."""
    published = shipped()[name].published if name in shipped() else experiment.published
    return replace(experiment, name=name, published=published)


def _check_same_settings(runs: Sequence[FinishedRun], subject: str) -> None:
    for run in runs:
        changed = run.experiment.differences(runs[0].experiment)
        if changed:
            raise ValueError(
                f"{subject}: expected seeds of one experiment, got seeds {runs[0].seed} and {run.seed} that differ in "
                f"{', '.join(changed)}; collect them under different names with --name"
            )


def wall_seconds(runs: Sequence[FinishedRun]) -> float:
    """The total wall time of runs; seeds trained in parallel count once, with the longest."""
    groups: dict[tuple[object, ...], float] = {}
    for run in runs:
        key = (run.experiment.name, run.date, *(run.beside or (run.seed,)))
        groups[key] = max(groups.get(key, 0.0), run.seconds)
    return sum(groups.values())
