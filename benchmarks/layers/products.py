"""One graph of the size of ogbn-products: directions, and a training step of DGN beside GraphSAGE and PNA of PyG.

    python -m benchmarks.layers.products [--nodes 2449029] [--edges 61859140] [--limit 60] [--steps 3] [--device cuda]

The graph is synthetic, with degrees of a power law: each node is joined to one drawn by degree, and the other edges
join two such. Every edge is given in both directions, as PyG does: twice as many messages. 100 features, 47 classes, a
tenth of the nodes labelled, three layers with 128 channels, full batch. The first eigenvector is computed in a process
of its own, which is ended at the limit in seconds; the field is then that of random numbers, which take a step as long.
Each contender runs alone; one that does not fit in memory says so.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing import TimeoutError as TooLong
from multiprocessing import get_context

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv, SAGEConv

import dgn
from benchmarks.costs import measured
from dgn.nn import DGNConv

FEATURES, WIDTH, CLASSES, LAYERS = 100, 128, 47, 3
EXPONENT = 0.5  # of a weight in the rank of its node: degrees then fall as their number to the power of -3
SCALERS = ["identity", "amplification", "attenuation"]


class Network(nn.Module):
    """Three layers and the classes of the nodes."""

    def __init__(self, make_layer: Callable[[int], nn.Module], takes_field: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make_layer(WIDTH if i else FEATURES) for i in range(LAYERS)])
        self.head, self.takes_field = nn.Linear(WIDTH, CLASSES), takes_field

    def forward(self, x: Tensor, edge_index: Tensor, field: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edge_index, **({"edge_field": field} if self.takes_field else {})).relu()
        return self.head(x)  # type: ignore[no-any-return]


def contenders(degree: Tensor) -> dict[str, Callable[[], Network]]:
    """What is compared, by name; ``degree`` counts the nodes of each degree."""
    delta = float((degree * torch.log(torch.arange(len(degree)) + 1.0)).sum() / degree.sum())

    def pna(width: int) -> nn.Module:
        return PNAConv(width, WIDTH, ["mean", "max", "min", "std"], SCALERS, degree)

    def complex_(width: int) -> nn.Module:
        return DGNConv(width, WIDTH, ["mean", "max", "min", "dx1"], SCALERS, delta, "complex")

    return {
        "DGNConv simple, mean dx1": lambda: Network(lambda width: DGNConv(width, WIDTH, ["mean", "dx1"]), True),
        "DGNConv complex, 4 aggregators, 3 scalers": lambda: Network(complex_, True),
        "SAGEConv, mean": lambda: Network(lambda width: SAGEConv(width, WIDTH), False),
        "PNAConv, 4 aggregators, 3 scalers": lambda: Network(pna, False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--edges", type=int, default=61_859_140, help="undirected edges, parallel ones included")
    parser.add_argument("--limit", type=float, default=60, help="seconds for the directions; 0 leaves them out")
    parser.add_argument("--steps", type=int, default=3, help="training steps to time; 0 leaves the layers out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device, nodes = torch.device(arguments.device), arguments.nodes
    where = torch.cuda.get_device_name() if device.type == "cuda" else "no GPU"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    print(f"{where}, {torch.get_num_threads()} threads, torch {torch.__version__}, {when}")
    pairs = power_law(nodes, arguments.edges, device)
    degree = torch.bincount(pairs.flatten(), minlength=nodes)
    shape = f"{nodes:,} nodes, {pairs.size(1):,} undirected edges, mean degree {2 * pairs.size(1) / nodes:.1f}"
    print(f"{shape}, largest {int(degree.max()):,}", flush=True)
    potential = first_direction(pairs.cpu(), nodes, arguments.limit) if arguments.limit else None
    if not arguments.steps:
        return
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    del pairs
    draw = torch.Generator().manual_seed(0)
    potential = torch.randn(nodes, 1, generator=draw) if potential is None else potential
    values = potential[:, 0].to(device)
    field = (values[edge_index[0]] - values[edge_index[1]])[:, None]
    x, y = torch.randn(nodes, FEATURES, generator=draw).to(device), torch.randint(CLASSES, (nodes,), generator=draw)
    labelled = torch.rand(nodes, generator=draw) < 0.1
    inputs = x, edge_index, field, y.to(device), labelled.to(device)
    print("\n| training step | ms | first step, ms | GiB beyond graph and features |\n|---|---:|---:|---:|", flush=True)
    for name, make in contenders(torch.bincount(degree).cpu()).items():
        print(f"| {name} | {measure(make, inputs, device, arguments.steps)} |", flush=True)


def power_law(nodes: int, edges: int, device: torch.device) -> Tensor:
    """Undirected edges [2, E] in random order, each node with at least one; no loops."""
    draw = torch.Generator(device).manual_seed(0)
    weight = torch.arange(1, nodes + 1, device=device, dtype=torch.float64).pow(-EXPONENT)
    total = weight.cumsum(0)

    def by_weight(count: int) -> Tensor:
        ranks = torch.rand(count, device=device, dtype=torch.float64, generator=draw) * total[-1]
        return torch.searchsorted(total, ranks).clamp(max=nodes - 1)

    first = torch.cat([torch.arange(nodes, device=device), by_weight(max(0, edges - nodes))])
    second = by_weight(len(first))
    label = torch.randperm(nodes, device=device, generator=draw)
    return torch.stack([label[first], label[second]])[:, first != second]


def first_direction(pairs: Tensor, nodes: int, limit: float) -> Tensor | None:
    """The first eigenvector [N, 1], printed with its cost; ``None`` if it takes longer than the limit."""
    dgn.directions(torch.randint(6000, (2, 30_000), generator=torch.Generator().manual_seed(0)), 6000, k=1)  # compiles
    with get_context("spawn").Pool(1) as pool:
        try:
            cost = pool.apply_async(cost_of_directions, (pairs, nodes)).get(limit)
        except TooLong:
            print(f"directions: not done in {limit:.0f} s", flush=True)
            return None
    seconds, processor, megabytes, potential = cost
    print(f"directions: {seconds:.1f} s, {processor:.0f} s of all threads, {megabytes / 1024:.1f} GiB", flush=True)
    return potential  # type: ignore[no-any-return]


def cost_of_directions(pairs: Tensor, nodes: int) -> tuple[float, float, float, Tensor]:
    cost = measured(lambda: dgn.directions(pairs, nodes, k=1).potential.float())
    return cost.seconds, cost.processor, cost.megabytes, cost.result


def measure(make: Callable[[], Network], inputs: tuple[Tensor, ...], device: torch.device, steps: int) -> str:
    """Milliseconds of a step, of the first one, and GiB; or that memory does not suffice."""
    try:
        torch.manual_seed(0)
        return run(make().to(device), inputs, device, steps)
    except torch.cuda.OutOfMemoryError:
        return "out of memory | | "
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()


def run(network: Network, inputs: tuple[Tensor, ...], device: torch.device, steps: int) -> str:
    x, edge_index, field, y, labelled = inputs
    adam, times = torch.optim.Adam(network.parameters(), 1e-3), []
    before = start_memory(device)
    for _ in range(steps + 1):
        start = time.perf_counter()
        adam.zero_grad()
        nn.functional.cross_entropy(network(x, edge_index, field)[labelled], y[labelled]).backward()
        adam.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30 if device.type == "cuda" else float("nan")
    return f"{1e3 * statistics.median(times[1:]):.0f} | {1e3 * times[0]:.0f} | {peak:.1f}"


def start_memory(device: torch.device) -> int:
    """Bytes in use, from which the peak counts on."""
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


if __name__ == "__main__":
    main()
