"""Choose among settings by validation, then train the choice with fresh seeds, with and without directions.

    python benchmarks/choose.py benchmarks/choices/pattern.yaml --out runs [--data FOLDER] [--folds FOLDER ...]
        [--parallel 1] [--only CANDIDATE ...]

The file names what comes out, the experiment that it begins with, the number of parameters that layers are widened to,
the seeds that candidates are compared by, those of the choice, and the candidates: changes to the experiment, those
that all share and their own; a word without "=" is another candidate, whose changes come first. ``leave_out: 5``
compares mean absolute errors without the five largest of each seed, where a few graphs would decide
(``benchmarks/largest_errors.py``). ``--folds`` names folders of the same graphs with other parts
(``benchmarks/molhiv_folds.py``): candidates are compared by their mean over these, and the choice is trained on
``--data``. ``--parallel 1``, one at a time, is fastest where a network fills the GPU. ``--only`` compares some
candidates and trains no choice.
Test scores of candidates are not shown. ``--out`` gets ``NAME-candidates/CANDIDATE`` for each (with folds, in a folder
for each), ``NAME.yaml`` with the choice, and its runs ``NAME`` and ``NAME-ablation/no-directions`` (``with-directions``
if it has none); what is there already is not trained again.
Then ``benchmarks/ablations.py`` makes an experiment of NAME.yaml, and ``python -m reproduce results --collect OUT/NAME
--name NAME`` a row of a table of its runs; a run of its own is named by its file alone.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from dgn.training.experiment import Experiment, load_experiment
from dgn.training.inference import load_trained, predict_split
from dgn.training.metrics import METRICS
from dgn.training.run_folder import FinishedRun, finished_runs, write_text
from dgn.training.scores import summarize
from dgn.tuning.ablation import ablations, to_short_yaml
from dgn.tuning.width import fit_width


def make_candidates(choices: dict[str, Any], only: list[str] | None) -> dict[str, Experiment]:
    """Every candidate, or those named, as wide as the parameters allow."""
    shared, own = choices.get("shared", []), choices["candidates"]
    made = {name: load_experiment(choices["begin"], [*shared, *changes(own, name)]) for name in only or own}
    wide = {name: fit_width(each, choices["parameters"]) for name, each in made.items()}
    seeds = tuple(choices["fresh_seeds"])
    return {
        name: replace(each, name=choices["name"], published=None, training=replace(each.training, seeds=seeds))
        for name, each in wide.items()
    }


def changes(candidates: dict[str, list[str]], name: str) -> list[str]:
    """What a candidate changes, beginning with what the candidates change that it names.

    >>> changes({"small": ["network.hidden=8"], "deep": ["small", "network.num_layers=8"]}, "deep")
    ['network.hidden=8', 'network.num_layers=8']
    """
    if name not in candidates:
        known = ", ".join(candidates)
        sys.exit(f"candidates: expected changes such as network.num_layers=6, or one of {known}, got {name}")
    return [part for word in candidates[name] for part in ([word] if "=" in word else changes(candidates, word))]


def train(experiment: Experiment, note: str, seeds: list[int], folder: Path, data: Path | None) -> list[FinishedRun]:
    """The results of all seeds, trained side by side by ``dgn train``; none if it failed, which it then says."""
    file = folder.with_name(folder.name + ".yaml")
    write_text(file, to_short_yaml(experiment, note))
    words: list[Any] = [file, "--seeds", ",".join(map(str, seeds)), "--out", folder]
    words += [] if data is None else ["--data", data]
    line = [sys.executable, "-m", "dgn", "train", *map(str, words)]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{folder}: {done.stdout[-500:]}{done.stderr[-1000:]}", flush=True)
        return []
    found = finished_runs(folder)
    return [found[seed] for seed in seeds]


def most_errors(folder: Path, seeds: list[int], leave_out: int) -> float:
    """The mean absolute error of the validation graphs without the largest of each seed."""
    found, graphs = [], None
    for seed in seeds:
        trained = load_trained(folder / f"seed-{seed}", graphs)
        graphs = trained.benchmark  # the same for all seeds
        said, truth = predict_split(trained, "val")
        errors = (said - truth).abs().flatten()
        found.append(float(errors[~errors.isnan()].sort().values[:-leave_out].mean()))
    return fmean(found)


def train_all(
    experiments: dict[Path, Experiment],
    note: str,
    seeds: list[int],
    asked: argparse.Namespace,
    data: Path | None,
    parts: Sequence[str],
    leave_out: int = 0,
) -> dict[Path, float]:
    """Train into folders, some at a time, and print scores of ``parts``; returns validation scores, more is better."""
    scores = {}

    def train_one(folder: Path) -> None:
        runs = train(experiments[folder], note or folder.name, seeds, folder, data)
        if not runs:
            return
        told = ", ".join(f"{part} {summarize(runs, part)}" for part in parts)
        name, seconds = folder.relative_to(asked.out), max(run.seconds for run in runs)
        score = summarize(runs, "val")
        scores[folder] = score.mean if METRICS[score.metric][1] else -score.mean
        if leave_out:
            if score.metric != "mae":
                sys.exit(f"leave_out: expected an experiment that is scored by mae, got {score.metric}; leave it out")
            scores[folder] = -most_errors(folder, seeds, leave_out)
            told += f", val without {leave_out} {-scores[folder]:.4f}"
        print(f"{name!s:<40} {runs[0].parameters:9,d} {score.metric} {told}, {seconds:.0f} s", flush=True)

    with ThreadPoolExecutor(asked.parallel) as pool:
        list(pool.map(train_one, experiments))
    return scores


def compare(candidates: dict[str, Experiment], choices: dict[str, Any], asked: argparse.Namespace) -> dict[str, float]:
    """Validation scores of the candidates that could be trained, more is better: means over the folds."""
    found: dict[str, list[float]] = {name: [] for name in candidates}
    folds = asked.folds or [asked.data]
    for fold in folds:
        place = asked.out / f"{choices['name']}-candidates" / (fold.name if asked.folds else "")
        experiments = {place / name: each for name, each in candidates.items()}
        told = ("train", "val")
        scores = train_all(experiments, "", choices["seeds"], asked, fold, told, choices.get("leave_out", 0))
        for folder, score in scores.items():
            found[folder.name].append(score)
    means = {name: fmean(scores) for name, scores in found.items() if len(scores) == len(folds)}
    if asked.folds:
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
    asked = parser.parse_args()
    if len({fold.name for fold in asked.folds or ()}) < len(asked.folds or ()):
        parser.error("--folds: expected folders of different names, got one twice; rename it")
    choices = yaml.safe_load(asked.choices.read_text())
    name = choices["name"]
    candidates = make_candidates(choices, asked.only)
    scores = compare(candidates, choices, asked)
    if not scores:
        sys.exit("no candidate could be trained; see why above")
    best = max(scores, key=lambda each: scores[each])
    print(f"best by validation: {best}", flush=True)
    if asked.only:
        return
    chosen = candidates[best]
    other = {each.name: each for missing, each in ablations(chosen).items() if missing.endswith("-directions")}
    finals = {asked.out / final: each for final, each in {name: chosen, **other}.items()}
    train_all(finals, best, choices["fresh_seeds"], asked, asked.data, ("train", "val", "test"))


if __name__ == "__main__":
    main()
