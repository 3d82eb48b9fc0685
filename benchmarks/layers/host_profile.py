"""Where the host spends its time in a training step of the layers of pyg_layers.py.

    python -m benchmarks.layers.host_profile --data FOLDER [--device cuda|cpu] [--batch 128] [--compiled]

For GINE, PNA and DGN, eager: milliseconds of a step with and without waiting for the GPU, of its forward pass, backward
pass and update; the kernels of a step; for DGN also the time of one launch of each Triton kernel, the operations of
PyTorch and the Python functions that take most time. With ``--compiled`` at last the first table of
compiled networks, and their kernels.
"""

import argparse
import cProfile
import io
import pstats
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import dgn
from benchmarks.layers.pyg_layers import Network, batches, molecules, networks, wait

STEPS, PROFILED, TOP = 30, 50, 22


class Training:
    """A network with its optimizer, and batches that no cache has seen."""

    def __init__(self, network: Network, inputs: list[tuple[Any, ...]], device: torch.device, compiled: bool) -> None:
        self.model = torch.compile(network, dynamic=True) if compiled else network
        self.adam, self.inputs, self.device, self.count = (
            torch.optim.Adam(network.parameters(), 1e-3),
            inputs,
            device,
            0,
        )

    def batch(self) -> tuple[list[Any], Tensor]:
        self.count += 1
        inputs = [
            part.clone() if isinstance(part, Tensor) else part for part in self.inputs[self.count % len(self.inputs)]
        ]
        return inputs, torch.zeros(inputs[-1], device=self.device)

    def step(self, inputs: list[Any], target: Tensor) -> list[float]:
        """Seconds that the host takes for zero_grad and forward pass, backward pass, and update."""
        times = [time.perf_counter()]
        self.adam.zero_grad()
        loss = nn.functional.l1_loss(self.model(*inputs), target)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.adam.step()
        times.append(time.perf_counter())
        return [end - start for start, end in pairwise(times)]

    def times(self, steps: int) -> list[float]:
        """Median milliseconds of a step with waiting, of the host alone, and of its three parts."""
        rows = []
        for _ in range(steps):
            inputs = self.batch()
            wait(self.device)
            start = time.perf_counter()
            parts = self.step(*inputs)
            wait(self.device)
            rows.append([time.perf_counter() - start, sum(parts), *parts])
        return [1e3 * statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with zinc12k.npz")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--compiled", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads of a CPU"
    print(f"{where}, torch {torch.__version__}, batch {arguments.batch}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    graphs = molecules(arguments.data)
    degree = torch.bincount(torch.cat([torch.bincount(g.edge_index[1], minlength=g.num_nodes) for g in graphs]))
    makers, inputs = networks(degree, dgn.average_log_degree(graphs)), batches(graphs, arguments.batch, device)
    columns = "a step | host | forward | backward | update | kernels | us of kernels"
    print(f"\n| ms | {columns} |\n|---|{'---:|' * 7}", flush=True)
    eager = {name: measured(name, make, inputs, device, False) for name, make in makers.items()}
    for name, training in eager.items():
        if name.startswith("DGN"):
            print(f"\n## {name}", flush=True)
            launches(training)
            kernels(training)
            operations(training)
            functions(training)
    if arguments.compiled:
        print(f"\n| ms, compiled | {columns} |\n|---|{'---:|' * 7}", flush=True)
        for name, make in makers.items():
            torch._dynamo.reset()
            kernels(measured(name, make, inputs, device, True))


def measured(
    name: str, make: Callable[[], Network], inputs: list[tuple[Any, ...]], device: torch.device, compiled: bool
) -> Training:
    """A network after the steps whose times are printed."""
    torch.manual_seed(0)
    training = Training(make().to(device), inputs, device, compiled)
    training.times(10)
    milliseconds = training.times(STEPS)
    counts, total = kernel_times(training)
    cells = [*(f"{value:.2f}" for value in milliseconds), str(sum(counts.values())), f"{sum(total.values()):.0f}"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return training


def kernel_times(training: Training) -> tuple[Counter[str], dict[str, float]]:
    """How often each kernel runs in a step, and its microseconds."""
    counts: Counter[str] = Counter()
    total: dict[str, float] = defaultdict(float)
    if training.device.type != "cuda":
        return counts, total
    inputs = training.batch()
    wait(training.device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        training.step(*inputs)
        wait(training.device)
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            counts[event.name] += 1
            total[event.name] += event.time_range.end - event.time_range.start
    return counts, total


def kernels(training: Training) -> None:
    """Print the kernels of a step, the most frequent first."""
    counts, total = kernel_times(training)
    print("\n| times | us | kernel |\n|---:|---:|---|")
    for name, count in counts.most_common():
        print(f"| {count} | {total[name]:.0f} | {name[:110]} |")


def launches(training: Training) -> None:
    """Print how often a step launches each Triton kernel, and the median microseconds of a launch on the host."""
    with suppress(ImportError):
        from dgn.kernels.triton.launch import Launcher

        times: dict[str, list[float]] = defaultdict(list)
        original = Launcher.__call__

        def timed(self: Any, *args: Any) -> None:
            start = time.perf_counter()
            original(self, *args)
            times[f"{self.kernel.fn.__name__}, {len(self.kernel.arg_names)} parameters"].append(
                time.perf_counter() - start
            )

        Launcher.__call__ = timed  # type: ignore[method-assign]
        try:
            training.times(PROFILED)
        finally:
            Launcher.__call__ = original  # type: ignore[method-assign]
        print("\n| launches a step | us a launch | Triton kernel |\n|---:|---:|---|")
        for name, each in sorted(times.items()):
            print(f"| {len(each) / PROFILED:.0f} | {1e6 * statistics.median(each):.1f} | {name} |")


def operations(training: Training) -> None:
    """Print the operations of PyTorch that take most time on the host, with the profiler's own time."""
    inputs = [training.batch() for _ in range(5)]
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for one in inputs:
            training.step(*one)
    rows = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)[:TOP]
    print("\n| us a step | times | operation |\n|---:|---:|---|")
    for row in rows:
        print(f"| {row.self_cpu_time_total / 5:.0f} | {row.count / 5:.0f} | {row.key[:80]} |")


def functions(training: Training) -> None:
    """Print the functions that take most time, all passes in one thread."""
    inputs = [training.batch() for _ in range(PROFILED)]
    profiler = cProfile.Profile()
    wait(training.device)
    with torch.autograd.set_multithreading_enabled(False):
        profiler.enable()
        for one in inputs:
            training.step(*one)
        profiler.disable()
    wait(training.device)
    for order in ("tottime", "cumulative"):
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).sort_stats(order).print_stats(2 * TOP)
        lines = [line for line in text.getvalue().splitlines() if line.strip()]
        print(f"\n{PROFILED} steps, functions by {order}:")
        print("\n".join(line.replace("/site-packages/", "/../")[-160:] for line in lines[2:]))


if __name__ == "__main__":
    main()
