"""The graphs of a split with the largest errors of a trained network, and their contribution to the mean error.

    python -m benchmarks.paper.largest_errors runs/zinc/plus/seed-1 [--split val] [--count 5] [--data FOLDER]

Targets of ZINC depend on the largest cycle of a cycle basis, which in bridged rings depends on the order of the atoms:
such molecules are few outliers.
"""

import argparse
from pathlib import Path

from dgn.encodings import ring_counts
from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.model import load_trained, predict_split
from dgn.training.run_folder import EXPERIMENT
from dgn.training.shared_data import SPLITS

SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="val", choices=SPLITS)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--data")
    arguments = parser.parse_args()
    trained, changes = load_trained(arguments.folder), [f"data.path={arguments.data}"] if arguments.data else []
    if trained.signature.objective != "regression" or trained.signature.inputs.targets != 1:
        parser.error(f"expected a network for regression of one target, got {trained.signature.objective}")
    benchmark = load_graphs(load_experiment(arguments.folder.parent / EXPERIMENT, changes))
    prediction, target = (values.flatten() for values in predict_split(trained, benchmark, arguments.split))
    errors, graphs = (prediction - target).abs(), benchmark.graphs
    index = (graphs.graphs["split"] == SPLITS.index(arguments.split)).nonzero()[:, 0]
    print(f"{arguments.split}: mean absolute error {errors.mean():.4f} over {len(errors)} graphs")
    print(f"{'without':<8} {'error of all others':<20} graph  target    pred  rings of size")
    largest = errors.sort(descending=True)
    for rank, row in enumerate(largest.indices[: arguments.count].tolist(), start=1):
        graph = int(index[row])
        counts = ring_counts(graphs[graph].edge_index, SIZES, graphs[graph].num_nodes).nodes.sum(dim=0).tolist()
        rings = {size: int(count) // size for size, count in zip(SIZES, counts, strict=True) if count}
        print(
            f"{rank:<8} {largest.values[rank:].mean():<20.4f} {graph:<6} {target[row]:7.2f} {prediction[row]:7.2f}  "
            + ", ".join(f"{size}: {count}" for size, count in rings.items())
        )


if __name__ == "__main__":
    main()
