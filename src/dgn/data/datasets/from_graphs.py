"""Graphs of one's own as a benchmark: what a network must know of them is read off their values."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.data.datasets.paths import read_source
from dgn.data.packed import PackedGraphs
from dgn.data.splits import SHARES
from dgn.graph.checks import check_option

METRICS = {  # by default
    "regression": "mae",
    "classification": "accuracy",
    "node-classification": "balanced-accuracy",
    "multi-label": "roc-auc",
}


def benchmark_from_graphs(
    graphs: PackedGraphs | Iterable[Any], objective: str, metric: str | None = None, seed: int = 0
) -> Benchmark:
    """Packed graphs, or PyG ``Data``, with inputs ``x`` (and ``edge_attr``) and targets ``y``, ready to be trained on.

    ``objective`` is "regression", "classification", "node-classification" or "multi-label"; NaN is a missing target,
    and so is a negative class. Whole numbers in ``x`` and ``edge_attr`` are categories, others are numbers. Without
    ``split`` (0 training, 1 validation, 2 test, for each graph), 80, 10 and 10 percent are drawn with ``seed``. Saved
    with ``benchmark.graphs.save("mine.safetensors")``, the file tells the objective and the metric too. A
    ``field`` that the graphs have is what a network reads; without one, eigenvectors are computed where needed.

    >>> from torch_geometric.data import Data
    >>> ends = torch.tensor([[0, 1], [1, 0]])
    >>> graphs = [Data(x=torch.rand(2, 3), edge_index=ends, y=float(i)) for i in range(10)]
    >>> mine = benchmark_from_graphs(graphs, "regression")
    >>> mine.metric, mine.num_targets, mine.graphs.graphs["split"].bincount().tolist()
    ('mae', 1, [8, 1, 1])
    """
    check_option("objective", objective, tuple(METRICS))
    packed = graphs if isinstance(graphs, PackedGraphs) else PackedGraphs.from_data(graphs)
    kind = "nodes" if objective.startswith("node") else "graphs"
    for name, place in (("x", "nodes"), ("y", kind)):
        if name not in getattr(packed, place):
            raise ValueError(f"{name}: expected values of {place}, got {packed}; give every graph some")
    packed = as_2d_features(_with_split(packed, seed))
    y, values = getattr(packed, kind)["y"], {"x": packed.nodes["x"], "edge_attr": packed.edges.get("edge_attr")}
    sizes = {name: None if value is None else _sizes(name, value) for name, value in values.items()}
    chosen = metric or METRICS[objective]
    info = {**packed.info, "objective": objective, "metric": chosen}
    outputs, given = _targets(y, objective), "field" in packed.edges
    return Benchmark(
        "own", replace(packed, info=info), objective, chosen, outputs, sizes["x"], sizes["edge_attr"], given
    )


def load_packed_benchmark(path: str | Path | None) -> Benchmark:
    """The benchmark in a file that :func:`benchmark_from_graphs` prepared and ``graphs.save`` wrote."""
    if path is None:
        raise ValueError("data.path: expected the file of your own graphs, got none; give --data mine.safetensors")
    if Path(path).exists() and (Path(path).is_dir() or Path(path).suffix not in (".safetensors", ".npz")):
        found = "a folder" if Path(path).is_dir() else f"{Path(path).suffix or 'no suffix'}"
        raise ValueError(
            f"{path}: expected a file of packed graphs, .safetensors or .npz, got {found}; "
            "dgn.data.benchmark_from_graphs(graphs, objective).graphs.save makes one"
        )
    graphs = read_source(Path(path))
    if "objective" not in graphs.info:
        raise ValueError(
            f"{path}: expected a file that tells its objective, got one without; save the graphs of "
            "dgn.data.benchmark_from_graphs(graphs, objective)"
        )
    return benchmark_from_graphs(graphs, graphs.info["objective"], graphs.info["metric"])


def _with_split(graphs: PackedGraphs, seed: int) -> PackedGraphs:
    if "split" not in graphs.graphs:
        order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
        held_out = [max(1, round(share * len(graphs))) for share in SHARES[1:]]
        split = torch.zeros(len(graphs), dtype=torch.uint8)
        split[order[: held_out[0]]] = 1
        split[order[held_out[0] : sum(held_out)]] = 2
        graphs = graphs.with_values(graphs={"split": split})
    found = sorted(set(graphs.graphs["split"].flatten().tolist()))
    if found != [0, 1, 2]:
        raise ValueError(
            f"split: expected graphs for training (0), validation (1) and test (2), got {found} for {len(graphs)} "
            "graphs; give more graphs, or a number to each"
        )
    return graphs


def as_2d_features(graphs: PackedGraphs) -> PackedGraphs:
    """The graphs with a column for each number of a node or an edge, all of them finite."""
    tables: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}}
    for place, name in (("nodes", "x"), ("edges", "edge_attr"), ("edges", "field")):
        values = getattr(graphs, place).get(name)
        if values is not None and values.is_floating_point():
            if not bool(values.isfinite().all()):
                raise ValueError(f"{name}: expected numbers, got NaN or infinity; fill them in, or leave graphs out")
            tables[place][name] = values[:, None] if values.dim() == 1 else values
    return graphs.with_values(**tables)


def _sizes(name: str, values: Tensor) -> tuple[int, ...] | None:
    """The categories of each column of whole numbers."""
    if values.is_floating_point():
        return None
    columns = values.reshape(len(values), -1).long()
    if len(columns) and int(columns.min()) < 0:
        raise ValueError(
            f"{name}: expected categories from 0, got {int(columns.min())}; give numbers as float, or count from 0"
        )
    return tuple(int(column.max()) + 1 if len(column) else 1 for column in columns.T)


def _targets(y: Tensor, objective: str) -> int:
    """How many outputs a network needs; targets that do not fit the objective are refused."""
    if objective == "regression":
        return y.reshape(len(y), -1).size(1)
    known = y[~y.isnan()] if y.is_floating_point() else y.long()
    if not torch.equal(known, known.round()):
        raise ValueError(
            f"y: expected whole numbers for {objective}, got {float(known[known != known.round()][0]):g}; for numbers "
            "choose the objective regression"
        )
    if objective == "multi-label":
        if len(known) and int(known.max()) > 1:
            raise ValueError(f"y: expected 0, 1 or NaN for multi-label, got {int(known.max())}; choose classification")
        return y.reshape(len(y), -1).size(1)
    if y.numel() != len(y):
        raise ValueError(
            f"y: expected one class for each row for {objective}, got shape {list(y.shape)}; give the number of "
            "the class (y.argmax(dim=1) of columns of 0 and 1), or choose multi-label"
        )
    return max(1, int(known.max()) + 1) if len(known) else 1
