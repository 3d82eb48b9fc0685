"""Training of the tuned MolPCBA network (6.7 million parameters) on graphs of the real sizes with random labels.

    python -m benchmarks.training.molpcba [--sizes molpcba_split.npz] [--graphs 350343] [--epochs 3] [--device cuda|cpu]
        [--widest 256] [--profile 45]

The labels of MolPCBA are not needed to know how fast it trains. ``--sizes`` is a file with ``num_nodes``, ``num_bonds``
and ``split`` of its 437,929 molecules; without it, sizes with the same mean are drawn. Molecules are chains with
branches and rings, made with a fixed seed; features and labels are random, two fifths of the labels present. Prints
graphs per second, the most memory, and the time of an epoch of all 350,343 training graphs. ``--widest`` lets layers of
more channels than usual be fused (``dgn.nn.fused.select.WIDEST``): whether that pays is to be measured.
"""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.training.against_pyg import make_replica, time_epochs
from benchmarks.training.step_profile import kernels
from dgn.data.benchmark import ATOMS, BONDS, TASKS, Benchmark
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.nn.fused import select
from dgn.training.build import count_parameters
from dgn.training.devices import matrix_precision
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.shared_data import prepare

TRAINING, SEED = 350_343, 41
MEAN, SPREAD = 26.0, 6.0  # nodes of a molecule
RING = 5  # steps along the chain that a ring closes
PRESENT, ACTIVE = 0.4, 0.02  # shares of labels
Integers = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=Path, help="file with num_nodes, num_bonds and split")
    parser.add_argument("--graphs", type=int, default=TRAINING, help="number of training graphs")
    parser.add_argument(
        "--epochs", type=int, default=3, help="epochs to time, after one to warm up; the median is reported"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--experiment", default="molpcba/tuned")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="name the N kernels that take longest")
    parser.add_argument("--widest", type=int, default=select.WIDEST, help="most channels of a fused layer")
    parser.add_argument("--set", nargs="+", default=[], help="settings, as training.batch_size=512")
    arguments = parser.parse_args()
    select.WIDEST = arguments.widest
    device = torch.device(arguments.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", flush=True)
    measure(arguments, device)


def measure(arguments: argparse.Namespace, device: torch.device) -> None:
    """Make the graphs, train on them in the precision of the experiment, and print."""
    experiment = load_experiment(arguments.experiment, arguments.set)
    with matrix_precision(experiment.training.precision):
        measure_training(arguments, experiment, device)


def measure_training(arguments: argparse.Namespace, experiment: Experiment, device: torch.device) -> None:
    start = time.perf_counter()
    nodes, bonds, split = read_sizes(arguments.sizes, arguments.graphs)
    graphs = make_molecules(nodes, bonds, split)
    made = time.perf_counter()
    graphs = add_directions(graphs, experiment.num_directions)
    solved = time.perf_counter()
    task = TASKS["molpcba"]
    benchmark = Benchmark("molpcba", graphs, task.objective, task.metric, task.num_targets, ATOMS, BONDS)
    shared = prepare(experiment, benchmark, device)
    replica = make_replica(SEED, experiment, benchmark, shared, device)
    ready = time.perf_counter()
    size = f"{graphs.num_nodes:,} nodes and {graphs.num_edges:,} edges in {len(graphs):,} graphs"
    print(
        f"{size}: made {made - start:.1f} s, directions {solved - made:.1f} s, ready {ready - solved:.1f} s", flush=True
    )
    steps, milliseconds = time_epochs([replica], shared, arguments.epochs)
    trained, seconds = len(shared.training), milliseconds / 1e3
    batch = experiment.training.batch_size
    print(f"{experiment.name}, {count_parameters(replica.network):,} parameters, {batch} graphs a step")
    print(f"{milliseconds / steps:.2f} ms/step, {trained / seconds:,.0f} graphs/s")
    print(f"epoch of {trained:,} graphs: {seconds:.2f} s; of all {TRAINING:,}: {seconds * TRAINING / trained:.1f} s")
    if arguments.profile:
        kernels(replica.graphed_step, arguments.profile)
    if device.type == "cuda":
        print(f"most memory: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def read_sizes(file: Path | None, training: int) -> tuple[Integers, Integers, Integers]:
    """Nodes, bonds and split of the first training graphs and the same fraction of the others."""
    if file is None:
        random = np.random.default_rng(SEED)
        nodes = random.normal(MEAN, SPREAD, training * 5 // 4).round().clip(1).astype(np.int64)
        split = np.repeat([0, 1, 2], [training, training // 8, len(nodes) - training - training // 8])
        return nodes, np.where(nodes > RING, nodes + 2, nodes - 1), split
    with np.load(file) as arrays:
        nodes, bonds, split = (arrays[name].astype(np.int64) for name in ("num_nodes", "num_bonds", "split"))
    counts = (training, max(1, training // 8), max(1, training // 8))
    chosen = np.concatenate([np.flatnonzero(split == code)[:count] for code, count in enumerate(counts)])
    return nodes[chosen], bonds[chosen], split[chosen]


def make_molecules(nodes: Integers, bonds: Integers, split: Integers) -> PackedGraphs:
    """Chains with branches, and as many rings as there are bonds beyond; fewer bonds leave several components."""
    random = np.random.default_rng(SEED)
    pointer = np.concatenate([[0], nodes.cumsum()])
    position = np.arange(pointer[-1]) - np.repeat(pointer[:-1], nodes)
    inner = position[position > 0]
    parent = np.maximum(inner - 1 - random.choice(3, size=len(inner), p=(0.75, 0.2, 0.05)), 0)
    bonded = inner <= np.repeat(bonds, np.maximum(nodes - 1, 0))  # a molecule of several components has fewer
    owner = np.repeat(np.arange(len(nodes)), np.maximum(nodes - 1, 0))[bonded]
    rings = np.maximum(bonds - (nodes - 1), 0)
    of_ring = np.repeat(np.arange(len(nodes)), rings)
    ring = np.arange(len(of_ring)) - np.repeat(rings.cumsum() - rings, rings)
    start = ring * np.maximum(nodes - RING, 1)[of_ring] // rings[of_ring]
    end = np.minimum(start + RING, nodes[of_ring] - 1)
    ends = np.stack([np.concatenate([parent[bonded], start]), np.concatenate([inner[bonded], end])])
    order = np.argsort(np.concatenate([owner, of_ring]), kind="stable")
    both = np.stack([ends[:, order], ends[::-1, order]], axis=2).reshape(2, -1)
    draw = torch.Generator().manual_seed(SEED)
    return PackedGraphs(
        torch.from_numpy(pointer),
        torch.from_numpy(np.concatenate([[0], 2 * bonds.cumsum()])),
        torch.from_numpy(both.astype(np.int16)),
        nodes={"x": _categories(ATOMS, len(position), draw)},
        edges={"edge_attr": _categories(BONDS, both.shape[1] // 2, draw).repeat_interleave(2, dim=0)},
        graphs={"y": _labels(len(nodes), draw), "split": torch.from_numpy(split.astype(np.uint8))},
    )


def _categories(sizes: tuple[int, ...], rows: int, draw: torch.Generator) -> torch.Tensor:
    return torch.stack([torch.randint(size, (rows,), generator=draw, dtype=torch.uint8) for size in sizes], dim=1)


def _labels(rows: int, draw: torch.Generator) -> torch.Tensor:
    value = torch.rand(rows, TASKS["molpcba"].num_targets, generator=draw)
    return torch.where(value < PRESENT, (value < PRESENT * ACTIVE).to(torch.int8), -1)


if __name__ == "__main__":
    main()
