"""Coverage of conformal intervals, pooled over random splits of tables of MoleculeNet.

``python -m benchmarks.molecules.interval_coverage [--splits 10] [--tables delaney lipo] [--rows 600]`` fits small
ensembles as ``dgn fit --split random`` does. It prints, for each table and for all of them, the fraction of test values
within the intervals of each level, the median width of the 90 % intervals in standard deviations of the target, and the
90 % coverage of the halves of the test molecules that are nearest to and farthest from training. Ten splits of three
tables take about ten minutes on one core. It ends with 1 if the pooled coverage is more than three points off.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from dgn.molecules.columns import Target
from dgn.molecules.conformal import half_width
from dgn.molecules.fit import FitOptions, fit_molecules
from dgn.molecules.rows import Molecules, read_table, take
from dgn.molecules.split import random_split
from dgn.molecules.table import open_table

LEVELS = (0.5, 0.8, 0.9, 0.95)
TOLERANCE = 0.03


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("../shared/data/moleculenet"))
    parser.add_argument("--tables", nargs="+", default=["delaney", "freesolv", "lipo"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rows", type=int, default=600, help="molecules of a table: a random sample of larger ones")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--members", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| table | molecules | " + " | ".join(f"{100 * level:g} %" for level in LEVELS) + " | width | near | far |")
    print("|---" * (5 + len(LEVELS)) + "|")
    pooled = []
    for table in arguments.tables:
        data = read_table(open_table(arguments.folder / f"{table}.csv.gz"))
        order = torch.randperm(len(data.molecules.keys), generator=torch.Generator().manual_seed(0))
        molecules = take(data.molecules, order[: arguments.rows])
        options = [
            FitOptions(arguments.members, arguments.epochs, 100 * split, "cpu") for split in range(arguments.splits)
        ]
        results = torch.cat([measure(molecules, data.targets, each) for each in options])
        pooled.append(results)
        report(table, results)
    report("all", torch.cat(pooled))
    coverage = torch.cat(pooled)[:, : len(LEVELS)].mean(dim=0)
    return int(bool(((coverage - torch.tensor(LEVELS, dtype=torch.float64)).abs() > TOLERANCE).any()))


def measure(molecules: Molecules, targets: tuple[Target, ...], options: FitOptions) -> torch.Tensor:
    """For each test value: whether the interval of each level covers it, the width at 90 %, and the similarity."""
    split = random_split(molecules, "regression", options.seed)
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit_molecules(molecules, split, "regression", targets, "smiles", options, Path(folder))
    model, held_out, prediction = fitted[:3]
    assert held_out is not None
    assert prediction is not None
    assert model.domain is not None
    error = (held_out.values - prediction.mean).abs()
    halves = [half_width(model.scores, level, prediction.difficulty) for level in LEVELS]
    similarity = torch.from_numpy(model.domain.compare(held_out.graphs).similarity)[:, None].expand_as(error)
    columns = [*(error <= half for half in halves), 2 * halves[2] / model.scale, similarity]
    table = torch.stack([column.double().flatten() for column in columns], dim=1)
    return table[~error.isnan().flatten()]


def report(name: str, results: torch.Tensor) -> None:
    """Print one row; ``near`` and ``far`` are the 90 % coverage of the upper and the lower half by similarity."""
    near = results[:, -1] > results[:, -1].median()
    cells = [f"{100 * value:.1f}" for value in results[:, : len(LEVELS)].mean(dim=0).tolist()]
    sides = [f"{100 * float(results[side, 2].mean()):.1f}" for side in (near, ~near)]
    width = f"{float(results[:, -2].median()):.2f}"
    print(f"| {name} | {len(results)} | {' | '.join(cells)} | {width} | {' | '.join(sides)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
