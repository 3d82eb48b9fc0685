"""The kernels of a captured training step on a GPU, and how the time of a step grows with seeds side by side.

    python benchmarks/step_profile.py zinc/complex-e/mean-dx1 --data FOLDER [--set network.hidden=45 ...] [--seeds 8]

Prints how many kernels a step has, its span and the sum of their times by the profiler, where the time goes, and the
time of a step of 1, 2, 4, ... members, replayed only.
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
from dgn.training.trainer import own_stream, side_by_side

REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--data")
    parser.add_argument("--set", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--top", type=int, default=15, help="kernels to name")
    arguments = parser.parse_args()
    place = [] if arguments.data is None else [f"data.path={arguments.data}"]
    experiment = load_experiment(arguments.experiment, [*arguments.set, *place])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.experiment} {arguments.set}")
    with matrix_precision(experiment.training.precision):
        members = trained(experiment, arguments.seeds)
    kernels(members[0].replay, arguments.top)
    print("\n| seeds | ms for a step of each | times one |\n|---|---|---|")
    first = None
    for count in (1 << power for power in range(arguments.seeds.bit_length())):
        took = replayed(members[:count])
        first = took if first is None else first
        print(f"| {count} | {1e3 * took:.3f} | {took / first:.2f} |")


def trained(experiment: Experiment, seeds: int) -> list[Replica]:
    """Members that have trained for an epoch, so that their steps are captured."""
    fabric = make_fabric("cuda", experiment.training.precision)
    benchmark = load_graphs(experiment)
    material = prepare(experiment, benchmark, fabric.device)
    members = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        network = build_network(experiment.network, benchmark, material.delta)
        members.append(Replica(seed, network, experiment, material.objective, material.store, fabric))
    side_by_side(members, [own_stream(fabric.device) for _ in members], material.training)
    torch.cuda.synchronize()
    return members


def kernels(replay: GraphedStep | None, top: int) -> None:
    """What a step is made of."""
    assert replay is not None
    assert replay.graph is not None
    replay.counter.zero_()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(REPEATS):
            replay.graph.replay()
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    events = sorted((e for e in found.events() if e.device_type == cuda), key=lambda event: event.time_range.start)
    one = events[-(len(events) // REPEATS) :]
    span, sums = one[-1].time_range.end - one[0].time_range.start, defaultdict(list)
    for event in one:
        sums[event.name].append(event.time_range.end - event.time_range.start)
    busy = sum(map(sum, sums.values()))
    print(f"{len(one)} kernels, {span:.0f} us from the first to the last, {busy:.0f} us of kernels\n")
    print("| us | times | kernel |\n|---|---|---|")
    for name, times in sorted(sums.items(), key=lambda item: -sum(item[1]))[:top]:
        print(f"| {sum(times):.1f} | {len(times)} | {name[:90]} |")


def replayed(members: list[Replica]) -> float:
    """Seconds of a step of each member, the best of a few rounds."""
    streams, best = [torch.cuda.Stream() for _ in members], float("inf")
    for _ in range(REPEATS):
        replays = [member.replay for member in members if member.replay is not None]
        steps = min(len(replay.words) for replay in replays)
        for replay in replays:
            replay.counter.zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            for replay, stream in zip(replays, streams, strict=True):
                with torch.cuda.stream(stream):
                    replay.graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / steps)
    return best


if __name__ == "__main__":
    main()
