"""Layers in a plain PyG loop: milliseconds of a training step of GINE, PNA and DGN on batches of molecules.

    python -m benchmarks.layers.pyg_layers --data FOLDER [--device cuda|cpu] [--batch 128 1024] [--skip-compiled]

Four layers between embeddings of atoms and bonds and a linear head: forward, backward and Adam, as a user of PyG writes
them. Simple messages of DGN have no edge features, all others do. Every step takes another batch that no cache has
seen, on the device already. The median over steps is printed. ``compiled`` is ``torch.compile(dynamic=True)``.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, PNAConv, global_mean_pool

import dgn
from dgn.data import load_benchmark
from dgn.data.precompute.directions import add_directions
from dgn.nn import DGNConv

WIDTH, LAYERS, GRAPHS = 64, 4, 8192
SCALERS = ["identity", "amplification", "attenuation"]


class Network(nn.Module):
    """Embeddings, four layers, the mean over nodes and a linear head."""

    def __init__(self, make_layer: Callable[[], nn.Module], takes_field: bool) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(28, WIDTH), nn.Embedding(4, WIDTH)
        self.layers = nn.ModuleList([make_layer() for _ in range(LAYERS)])
        self.head, self.takes_field = nn.Linear(WIDTH, 1), takes_field

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, field: Tensor, batch: Tensor, n: int) -> Tensor:
        h, edges = self.atoms(x), self.bonds(edge_attr)
        for layer in self.layers:
            more = {"edge_attr": edges} if getattr(layer, "edge_dim", WIDTH) else {}
            h = h + layer(h, edge_index, **more, **({"edge_field": field} if self.takes_field else {})).relu()
        return self.head(global_mean_pool(h, batch, n))[:, 0]  # type: ignore[no-any-return]


def networks(degree: Tensor, delta: float) -> dict[str, Callable[[], Network]]:
    """What is compared, by name."""

    def gine() -> nn.Module:
        return GINEConv(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)))

    def pna() -> nn.Module:
        return PNAConv(WIDTH, WIDTH, ["mean", "max", "min", "std"], SCALERS, degree, edge_dim=WIDTH)

    def simple() -> nn.Module:
        return DGNConv(WIDTH, WIDTH, ["mean", "dx1"])

    def complex_() -> nn.Module:
        return DGNConv(WIDTH, WIDTH, ["mean", "max", "min", "dx1"], SCALERS, delta, "complex", edge_dim=WIDTH)

    return {
        "GINEConv": lambda: Network(gine, False),
        "PNAConv, 4 aggregators, 3 scalers": lambda: Network(pna, False),
        "DGNConv simple, mean dx1": lambda: Network(simple, True),
        "DGNConv complex, 4 aggregators, 3 scalers": lambda: Network(complex_, True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with zinc12k.npz")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--skip-compiled", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads of a CPU"
    print(f"{where}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", flush=True)
    graphs = molecules(arguments.data)
    degree = torch.bincount(torch.cat([torch.bincount(g.edge_index[1], minlength=g.num_nodes) for g in graphs]))
    delta = dgn.average_log_degree(graphs)
    ways = ["eager"] if arguments.skip_compiled else ["eager", "compiled"]
    columns = {}
    for size, way in product(arguments.batch, ways):
        inputs, title = batches(graphs, size, device), f"batch {size}, {way}"
        columns[title] = measure(inputs, networks(degree, delta), device, way == "compiled", arguments.steps)
        print(f"{title}: {columns[title]}", flush=True)  # a run that is cut off shows what it has measured
    print(f"\n| ms a step | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in networks(degree, delta):
        print(f"| {name} | {' | '.join(column[name] for column in columns.values())} |")


def molecules(path: str) -> list[Data]:
    """ZINC molecules with the field of their first eigenvector."""
    packed = add_directions(load_benchmark("zinc", path).graphs, k=1)
    return [as_data(packed[i]) for i in range(GRAPHS)]


def as_data(one: Data) -> Data:
    categories = {"x": one.x.flatten().long(), "edge_attr": one.edge_attr.flatten().long()}
    return Data(edge_index=one.edge_index, edge_field=one["edge_field"], **categories)


def batches(graphs: Sequence[Data], size: int, device: torch.device) -> list[tuple[Any, ...]]:
    """Batches on the device, as a loader with pinned memory would have them there."""
    parts = [Batch.from_data_list(list(graphs[i : i + size])) for i in range(0, len(graphs), size)]
    moved = [part.to(device) for part in parts]
    return [(b.x, b.edge_index, b.edge_attr, b.edge_field, b.batch, b.num_graphs) for b in moved]


def measure(
    all_inputs: list[tuple[Any, ...]],
    makers: dict[str, Callable[[], Network]],
    device: torch.device,
    compiled: bool,
    steps: int,
) -> dict[str, str]:
    """The median step of each network, or the error that stopped it."""
    medians = {}
    for name, make in makers.items():
        torch.manual_seed(0)
        torch._dynamo.reset()
        try:
            times = run(make().to(device), all_inputs, device, compiled, steps)
            medians[name] = f"{1000 * statistics.median(times):.2f}"
        except Exception as error:  # a row that fails is a result too
            medians[name] = f"{type(error).__name__}: {str(error)[:60]!r}"
    return medians


def run(
    network: Network, all_inputs: list[tuple[Any, ...]], device: torch.device, compiled: bool, steps: int
) -> list[float]:
    """Seconds of each step; every batch is a copy that no cache has seen."""
    model = torch.compile(network, dynamic=True) if compiled else network
    adam, times = torch.optim.Adam(network.parameters(), 1e-3), []
    for step in range(steps + 10):
        inputs = [part.clone() if isinstance(part, Tensor) else part for part in all_inputs[step % len(all_inputs)]]
        target = torch.zeros(inputs[-1], device=device)
        wait(device)
        start = time.perf_counter()
        adam.zero_grad()
        nn.functional.l1_loss(model(*inputs), target).backward()
        adam.step()
        wait(device)
        times.append(time.perf_counter() - start)
    return times[10:]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
