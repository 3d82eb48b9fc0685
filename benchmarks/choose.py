"""Choose among settings by validation, then train the choice with fresh seeds, with and without directions.

    python benchmarks/choose.py benchmarks/choices/pattern.yaml --out runs [--data FOLDER] [--parallel 2]

The file names an experiment, the number of parameters that layers are widened to, the seeds that candidates are
compared by, those of the choice, and the candidates: changes to the experiment, those that all share and their own.
Test scores of candidates are not shown. ``--out`` gets ``NAME-candidates/CANDIDATE`` for each, ``NAME.yaml`` with the
choice, and its runs ``NAME`` and ``NAME-ablation/no-directions``; what is there already is not trained again.
Then ``benchmarks/ablations.py`` makes an experiment of NAME.yaml, and ``dgn results --collect OUT/NAME --name NAME`` a
row of a table of its runs; a run of its own is named by its file alone.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dgn.reports.runs import write_text
from dgn.search.ablation import ablations, to_short_yaml
from dgn.search.width import fit_width, size
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.metrics import METRICS


def make_candidates(choices: dict[str, Any]) -> dict[str, Experiment]:
    """Every candidate, as wide as the parameters allow."""
    shared = choices.get("shared", [])
    made = {
        name: load_experiment(choices["experiment"], [*shared, *own]) for name, own in choices["candidates"].items()
    }
    return {
        name: replace(fit_width(each, choices["parameters"]), name=choices["experiment"], published=None)
        for name, each in made.items()
    }


def train(experiment: Experiment, note: str, seeds: list[int], folder: Path, data: Path | None) -> list[dict[str, Any]]:
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
    return [json.loads((folder / f"seed-{seed}" / "result.json").read_text()) for seed in seeds]


def tell(name: str, experiment: Experiment, results: list[dict[str, Any]], parts: tuple[str, ...]) -> float:
    """Print the scores of some parts; returns that of validation."""
    metric = next(iter(results[0]["metrics"]["val"]))
    found = {part: [result["metrics"][part][metric] for result in results] for part in parts}
    shown = [
        f"{part} {statistics.fmean(each):.4f}" + (f" ± {statistics.stdev(each):.4f}" if len(each) > 1 else "")
        for part, each in found.items()
    ]
    seconds = max(result["seconds"] for result in results)
    print(f"{name:<24} {size(experiment):9,d} {metric} {', '.join(shown)}, {seconds:.0f} s", flush=True)
    score = statistics.fmean(found["val"])
    return score if METRICS[metric][1] else -score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choices", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parallel", type=int, default=1)
    asked = parser.parse_args()
    choices = yaml.safe_load(asked.choices.read_text())
    name, candidates, scores = choices["experiment"], make_candidates(choices), dict[str, float]()

    def compare(candidate: str) -> None:
        folder = asked.out / f"{name}-candidates" / candidate
        if results := train(candidates[candidate], candidate, choices["seeds"], folder, asked.data):
            scores[candidate] = tell(candidate, candidates[candidate], results, ("train", "val"))

    with ThreadPoolExecutor(asked.parallel) as pool:
        list(pool.map(compare, candidates))
    if not scores:
        sys.exit("no candidate could be trained; see why above")
    best = max(scores, key=lambda each: scores[each])
    print(f"best by validation: {best}", flush=True)
    chosen = candidates[best]
    finals = {name: chosen, f"{name}-ablation/no-directions": ablations(chosen)["no-directions"]}

    def finish(final: str) -> None:
        if results := train(finals[final], best, choices["fresh_seeds"], asked.out / final, asked.data):
            tell(final, finals[final], results, ("train", "val", "test"))

    with ThreadPoolExecutor(asked.parallel) as pool:
        list(pool.map(finish, finals))


if __name__ == "__main__":
    main()
