"""The host's part of a training step on a GPU, measured without one: GINE, PNA and DGN of pyg_layers.py in turns.

    python -m benchmarks.layers.host_time --data FOLDER [--width 8] [--steps 400]

In a plain loop over small batches a GPU waits for the host. Here tensors on the CPU pass for tensors on a GPU while DGN
runs, so that its layers take the GPU's route; a launch prepares its arguments and launches nothing, so that outputs are
meaningless. Batches of two molecules and few channels make the arithmetic of all other operations negligible. What a
driver adds to each launch and operation is not in these numbers, which compare the Python of layers alone. Every batch
is new to all caches. Prints microseconds of forward pass, backward pass and update: the first decile over the steps.
"""

import argparse
import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import torch
from torch import Tensor, nn

import dgn
from benchmarks.layers import pyg_layers
from benchmarks.layers.pyg_layers import batches, molecules, networks
from dgn.kernels.triton import launch

GRAPHS, MOLECULES, WARM_UP, COLLECT = 64, 2, 30, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with zinc12k.npz")
    parser.add_argument("--width", type=int, default=8, help="channels of a layer")
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pyg_layers.GRAPHS, pyg_layers.WIDTH = GRAPHS, arguments.width
    print(f"torch {torch.__version__}, {arguments.width} channels, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    graphs = molecules(arguments.data)
    degree = torch.bincount(torch.cat([torch.bincount(g.edge_index[1], minlength=g.num_nodes) for g in graphs]))
    makers = networks(degree, dgn.average_log_degree(graphs))
    inputs = batches(graphs, MOLECULES, torch.device("cpu"))
    stub_launches()
    training = {name: make() for name, make in makers.items()}
    adams = {name: torch.optim.Adam(network.parameters(), 1e-3, foreach=True) for name, network in training.items()}
    rows: dict[str, list[list[float]]] = defaultdict(list)
    gc.disable()
    for index in range(WARM_UP + arguments.steps):
        for name, network in training.items():
            pass_for_gpu(name.startswith("DGN"))
            step(network, adams[name], inputs[index % len(inputs)])
            if index % COLLECT == 0:
                gc.collect()
            rows[name].append(step(network, adams[name], inputs[index % len(inputs)]))
    print("\n| us | forward | backward | update | step |\n|---|---:|---:|---:|---:|")
    for name, times in rows.items():
        parts = [1e6 * statistics.quantiles(column, n=10)[0] for column in zip(*times[WARM_UP:], strict=True)]
        print(f"| {name} | {' | '.join(f'{part:.0f}' for part in (*parts, sum(parts)))} |")


def step(network: nn.Module, adam: torch.optim.Optimizer, inputs: Sequence[Any]) -> list[float]:
    """Seconds of the forward pass, the backward pass and the update, on a batch that no cache has seen."""
    copies = [part.clone() if isinstance(part, Tensor) else part for part in inputs]
    target = torch.zeros(inputs[-1])
    times = [time.perf_counter()]
    adam.zero_grad()
    loss = nn.functional.l1_loss(network(*copies), target)
    times.append(time.perf_counter())
    loss.backward()
    times.append(time.perf_counter())
    adam.step()
    times.append(time.perf_counter())
    return [end - start for start, end in pairwise(times)]


def stub_launches() -> None:
    """Let launches do all but launch, and what asks a driver answer as on an idle GPU."""

    def prepare(self: launch.Launcher, grid: tuple[int, int], tensors: Sequence[Tensor], *numbers: float) -> None:
        addresses = tuple(map(Tensor.data_ptr, tensors))
        key = (0, *[tensor.dtype for tensor in tensors], *[launch.number_kind(number) for number in numbers])
        if reduce(or_, addresses) % launch.ALIGNMENT:
            key = (*key, *[address % launch.ALIGNMENT == 0 for address in addresses])
        self.compiled.setdefault(key, (None, None, None))
        _ = (*grid, 1, None, None, None, None, None, None, *addresses, *numbers, *self.last)

    launch.Launcher.__call__ = prepare  # type: ignore[method-assign]
    torch._assert_async = lambda *_: None
    torch.cuda.is_current_stream_capturing = lambda: False


REAL = torch.Tensor.is_cuda


def pass_for_gpu(on: bool) -> None:
    """Whether all tensors say that they are on a GPU."""
    torch.Tensor.is_cuda = property(lambda _: True) if on else REAL  # type: ignore[assignment]


if __name__ == "__main__":
    main()
