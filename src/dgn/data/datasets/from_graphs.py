"""A benchmark from arbitrary graphs: categories, widths and targets are inferred from their tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dgn.data.benchmark import GRAPH_ATTR, Benchmark
from dgn.data.io.sources import PACKED, TABLE, load_graphs
from dgn.data.packed import PackedGraphs
from dgn.data.splits import SHARES
from dgn.graph.checks import check_option
from dgn.graph.columns import as_columns

if TYPE_CHECKING:
    from torch_geometric.data import Data

MASKS = ("train_mask", "val_mask", "test_mask")  # of the nodes of a graph, as PyG calls them
METRICS = {  # by default
    "regression": "mae",
    "classification": "accuracy",
    "node-regression": "mae",
    "node-classification": "balanced-accuracy",
    "multi-label": "roc-auc",
}


def benchmark_from_graphs(
    graphs: "PackedGraphs | Data | Iterable[Data]", objective: str, metric: str | None = None, seed: int = 0
) -> Benchmark:
    """A benchmark from packed graphs or PyG ``Data`` with features ``x`` (and ``edge_attr``) and targets ``y``.

    ``objective`` is "regression", "classification", "multi-label", "node-regression" or "node-classification"; NaN and
    negative classes are missing targets. Integers in ``x`` and ``edge_attr`` are categories, floats are continuous
    features. Without ``split`` (0 training, 1 validation, 2 test, per graph), a random split of 80, 10 and 10 percent
    is drawn with ``seed``. For nodes, the masks ``train_mask``, ``val_mask`` and ``test_mask`` split the nodes of each
    graph instead, of one graph too; so does a random split of the nodes of a single graph.
    ``benchmark.graphs.save("mine.safetensors")``, ``.npz`` or ``.parquet`` stores objective and metric too. If the
    graphs have an ``edge_field``, the network uses it; otherwise eigenvectors are computed where needed.

    >>> from torch_geometric.data import Data
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> graphs = [Data(x=torch.rand(2, 3), edge_index=edge_index, y=float(i)) for i in range(10)]
    >>> mine = benchmark_from_graphs(graphs, "regression")
    >>> mine.metric, mine.num_targets, mine.graphs.graphs["split"].bincount().tolist()
    ('mae', 1, [8, 1, 1])
    """
    check_option("objective", objective, tuple(METRICS))
    if isinstance(graphs, PackedGraphs):
        packed = graphs
    else:
        packed = PackedGraphs.from_data([graphs] if hasattr(graphs, "edge_index") else graphs)
    level = "nodes" if objective.startswith("node") else "graphs"
    for name, table in (("x", "nodes"), ("y", level)):
        if name not in getattr(packed, table):
            raise ValueError(f"{name}: expected a tensor with one row per {table[:-1]}, got {packed}; add it")
    _refuse_old_names(packed)
    packed = as_2d_features(_with_split(packed, level, seed))
    y, edge_attr = getattr(packed, level)["y"], packed.edges.get("edge_attr")
    metric = metric or METRICS[objective]
    return Benchmark(
        "own",
        replace(packed, info={**packed.info, "objective": objective, "metric": metric}),
        objective,
        metric,
        num_targets=_num_targets(y, objective),
        node_categories=_categories("x", packed.nodes["x"]),
        edge_categories=None if edge_attr is None else _categories("edge_attr", edge_attr),
        coordinates="edge_field" in packed.edges,
    )


def _refuse_old_names(graphs: PackedGraphs) -> None:
    """Refuse directions under the names of earlier versions, which would not be read."""
    for values, old, new in ((graphs.edges, "field", "edge_field"), (graphs.nodes, "potential", "node_potential")):
        if old in values and new not in values:
            raise ValueError(
                f"{old}: expected {new}, got {old}, which was renamed to {new}; rename it, or delete it if it is "
                "something else"
            )


def load_packed_benchmark(path: str | Path | None) -> Benchmark:
    """The benchmark of :func:`benchmark_from_graphs` from the file that ``graphs.save`` wrote."""
    if path is None:
        raise ValueError("data.path: expected the file of your graphs, got none; give --data mine.safetensors")
    if Path(path).exists() and (Path(path).is_dir() or Path(path).suffix not in (*PACKED, TABLE)):
        kind = "a folder" if Path(path).is_dir() else f"{Path(path).suffix or 'no suffix'}"
        raise ValueError(
            f"{path}: expected a file of packed graphs, .safetensors, .npz or .parquet, got {kind}; "
            "dgn.data.benchmark_from_graphs(graphs, objective).graphs.save writes one"
        )
    graphs = load_graphs(Path(path))
    if "objective" not in graphs.info:
        raise ValueError(
            f"{path}: expected a file with an objective, got one without; save the graphs of "
            "dgn.data.benchmark_from_graphs(graphs, objective)"
        )
    return benchmark_from_graphs(graphs, graphs.info["objective"], graphs.info["metric"])


def _with_split(graphs: PackedGraphs, level: str, seed: int) -> PackedGraphs:
    """The graphs with a split: their own, that of the masks of their nodes, or a random one."""
    masks = [name for name in MASKS if name in graphs.nodes]
    if level == "nodes" and masks:
        return _split_by_masks(graphs, masks)
    if level == "nodes" and (len(graphs) == 1 or "split" in graphs.nodes):
        split = graphs.nodes["split"] if "split" in graphs.nodes else _draw_split(graphs.num_nodes, seed)
        _check_split(split, "nodes")
        return graphs.with_values(nodes={"split": split})
    split = graphs.graphs["split"] if "split" in graphs.graphs else _draw_split(len(graphs), seed)
    _check_split(split, "graphs")
    return graphs.with_values(graphs={"split": split})


def _draw_split(count: int, seed: int) -> Tensor:
    """A random split of 80, 10 and 10 percent."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held_out = [max(1, round(share * count)) for share in SHARES[1:]]
    split = torch.zeros(count, dtype=torch.uint8)
    split[order[: held_out[0]]] = 1
    split[order[held_out[0] : sum(held_out)]] = 2
    return split


def _split_by_masks(graphs: PackedGraphs, names: Sequence[str]) -> PackedGraphs:
    """The graphs with ``nodes["split"]`` in place of the masks: 0, 1 and 2, and 3 for nodes of no mask."""
    if len(names) < len(MASKS):
        raise ValueError(f"{MASKS[0]}: expected {', '.join(MASKS)}, got {', '.join(names)} alone; give all three")
    masks = [graphs.nodes[name] for name in MASKS]
    for name, mask in zip(MASKS, masks, strict=True):
        if mask.dtype != torch.bool or mask.dim() != 1:
            raise ValueError(
                f"{name}: expected one boolean for each node, got {mask.dtype} of shape {list(mask.shape)}; of several "
                f"splits choose one, as data.{name}[:, 0]"
            )
    if int(torch.stack(masks).sum(dim=0).max()) > 1:
        raise ValueError(f"{MASKS[0]}: expected masks that do not overlap, got nodes of several splits; remove them")
    split = torch.full_like(masks[0], 3, dtype=torch.uint8)
    for number, mask in enumerate(masks):
        split[mask] = number
    _check_split(split, "nodes")
    nodes = {name: value for name, value in graphs.nodes.items() if name not in MASKS}
    return replace(graphs, nodes={**nodes, "split": split})


def _check_split(split: Tensor, counted: str) -> None:
    """Require all three splits, and nothing else; 3 for nodes of none."""
    labels = sorted(set(split.flatten().tolist()))
    if labels != [0, 1, 2] and (counted == "graphs" or labels != [0, 1, 2, 3]):
        raise ValueError(
            f"split: expected {counted} for training (0), validation (1) and test (2), got {labels} for {len(split)} "
            f"{counted}; give more {counted}, or a split"
        )


def as_2d_features(graphs: PackedGraphs) -> PackedGraphs:
    """The graphs with continuous features and fields in two dimensions; NaN and infinity are refused."""
    features = graphs.graphs.get(GRAPH_ATTR)  # NaN is a missing one
    of_graphs = {} if features is None else {GRAPH_ATTR: as_columns(features).float()}
    tables: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": of_graphs}
    for level, name in (("nodes", "x"), ("edges", "edge_attr"), ("edges", "edge_field")):
        values = getattr(graphs, level).get(name)
        if values is not None and values.is_floating_point():
            if not bool(values.isfinite().all()):
                raise ValueError(
                    f"{name}: expected finite numbers, got NaN or infinity; impute them, or drop the graphs"
                )
            tables[level][name] = values[:, None] if values.dim() == 1 else values
    return graphs.with_values(**tables)


def _categories(name: str, values: Tensor) -> tuple[int, ...] | None:
    """The number of categories of each integer column; None for floats."""
    if values.is_floating_point():
        return None
    columns = values.reshape(len(values), -1).long()
    if len(columns) and int(columns.min()) < 0:
        raise ValueError(
            f"{name}: expected categories from 0, got {int(columns.min())}; give continuous features as float, or "
            "count from 0"
        )
    return tuple(int(column.max()) + 1 if len(column) else 1 for column in columns.T)


def _num_targets(y: Tensor, objective: str) -> int:
    """The number of outputs of a network; targets that do not fit the objective are refused."""
    if objective.endswith("regression"):
        return y.reshape(len(y), -1).size(1)
    labels = y[~y.isnan()] if y.is_floating_point() else y.long()
    if not torch.equal(labels, labels.round()):
        raise ValueError(
            f"y: expected integer labels for {objective}, got {float(labels[labels != labels.round()][0]):g}; for "
            "continuous targets choose the objective regression"
        )
    if objective == "multi-label":
        if len(labels) and int(labels.max()) > 1:
            raise ValueError(f"y: expected 0, 1 or NaN for multi-label, got {int(labels.max())}; choose classification")
        return y.reshape(len(y), -1).size(1)
    if y.numel() != len(y):
        raise ValueError(
            f"y: expected one class index per row for {objective}, got shape {list(y.shape)}; give y.argmax(dim=1) "
            "of one-hot labels, or choose multi-label"
        )
    return max(1, int(labels.max()) + 1) if len(labels) else 1
