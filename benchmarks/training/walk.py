"""How far one has to walk through the code: files and functions that a layer and a training step visit.

    python -m benchmarks.training.walk [--data FOLDER]

Traces one layer forward and one training step of a ZINC network (complex-E, mean dx1 max min) on the CPU, after a
warm-up, and prints the files of the package with the functions that ran in each.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import dgn
from benchmarks.training.ours import make_replica
from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.shared_data import prepare

ROOT = Path(dgn.__file__).parent
EXPERIMENT = "zinc/complex-e/mean-dx1", ["network.aggregators=[mean,dx1,max,min]", "network.hidden=45"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with zinc12k.npz; default: what was downloaded")
    data = parser.parse_args().data
    name, changes = EXPERIMENT
    experiment = load_experiment(name, [*changes, *([] if data is None else [f"data.path={data}"])])
    benchmark = load_graphs(experiment)
    shared = prepare(experiment, benchmark, torch.device("cpu"))
    replica = make_replica(41, experiment, benchmark, shared, torch.device("cpu"))
    steps = replica.train_epoch(shared.training)
    next(steps)  # compiles and fills caches
    report("a training step", lambda: next(steps))
    batch = next(iter(shared.splits["val"].batches))
    network = replica.network
    layer, x = network.layers[0], torch.randn(batch.graph.num_nodes, experiment.network.hidden)
    edges = network._edges(batch.edges["edge_attr"], batch.graph)
    layer(x, batch.graph, batch.weights, edges)  # the first layer of a batch fills what the others read
    report("a layer forward", lambda: layer(x, batch.graph, batch.weights, edges))


def report(title: str, run: Callable[[], Any]) -> None:
    """Trace a call and print what it visited."""
    functions, changes, last = Counter[tuple[str, str]](), 0, ""

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal changes, last
        file = Path(frame.f_code.co_filename)
        if event != "call" or not file.is_relative_to(ROOT) or frame.f_code.co_name.startswith("<"):
            return
        name = str(file.relative_to(ROOT))
        functions[name, frame.f_code.co_name] += 1
        changes, last = changes + (name != last), name

    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    files = sorted({file for file, _ in functions})
    print(f"\n{title}: {len(files)} files, {len(functions)} functions, {changes} changes of file\n")
    for file in files:
        print(f"  {file}: {', '.join(name for where, name in functions if where == file)}")


if __name__ == "__main__":
    main()
