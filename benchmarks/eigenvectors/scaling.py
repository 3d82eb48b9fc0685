"""How cost grows with nodes, edges, channels and directions: eigenvectors, and a layer forward and backward.

    python -m benchmarks.eigenvectors.scaling [--nodes 1000 10000 100000 1000000] [--growth] [--device cuda]

The graph is :func:`dgn.testing.collaboration`. One quantity is varied at a time, around five edges per node, 64
channels and two directions. Every row is a process of its own; memory is its peak beyond the graph, on a GPU what
PyTorch allocated for the layer. Above two million nodes, the layer is left out.
"""

import argparse
import resource
import time
from typing import NamedTuple

import torch
from torch import Tensor

import dgn
from benchmarks.costs import LIMIT, apart, measured
from benchmarks.timing import peak_memory
from dgn.testing import collaboration

LARGEST_LAYER = 2_000_000  # nodes: 4.5 GB a million on the CPU
NODES = (1_000, 10_000, 100_000)
COLUMNS = ("nodes", "edges", "channels", "directions", "eigenvectors s", "CPU s", "MB", "layer s", "CPU s", "MB")


class Size(NamedTuple):
    nodes: int
    edges_per_node: int = 5
    channels: int = 64
    directions: int = 2


def cost(size: Size, device: str) -> tuple[object, ...]:
    """A row of the table; of larger graphs, without a layer."""
    edges, nodes = collaboration(size.nodes, size.edges_per_node * size.nodes)
    dgn.directions(*collaboration(6000, 30000), k=2)  # loads compiled kernels
    eigenvectors = measured(lambda: dgn.directions(edges, nodes, k=size.directions))
    spectral = f"{eigenvectors.seconds:.2f}", f"{eigenvectors.processor:.2f}", f"{eigenvectors.megabytes:.0f}"
    numbers = f"{size.nodes:,}", f"{edges.size(1):,}", str(size.channels), str(size.directions)
    layer = layer_cost(size, edges, eigenvectors.result.potential, device) if nodes <= LARGEST_LAYER else ("", "", "")
    return *numbers, *spectral, *layer


def layer_cost(size: Size, edges: Tensor, potential: Tensor, device: str) -> tuple[str, str, str]:
    """Seconds, CPU seconds and memory of a layer, forward and backward."""
    graph = dgn.as_graph(torch.cat([edges, edges.flip(0)], dim=1).to(device), len(potential))
    field = dgn.gradient(potential.float().to(device), graph)
    names = ["mean", *(f"dx{k + 1}" for k in range(size.directions))]
    conv = dgn.nn.DGNConv(size.channels, size.channels, names).to(device)
    x = torch.randn(len(potential), size.channels, device=device, requires_grad=True)
    weights = conv.plan.compute_weights(field, graph)

    def step() -> None:
        conv(x, graph, weights=weights).square().mean().backward()
        if device == "cuda":
            torch.cuda.synchronize()

    step()  # compiles, and sorts the edges
    layer = measured(step)
    memory = layer.megabytes if device == "cpu" else peak_memory(step, device)
    return f"{layer.seconds:.3f}", f"{layer.processor:.3f}", f"{memory:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--growth", action="store_true", help="vary the number of nodes alone")
    arguments = parser.parse_args()
    middle = sorted(arguments.nodes)[len(arguments.nodes) // 2]
    sizes = [Size(nodes) for nodes in arguments.nodes]
    if not arguments.growth:
        sizes += [Size(middle, edges_per_node=count) for count in (10, 20)]
        sizes += [Size(middle, channels=count) for count in (16, 256)]
        sizes += [Size(middle, directions=count) for count in (4, 8)]
    print(f"{time.strftime('%Y-%m-%d')}, {arguments.device}, {torch.get_num_threads()} threads")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---:|" * len(COLUMNS), flush=True)
    for size in sizes:
        row = apart(cost, size, arguments.device) or (*map(str, size), f"not done in {LIMIT} s")
        print("| " + " | ".join(row) + " |", flush=True)
    print(f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} CPU s")


if __name__ == "__main__":
    main()
