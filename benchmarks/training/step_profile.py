"""Profile of a captured training step on a GPU, and the time of a step for several seeds at once.

    python -m benchmarks.training.step_profile zinc/complex-e/mean-dx1 --data FOLDER [--set KEY=VALUE ...] [--seeds 8]

Prints the number of kernels of a step, its span, the sum and the largest of their times, and the replay time of a step
of 1, 2, 4, ... replicas.
"""

import argparse
import time
from collections import defaultdict

import torch
from torch.profiler import ProfilerActivity, profile

from dgn.training.build import build_network
from dgn.training.cuda_graphs import GraphedStep
from dgn.training.devices import make_fabric, matrix_precision
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.load import load_graphs
from dgn.training.replica import Replica
from dgn.training.shared_data import prepare
from dgn.training.trainer import new_stream, train_replicas

REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--data")
    parser.add_argument("--set", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--top", type=int, default=15, help="number of kernels to list")
    arguments = parser.parse_args()
    path = [] if arguments.data is None else [f"data.path={arguments.data}"]
    experiment = load_experiment(arguments.experiment, [*arguments.set, *path])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.experiment} {arguments.set}")
    with matrix_precision(experiment.training.precision):
        replicas = trained(experiment, arguments.seeds)
    kernels(replicas[0].graphed_step, arguments.top)
    print("\n| seeds | ms for a step of each | times one |\n|---|---|---|")
    first = None
    for count in (1 << power for power in range(arguments.seeds.bit_length())):
        seconds = replay_time(replicas[:count])
        first = seconds if first is None else first
        print(f"| {count} | {1e3 * seconds:.3f} | {seconds / first:.2f} |")


def trained(experiment: Experiment, seeds: int) -> list[Replica]:
    """Replicas after one epoch, so that their steps are captured."""
    fabric = make_fabric("cuda", experiment.training.precision)
    benchmark = load_graphs(experiment)
    shared = prepare(experiment, benchmark, fabric.device)
    replicas = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        network = build_network(experiment.network, benchmark, shared.delta)
        replicas.append(Replica(seed, network, experiment, shared.objective, shared.store, fabric))
    train_replicas(replicas, [new_stream(fabric.device) for _ in replicas], shared.training)
    torch.cuda.synchronize()
    return replicas


def kernels(step: GraphedStep | None, top: int) -> None:
    """Print the kernels of a step."""
    assert step is not None
    assert step.graph is not None
    step.counter.zero_()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(REPEATS):
            step.graph.replay()
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    events = sorted((e for e in profiler.events() if e.device_type == cuda), key=lambda event: event.time_range.start)
    last = events[-(len(events) // REPEATS) :]
    span, sums = last[-1].time_range.end - last[0].time_range.start, defaultdict(list)
    for event in last:
        sums[event.name].append(event.time_range.end - event.time_range.start)
    busy = sum(map(sum, sums.values()))
    print(f"{len(last)} kernels, {span:.0f} us from the first to the last, {busy:.0f} us of kernels\n")
    print("| us | times | kernel |\n|---|---|---|")
    for name, times in sorted(sums.items(), key=lambda item: -sum(item[1]))[:top]:
        print(f"| {sum(times):.1f} | {len(times)} | {name[:90]} |")


def replay_time(replicas: list[Replica]) -> float:
    """Seconds of one step of each replica, the best of a few rounds."""
    streams, best = [torch.cuda.Stream() for _ in replicas], float("inf")
    for _ in range(REPEATS):
        graphed = [replica.graphed_step for replica in replicas if replica.graphed_step is not None]
        steps = min(len(step.buffer) for step in graphed)
        for step in graphed:
            step.counter.zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            for step, stream in zip(graphed, streams, strict=True):
                with torch.cuda.stream(stream):
                    step.graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / steps)
    return best


if __name__ == "__main__":
    main()
