"""What each fused route is worth: milliseconds of a training step with the route switched off, one at a time.

    python -m benchmarks.training.routes --data FOLDER [--device cuda|cpu] [--only zinc molhiv] [--epochs 3]

A route stays in the library if switching it off costs at least 10 % of a step on two of the benchmark networks. All
variants of a network are measured in one process, on the first training graphs, in turns: wall time on a GPU,
processor time of one thread on a CPU, whose cores may be shared.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.training.against_pyg import RUNS
from benchmarks.training.ours import make_replica, stream, wait
from dgn.nn.fused.select import Route
from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.shared_data import SharedData, prepare
from dgn.training.trainer import train_replicas

TRAINING = {"zinc": 10_000, "pattern": 10_000, "cifar10": 45_000, "molhiv": 32_901}
GRAPHS = {"cuda": {"zinc": 10_000, "pattern": 1_280, "cifar10": 5_120, "molhiv": 10_240},
          "cpu": {"zinc": 1_280, "pattern": 256, "cifar10": 256, "molhiv": 1_280}}  # fmt: skip
OFF: dict[str, dict[str, list[tuple[str, Any]]]] = {
    "cuda": {
        "fused layer": [("dgn.nn.layer.layer_route", lambda *_: Route.EPILOGUE),
                        ("dgn.nn.network.layer_route", lambda *_: Route.EPILOGUE)],
        "fused layer and epilogue": [("dgn.nn.fused.select.kernels_apply", lambda *_: False),
                                     ("dgn.nn.blocks.feed_forward.kernels_apply", lambda *_: False)],
        "low-rank edge features": [("dgn.nn.network.is_low_rank", lambda *_: False)],
        "loss kernel": [("dgn.training.replica.is_entrywise", lambda *_: False)],
        "weight gradients on a stream": [("dgn.training.replica.use_wgrad_stream", lambda _: no_stream())],
    },
    "cpu": {
        "update by degree": [("dgn.nn.conv.update_by_degree_pays", lambda *_: False)],
        "aggregation kernel": [("dgn.aggregation.dispatch.INSTALLED", {"triton": False, "numba": False})],
    },
}  # fmt: skip


@contextmanager
def no_stream() -> Iterator[None]:
    yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--only", nargs="+", choices=tuple(RUNS), default=list(RUNS))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    where = torch.cuda.get_device_name() if arguments.device == "cuda" else "one thread of a CPU"
    print(f"{where}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", flush=True)
    routes = OFF[arguments.device]
    print(
        f"\n| | as it is, ms | {' | '.join(f'without {name}' for name in routes)} |\n|---|{'---|' * (1 + len(routes))}"
    )
    for name in arguments.only:
        row = measure(name, arguments.data, torch.device(arguments.device), arguments.epochs)
        print(f"| {name} | {' | '.join(row)} |", flush=True)


def measure(name: str, data: str, device: torch.device, epochs: int) -> list[str]:
    """Milliseconds of a step as it is, and with each route switched off: milliseconds and the difference."""
    experiment, changes = RUNS[name]
    place = [] if name == "pattern" else [f"data.path={data}"]
    share = GRAPHS[device.type][name] / TRAINING[name]
    chosen = load_experiment(experiment, [*changes, *place, f"data.train_fraction={share}"])
    benchmark = load_graphs(chosen)
    shared = prepare(chosen, benchmark, device)
    variants: dict[str, Sequence[tuple[str, Any]]] = {"": (), **OFF[device.type]}
    times = {}
    for variant, patches in variants.items():
        with ExitStack() as stack:
            for target, value in patches:
                stack.enter_context(patch(target, value))
            times[variant] = step_time(make_replica(41, chosen, benchmark, shared, device), shared, epochs)
    base = times.pop("")
    return [f"{base:.3f}", *(f"{each:.3f} ({100 * (each / base - 1):+.0f} %)" for each in times.values())]


def step_time(replica: Any, shared: SharedData, epochs: int) -> float:
    """Median milliseconds of a step, over epochs behind one to warm up."""
    queue, seconds = stream(replica.device), []
    for _ in range(1 + epochs):
        wait(replica.device)
        begin = now(replica.device)
        train_replicas([replica], [queue], shared.training)
        wait(replica.device)
        seconds.append(now(replica.device) - begin)
    steps = -(-len(shared.training) // replica.settings.batch_size)
    return 1e3 * statistics.median(seconds[1:]) / steps


def now(device: torch.device) -> float:
    if device.type == "cuda":
        return time.perf_counter()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
