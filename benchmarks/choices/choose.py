"""Select settings by validation, then train the selection with fresh seeds, with and without directions.

    python -m benchmarks.choices.choose benchmarks/choices/pattern.yaml --out runs [--data FOLDER] [--folds FOLDER ...]
        [--parallel 1] [--only CANDIDATE ...] [--set KEY=VALUE ...]

The file has the name of the result, the initial experiment, the parameter budget that decides the width, the seeds of
the comparison, those of the selection, and the candidates: overrides of the experiment, shared ones and those of each
candidate; a word without "=" is another candidate, whose overrides come first. ``selection`` are overrides of the
selection, such as more epochs. ``leave_out: 5`` compares mean absolute errors without the five largest of each seed,
where a few outliers would decide (``benchmarks/paper/largest_errors.py``).
``--folds`` are folders of the same graphs with other splits (``molhiv_folds.py``): candidates are compared
by their mean over the folds, and the selection is trained on ``--data``. Every seed is a process, and ``--parallel`` of
them run at a time; 1 is fastest if a network fills the GPU. ``--only`` compares some candidates and trains no
selection. ``--set`` overrides settings of all, for a quick trial.
Scores are printed as they come; test scores of candidates are not shown. ``--out`` gets ``NAME-candidates/CANDIDATE``
for each (with folds, in a folder for each), ``NAME.yaml`` with the selection, and its runs ``NAME`` and
``NAME-ablation/no-directions`` (``with-directions`` if it has none); finished runs are not trained again.
Then ``ablations.py`` makes an experiment of NAME.yaml, and ``python -m reproduce results --collect OUT/NAME
--name NAME`` a row of a table of its runs.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from dgn.training.experiment import Experiment, load_experiment, read_experiment
from dgn.training.load import load_graphs
from dgn.training.metrics import METRICS
from dgn.training.model import load_trained, predict_split
from dgn.training.run_folder import EXPERIMENT, FinishedRun, finished_runs, write_text
from dgn.training.scores import summarize
from dgn.tuning.ablation import ablations, to_short_yaml
from dgn.tuning.width import fit_width


def make_candidates(choices: dict[str, Any], only: list[str] | None, more: Sequence[str] = ()) -> dict[str, Experiment]:
    """All candidates, or those of ``only``, as wide as the budget allows, with ``more`` overrides of each."""
    shared, overrides = choices.get("shared", []), choices["candidates"]
    narrow = {
        name: load_experiment(choices["begin"], [*shared, *changes(overrides, name), *more])
        for name in only or overrides
    }
    wide = {name: fit_width(experiment, choices["parameters"]) for name, experiment in narrow.items()}
    seeds = tuple(choices["fresh_seeds"])
    return {
        name: replace(
            candidate, name=choices["name"], published=None, training=replace(candidate.training, seeds=seeds)
        )
        for name, candidate in wide.items()
    }


def changes(candidates: dict[str, list[str]], name: str) -> list[str]:
    """The overrides of a candidate, those of the candidates that it names first.

    >>> changes({"small": ["network.hidden=8"], "deep": ["small", "network.num_layers=8"]}, "deep")
    ['network.hidden=8', 'network.num_layers=8']
    """
    if name not in candidates:
        names = ", ".join(candidates)
        sys.exit(f"candidates: expected overrides such as network.num_layers=6, or one of {names}, got {name}")
    return [
        override for word in candidates[name] for override in ([word] if "=" in word else changes(candidates, word))
    ]


def train(folder: Path, seed: int, data: Path | None, parallel: int) -> FinishedRun | None:
    """The result of ``dgn train`` for one seed of the experiment beside ``folder``; None if it failed, with its output
    printed. ``parallel`` of these share the cores.
    """
    options: list[Any] = [folder.with_name(folder.name + ".yaml"), "--seeds", seed, "--out", folder]
    options += [] if data is None else ["--data", data]
    line = [sys.executable, "-m", "dgn", "train", *map(str, options)]
    threads = str(max(1, len(os.sched_getaffinity(0)) // parallel))
    environment = os.environ | {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    process = subprocess.run(line, check=False, capture_output=True, text=True, env=environment)
    if process.returncode:
        print(f"{folder}, seed {seed}: {process.stdout[-500:]}{process.stderr[-1000:]}", flush=True)
        return None
    return finished_runs(folder)[seed]


def trimmed_error(folder: Path, seeds: list[int], leave_out: int) -> float:
    """The mean absolute error of the validation split without the largest errors of each seed."""
    means, graphs = [], load_graphs(load_experiment(folder / EXPERIMENT))
    for seed in seeds:
        prediction, target = predict_split(load_trained(folder / f"seed-{seed}"), graphs, "val")
        errors = (prediction - target).abs().flatten()
        means.append(float(errors[~errors.isnan()].sort().values[:-leave_out].mean()))
    return fmean(means)


def train_all(
    experiments: dict[Path, Experiment],
    note: str,
    seeds: list[int],
    arguments: argparse.Namespace,
    data: Path | None,
    splits: Sequence[str],
    leave_out: int = 0,
) -> dict[Path, float]:
    """Validation scores, higher is better, of experiments trained into folders; prints scores of ``splits``."""
    for folder, experiment in experiments.items():
        write_text(folder.with_name(folder.name + ".yaml"), to_short_yaml(experiment, note or folder.name))
    finished: dict[Path, list[FinishedRun]] = {folder: [] for folder in experiments}

    def train_one(job: tuple[int, Path]) -> None:
        seed, folder = job
        run = train(folder, seed, data, arguments.parallel)
        if run is not None:
            finished[folder].append(run)
            print_scores(f"{folder.relative_to(arguments.out)} {seed}", [run], splits)

    with ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(train_one, product(seeds, experiments)))
    scores = {}
    for folder, runs in finished.items():
        if len(runs) < len(seeds):
            continue
        score = summarize(runs, "val")
        scores[folder] = score.mean if METRICS[score.metric][1] else -score.mean
        if len(seeds) > 1:
            print_scores(str(folder.relative_to(arguments.out)), runs, splits)
        if leave_out:
            if score.metric != "mae":
                sys.exit(f"leave_out: expected an experiment that is scored by mae, got {score.metric}; leave it out")
            scores[folder] = -trimmed_error(folder, seeds, leave_out)
            print(f"{folder.name}: val without {leave_out} {-scores[folder]:.4f}", flush=True)
    return scores


def print_scores(name: str, runs: Sequence[FinishedRun], splits: Sequence[str]) -> None:
    scores = ", ".join(f"{split} {summarize(runs, split)}" for split in splits)
    seconds = max(run.seconds for run in runs)
    print(f"{name:<44} {runs[0].parameters:9,d} {summarize(runs, 'val').metric} {scores}, {seconds:.0f} s", flush=True)


def prepare_graphs(experiments: Iterable[Experiment], data: Path | None) -> None:
    """Compute the directions and encodings once that all processes then find in the cache."""
    for experiment in {(each.data, each.num_directions): each for each in experiments}.values():
        path = experiment.data.path if data is None else str(data)
        load_graphs(replace(experiment, data=replace(experiment.data, path=path)))


def compare(
    candidates: dict[str, Experiment], choices: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, float]:
    """Validation scores of the candidates that were trained, higher is better: means over the folds."""
    fold_scores: dict[str, list[float]] = {name: [] for name in candidates}
    folds = arguments.folds or [arguments.data]
    for fold in folds:
        root = arguments.out / f"{choices['name']}-candidates" / (fold.name if arguments.folds else "")
        experiments = {root / name: candidate for name, candidate in candidates.items()}
        prepare_graphs(candidates.values(), fold)
        splits = ("train", "val")
        scores = train_all(experiments, "", choices["seeds"], arguments, fold, splits, choices.get("leave_out", 0))
        for folder, score in scores.items():
            fold_scores[folder.name].append(score)
    means = {name: fmean(scores) for name, scores in fold_scores.items() if len(scores) == len(folds)}
    if arguments.folds:
        print("\n".join(f"{name:<40} {abs(mean):.4g}, mean over the folds" for name, mean in means.items()), flush=True)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choices", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--folds", type=Path, nargs="*")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--set", nargs="+", default=[])
    arguments = parser.parse_args()
    if len({fold.name for fold in arguments.folds or ()}) < len(arguments.folds or ()):
        parser.error("--folds: expected folders of different names, got one twice; rename it")
    choices = yaml.safe_load(arguments.choices.read_text())
    name = choices["name"]
    candidates = make_candidates(choices, arguments.only, arguments.set)
    scores = compare(candidates, choices, arguments)
    if not scores:
        sys.exit("no candidate could be trained; see why above")
    best = max(scores, key=lambda candidate: scores[candidate])
    print(f"best by validation: {best}", flush=True)
    if arguments.only:
        return
    chosen = read_experiment(candidates[best].to_dict(), [*choices.get("selection", []), *arguments.set])
    other = {variant.name: variant for missing, variant in ablations(chosen).items() if missing.endswith("-directions")}
    finals = {arguments.out / final: experiment for final, experiment in {name: chosen, **other}.items()}
    train_all(finals, best, choices["fresh_seeds"], arguments, arguments.data, ("train", "val", "test"))


if __name__ == "__main__":
    main()
