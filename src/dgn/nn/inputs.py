"""What PyG users pass to layers and networks, checked."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex

from dgn.aggregation import SCALERS
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_option
from dgn.graph.memo import remember_with


def read_bipartite(edge_index: Any, num_sources: int, num_targets: int) -> Graph:
    """Sources and targets are two sets of nodes: the targets first, then the sources, in one graph."""

    def make() -> Graph:
        edges = as_graph(edge_index, max(num_sources, num_targets)).edge_index
        for name, nodes, count in (("sources", edges[0], num_sources), ("targets", edges[1], num_targets)):
            if not torch.compiler.is_compiling() and nodes.numel():
                _check_below(count, name, nodes)
        return as_graph(torch.stack([edges[0] + num_targets, edges[1]]), num_sources + num_targets)

    if not isinstance(edge_index, Tensor):
        return make()
    return remember_with(edge_index, (Graph, num_sources, num_targets), make)


def _check_below(count: int, name: str, nodes: Tensor) -> None:
    """Refuse nodes of ``count`` or more; on a GPU the host does not wait for the answer."""
    expected, remedy = f"edge_index: expected {name} below {count}, as x has", "row 0 holds sources and row 1 targets"
    if nodes.is_cuda:
        torch._assert_async((nodes < count).all(), f"{expected}; {remedy}")
    elif int(nodes.max()) >= count:
        raise ValueError(f"{expected}, got {int(nodes.max())}; {remedy}")


def refuse_positional(module: str, positional: tuple[object, ...]) -> NoReturn:
    """Refuse a third positional argument: other layers of PyG take edge features or weights there."""
    came = [list(value.shape) if isinstance(value, Tensor) else type(value).__name__ for value in positional]
    raise TypeError(
        f"{module}: expected x and edge_index by position and all else by keyword, got {len(positional)} more by "
        f"position, {', '.join(map(str, came))}; write edge_field= for a field and edge_attr= for edge features"
    )


def refuse_beside_data(module: str, beside: dict[str, object]) -> None:
    """Refuse inputs beside a ``Data``, which is read instead of them."""
    names = [name for name, value in beside.items() if value is not None]
    if names:
        raise TypeError(
            f"{module}: expected a Data alone, got {', '.join(names)} beside it; set data.{names[0]}, or pass "
            "data.x, data.edge_index and all else by keyword"
        )


def refuse_weights(weights: object) -> None:
    """Refuse weights of a bipartite call: its graph, to which they would belong, is made in the call."""
    if weights is not None:
        raise ValueError("weights: expected None with (sources, targets), got some; pass edge_field= instead")


def infer_widths(widths: tuple[int, int], x: Tensor | Sequence[Tensor | None]) -> tuple[int, int]:
    """The widths of sources and targets, those of -1 taken from the first input.

    >>> infer_widths((-1, 4), (torch.ones(2, 3), None)), infer_widths((-1, -1), torch.ones(2, 3))
    ((3, 4), (3, 3))
    """
    source, target = (x, x) if isinstance(x, Tensor) else x
    assert source is not None
    inferred = source.size(-1), source.size(-1) if target is None else target.size(-1)
    return tuple(new if width == -1 else width for width, new in zip(widths, inferred, strict=True))  # type: ignore[return-value]


def count_targets(edge_index: Any, size: tuple[int, int] | None) -> int:
    """The number of targets of a bipartite graph: as stated, or one more than the highest that has an edge."""
    if size is not None:
        return size[1]
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.sparse_csr:
        return edge_index.size(0)
    stated: int | None = edge_index.sparse_size(1) if isinstance(edge_index, EdgeIndex) else None
    edges = edge_index if isinstance(edge_index, Tensor) else as_graph(edge_index).edge_index
    return stated if stated is not None else int(edges[1].max()) + 1 if edges.numel() else 0


def check_arguments(in_channels: int, out_channels: int, message: object, edge_dim: int | None, towers: int) -> None:
    """Refuse what makes no convolution."""
    if in_channels < 1 or out_channels < 1:
        raise ValueError(
            f"in_channels, out_channels: expected 1 or more, got {in_channels} and {out_channels}; in_channels "
            "may also be -1, the width of the first input"
        )
    if not isinstance(message, nn.Module) and message != "module":
        check_option("message", message, ("simple", "complex"))
    if edge_dim is not None and message == "simple":
        raise ValueError(f"edge_dim: expected None with message='simple', got {edge_dim}; use message='complex'")
    if towers < 1 or in_channels % towers or out_channels % towers:
        raise ValueError(
            f"towers: expected a divisor of in_channels={in_channels} and out_channels={out_channels}, got {towers}; "
            "choose widths that are multiples of it"
        )
    if towers > 1 and message != "complex":
        raise ValueError(f"towers: expected 1 with message={message!r}, got {towers}; use message='complex'")


def read_scalers(scalers: Sequence[str], delta: float | None) -> tuple[tuple[str, ...], float]:
    """The names of the degree scalers, and what they divide by: 1 where none was given and no scaler asks for one.

    Others have no good default: log(degree + 1) is 1.1 at a degree of 2 and 3.9 at one of 50.

    >>> read_scalers(["identity"], None), read_scalers(["identity", "amplification"], 1.1)
    ((('identity',), 1.0), (('identity', 'amplification'), 1.1))
    """
    if isinstance(scalers, str) or not scalers:
        raise ValueError(f"scalers: expected a list of one or more names, got {scalers!r}; ['identity'] is none")
    for scaler in scalers:
        check_option("scaler", scaler, SCALERS)
    if set(scalers) == {"identity"}:
        return tuple(scalers), 1.0 if delta is None else delta
    if delta is None or not delta > 0:
        raise ValueError(
            f"delta: expected a number above 0, the mean of log(degree + 1) over the training nodes, for the scalers "
            f"{', '.join(scalers)}, got {delta}; pass delta=dgn.average_log_degree(training_graphs)"
        )
    return tuple(scalers), delta
