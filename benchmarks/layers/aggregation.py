"""Aggregation in one pass against PyG's scatters and the memory floor, as ratios measured in one run.

    python -m benchmarks.layers.aggregation [--device cuda|cpu] [--out FILE.json]

The mathematics is the same in every row: {mean, max, min, av1, dx1, dx2} of node features along two fields. The floor
is the time to read every input once and write every output once at the measured copy bandwidth.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import PNAConv
from torch_geometric.utils import scatter

import dgn
from benchmarks.timing import bandwidth, captured, measure, peak_memory, share
from dgn.aggregation import Messages, Weights, aggregate, make_plan

NAMES = ("mean", "max", "min", "av1", "dx1", "dx2")


def local_graph(nodes: int, degree: int, reach: int, device: str) -> Tensor:
    """Edges from random neighbours within ``reach`` (all nodes: no locality), in random order."""
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(nodes).repeat_interleave(degree)
    source = (target + torch.randint(1, reach, target.shape, generator=generator)) % nodes
    shuffled = torch.randperm(len(target), generator=generator)
    return torch.stack([source, target])[:, shuffled].to(device)


def scatters(x: Tensor, edge_index: Tensor, field: Tensor) -> Tensor:
    """The same mathematics by PyG's scatters; ``field`` is normalized already."""
    source, target = edge_index
    n, neighbors = x.size(0), x[source]
    outputs = [scatter(neighbors, target, 0, n, reduce) for reduce in ("mean", "max", "min")]
    outputs.append(scatter(neighbors * field[:, :1].abs(), target, 0, n, "sum"))
    for k in range(2):
        weighted = scatter(neighbors * field[:, k : k + 1], target, 0, n, "sum")
        total = scatter(field[:, k], target, 0, n, "sum")
        outputs.append((weighted - total[:, None] * x).abs())
    return torch.stack(outputs, dim=1)


def training(function: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> Callable[[], None]:
    def step() -> None:
        leaf = x.detach().requires_grad_()
        function(leaf).backward(grad)

    return step


def floor_ms(x: Tensor, out: Tensor, weights: Weights, graph: dgn.Graph, rate: float) -> float:
    layout = graph.by_target
    read = x.nbytes + weights.edge.nbytes + weights.self.nbytes + layout.pointer.nbytes + layout.neighbor.nbytes
    return 1e3 * (read + out.nbytes) / rate


def compare(device: str, nodes: int, degree: int, channels: int, reach: int, rate: float) -> dict[str, float]:
    """Milliseconds, MiB and ratios for one size."""
    edge_index = local_graph(nodes, degree, reach, device)
    graph, plan = dgn.as_graph(edge_index, nodes), make_plan(NAMES)
    generator = torch.Generator().manual_seed(1)
    field = dgn.normalize(torch.randn(edge_index.size(1), 2, generator=generator).to(device), graph)
    x = torch.randn(nodes, channels, generator=generator).to(device)
    weights = plan.compute_weights(field, graph)
    graph.target_to_source  # noqa: B018 -- made before the clock starts, as it is once per graph

    def ours(leaf: Tensor) -> Tensor:
        return aggregate(plan, Messages(source=leaf), weights, graph)

    def theirs(leaf: Tensor) -> Tensor:
        return scatters(leaf, edge_index, field)

    torch._dynamo.reset()
    functions = (ours, theirs, torch.compile(theirs, dynamic=False))
    with torch.no_grad():
        out = ours(x)
        torch.testing.assert_close(out, theirs(x), rtol=1e-4, atol=1e-4)
        forward = measure([lambda f=f: f(x) for f in functions], device)
    grad = torch.randn(out.shape, device=device)
    steps = [training(f, x, grad) for f in functions]
    both = measure(steps, device)
    memory = [peak_memory(step, device) for step in steps[:2]]
    floor = floor_ms(x, out, weights, graph, rate)
    return {
        "nodes": nodes, "degree": degree, "channels": channels, "reach": reach,
        "forward ms": forward[0], "forward / floor": forward[0] / floor, "forward vs PyG": forward[1] / forward[0],
        "forward vs compiled": forward[2] / forward[0], "both ms": both[0], "both vs PyG": both[1] / both[0],
        "both vs compiled": both[2] / both[0], "memory vs PyG": share(memory),
    }  # fmt: skip


class ScatterLayer(torch.nn.Module):
    """A complex layer with mean, av1, dx1 and three scalers by PyG's scatters, with the parameters of ours."""

    def __init__(self, conv: dgn.nn.DGNConv, field: Tensor, edge_index: Tensor) -> None:
        super().__init__()
        self.conv, self.field, self.edge_index = conv, field, edge_index
        degree = torch.bincount(edge_index[1]).clamp(min=1)
        amplification = torch.log(degree + 1.0)[:, None] / conv.delta
        self.scales = [torch.ones_like(amplification), amplification, 1 / amplification]

    def forward(self, x: Tensor) -> Tensor:
        source, target = self.edge_index
        n = x.size(0)
        pair = torch.cat([x[source], x[target]], dim=1)
        m = torch.nn.functional.linear(pair, self.conv.message.weight[0], self.conv.message.bias[0])
        change = scatter(m * self.field, target, 0, n, "sum") - scatter(self.field, target, 0, n, "sum") * x
        aggregated = [
            scatter(m, target, 0, n, "mean"),
            scatter(m * self.field.abs(), target, 0, n, "sum"),
            change.abs(),
        ]
        aggregated = torch.cat(aggregated, dim=1)
        features = torch.cat([x, *(scale * aggregated for scale in self.scales)], dim=1)
        return torch.nn.functional.linear(features, self.conv.update.weight[0], self.conv.update.bias[0])


def pattern_layer(device: str) -> dict[str, float]:
    """One layer on a batch like PATTERN's: 128 graphs, 15k nodes, 770k edges, 47 channels."""
    nodes, degree, channels = (15_104, 51, 47)
    edge_index = local_graph(nodes, degree, 118, device)
    graph = dgn.as_graph(edge_index, nodes)
    names, scalers = ["mean", "av1", "dx1"], ["identity", "amplification", "attenuation"]
    field = dgn.normalize(torch.randn(edge_index.size(1), 1).to(device), graph)
    ours = dgn.nn.DGNConv(channels, channels, names, scalers, 4.0, "complex", dx_reference="node").to(device)
    theirs = ScatterLayer(ours, field, edge_index)
    weights = ours.plan.compute_weights(field, graph)
    x, grad = (torch.randn(nodes, channels, device=device) for _ in range(2))
    torch.testing.assert_close(ours(x, graph, weights=weights), theirs(x), rtol=1e-3, atol=1e-3)
    torch._dynamo.reset()
    functions = (lambda leaf: ours(leaf, graph, weights=weights), theirs, torch.compile(theirs, dynamic=False))
    steps = [training(function, x, grad) for function in functions]
    both = measure(steps, device)
    memory = [peak_memory(step, device) for step in steps[:2]]
    replay = measure([captured(steps[0])], device)[0] if device == "cuda" else float("nan")
    return {
        "nodes": nodes, "edges": edge_index.size(1), "channels": channels, "both ms": both[0],
        "both vs PyG": both[1] / both[0], "both vs compiled": both[2] / both[0], "captured ms": replay,
        "captured vs PyG": both[1] / replay,
        "memory vs PyG": share(memory),
    }  # fmt: skip


def isotropic(device: str, nodes: int, degree: int, channels: int, towers: int = 1) -> dict[str, float]:
    """A layer with mean, max, min, std and three scalers against PyG's PNAConv; towers divide the channels."""
    edge_index = local_graph(nodes, degree, 1000, device)
    names, scalers = ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"]
    degrees, divided = torch.bincount(torch.full((nodes,), degree)), towers > 1
    theirs = PNAConv(channels, channels, names, scalers, degrees, towers=towers, divide_input=divided).to(device)
    ours = dgn.nn.DGNConv(channels, channels, names, scalers, 2.5, "complex", towers=towers).to(device)
    x = torch.randn(nodes, channels, device=device)
    graph = dgn.as_graph(edge_index, nodes)
    grad = torch.randn(nodes, channels, device=device)
    with torch.no_grad():
        forward = measure([lambda: ours(x, graph), lambda: theirs(x, edge_index)], device)
    steps = training(lambda leaf: ours(leaf, graph), x, grad), training(lambda leaf: theirs(leaf, edge_index), x, grad)
    both = measure(steps, device)
    memory = [peak_memory(step, device) for step in steps]
    return {
        "nodes": nodes, "channels": channels, "towers": towers, "forward vs PNAConv": forward[1] / forward[0],
        "both vs PNAConv": both[1] / both[0], "memory vs PNAConv": share(memory),
    }  # fmt: skip


def table(rows: list[dict[str, float]]) -> str:
    header = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    return "\n".join([header, *("| " + " | ".join(f"{value:.4g}" for value in row.values()) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--out", type=Path, help="also write the numbers to this JSON file")
    arguments = parser.parse_args()
    device = arguments.device
    rate = bandwidth(device)
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}, torch {torch.__version__}, "
          f"copy {rate / 1e9:.0f} GB/s")  # fmt: skip
    sizes = [(200_000, 12, 128, 1000), (200_000, 12, 128, 200_000), (20_000, 12, 64, 1000)]
    rows = [compare(device, *size, rate) for size in (sizes if device == "cuda" else sizes[2:])]
    print(table(rows))
    size = (200_000, 12, 128) if device == "cuda" else (20_000, 12, 64)
    layers = [isotropic(device, *size, towers) for towers in (1, 4)]
    print(table(layers))
    pattern = pattern_layer(device)
    print(table([pattern]))
    if arguments.out:
        report = {"device": device, "copy bytes/s": rate, "rows": [*rows, *layers, pattern]}
        arguments.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
