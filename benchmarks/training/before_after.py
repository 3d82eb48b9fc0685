"""Training speed of two checkouts, measured in alternation.

    python -m benchmarks.training.before_after BEFORE AFTER --data FOLDER [--rounds 3] [--device cpu]

Both train the same experiments with ``dgn train``, in turns, since machines are shared. The fastest epoch counts. The
checkouts need the same environment, not the same modules.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

EPOCHS = 4
RUNS = {  # the experiment and its share of the training graphs
    "zinc/complex-e/mean-dx1": 1.0,
    "pattern/complex/mean-dx1-av1": 0.1,
    "cifar10/complex/mean-dx1-dx2": 0.1,
    "molhiv/simple/mean-dx1": 0.3,
}


def fastest_epoch(checkout: Path, experiment: str, share: float, options: argparse.Namespace) -> float:
    """Seconds of the fastest epoch after the first, validation included."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "dgn", "train", experiment, "--out", out, "--seeds", "41"]
        command += ["--device", options.device, "--data", str(options.data)]
        command += ["--set", f"training.epochs={EPOCHS}", "--set", f"data.train_fraction={share}"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout / "src"),
            "DGN_CACHE": str(options.cache / checkout.name),
        }
        done = subprocess.run(command, env=environment, cwd=out, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{checkout}: expected {experiment} to train, got\n{done.stdout}\n{done.stderr}")
        with next(Path(out).glob("seed-41/metrics.csv")).open() as file:
            seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    return min(later - earlier for earlier, later in pairwise(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "dgn-before-after")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=list(RUNS), nargs="*")
    options = parser.parse_args()
    options.data, checkouts = options.data.resolve(), [options.before.resolve(), options.after.resolve()]
    print("| experiment | before, s an epoch | after | after / before |\n|---|---|---|---|")
    for experiment in options.only or RUNS:
        best = [float("inf")] * 2
        for _ in range(options.rounds):
            for index, checkout in enumerate(checkouts):
                best[index] = min(best[index], fastest_epoch(checkout, experiment, RUNS[experiment], options))
        print(f"| {experiment} | {best[0]:.2f} | {best[1]:.2f} | {best[1] / best[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
