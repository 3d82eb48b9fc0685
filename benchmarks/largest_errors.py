"""The graphs of a part that a trained network is most wrong about, and how much of the mean error is theirs.

    python benchmarks/largest_errors.py runs/zinc/plus/seed-1 [--part val] [--count 5] [--data FOLDER]

Targets of ZINC hold the size of the largest cycle of a basis, which depends on the order of the atoms where rings are
bridged: such molecules are few, and far off.
"""

import argparse
from pathlib import Path

from dgn.encodings import ring_counts
from dgn.training.inference import load_trained, predict_split
from dgn.training.shared_data import SPLITS

SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="val", choices=SPLITS)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--data")
    asked = parser.parse_args()
    trained = load_trained(asked.folder, asked.data)
    if trained.benchmark.objective != "regression" or trained.benchmark.num_targets != 1:
        parser.error(f"expected a network for one number of each graph, got {trained.benchmark.objective}")
    said, truth = (values.flatten() for values in predict_split(trained, asked.part))
    errors, graphs = (said - truth).abs(), trained.benchmark.graphs
    numbers = (graphs.graphs["split"] == SPLITS.index(asked.part)).nonzero()[:, 0]
    print(f"{asked.part}: mean absolute error {errors.mean():.4f} over {len(errors)} graphs")
    print(f"{'without':<8} {'error of all others':<20} graph   truth    said  rings of size")
    largest = errors.sort(descending=True)
    for place, row in enumerate(largest.indices[: asked.count].tolist(), start=1):
        number = int(numbers[row])
        found = ring_counts(graphs[number].edge_index, SIZES, graphs[number].num_nodes).nodes.sum(dim=0).tolist()
        rings = {size: int(count) // size for size, count in zip(SIZES, found, strict=True) if count}
        print(
            f"{place:<8} {largest.values[place:].mean():<20.4f} {number:<6} {truth[row]:7.2f} {said[row]:7.2f}  "
            + ", ".join(f"{size}: {count}" for size, count in rings.items())
        )


if __name__ == "__main__":
    main()
