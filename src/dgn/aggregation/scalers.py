"""Degree scalers (eq. 11)."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import HAS_TRITON, check_option

SCALERS = ("identity", "amplification", "attenuation")


class ScalerKey(NamedTuple):
    """The key under which a graph keeps its degree scalers."""

    scalers: tuple[str, ...]
    delta: float
    dtype: torch.dtype


def degree_scalers(degree: Tensor, scalers: Sequence[str], delta: float, dtype: torch.dtype) -> Tensor:
    r"""The scalers of each node: :math:`S(d, \alpha) = (\log(d + 1) / \delta)^\alpha`.

    :math:`\alpha` is 0, 1 and -1 for ``identity``, ``amplification`` and ``attenuation``. A node without in-edges
    aggregates to 0; its attenuation is set to 1 so that it stays finite.

    Shapes:
        ``degree`` [N]; returns [N, len(scalers)].

    >>> degree_scalers(torch.tensor([0, 1]), ["amplification", "attenuation"], 0.6931, torch.float32).round().tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    for scaler in set(scalers) - set(SCALERS):
        check_option("scaler", scaler, SCALERS)
    amplification = torch.log(degree.to(dtype) + 1) / delta
    attenuation = torch.where(degree > 0, 1 / torch.where(degree > 0, amplification, 1.0), 1.0)
    by_name = {"identity": torch.ones_like(amplification), "amplification": amplification, "attenuation": attenuation}
    return torch.stack([by_name[scaler] for scaler in scalers], dim=1)


def graph_scalers(graph: Graph, key: ScalerKey) -> Tensor:
    """:func:`degree_scalers` of the in-degrees of a graph, made once; on a GPU by one kernel."""

    def make() -> Tensor:
        pointer = graph.by_target.pointer
        if not (pointer.is_cuda and HAS_TRITON and key.dtype == torch.float32 and graph.num_nodes):
            return degree_scalers(graph.in_degree, *key)
        from dgn.kernels.triton import field_weights

        return field_weights.degree_scalers(pointer, tuple(map(SCALERS.index, key.scalers)), key.delta)

    return graph.cached(key, make)


def average_log_degree(dataset: Iterable[Any]) -> float:
    r"""The mean of :math:`\log(d + 1)` over all nodes of a training set: the :math:`\delta` of the scalers.

    ``dataset`` yields graphs with ``edge_index`` and ``num_nodes``: PyG ``Data`` or batches of them, as a PyG dataset
    or a loader does. One graph or packed graphs are accepted too.

    >>> from torch_geometric.data import Data
    >>> round(average_log_degree([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)]), 4)
    0.3466
    """
    # A PyG dataset has an edge_index too, of all its graphs at once.
    many = isinstance(dataset, torch.utils.data.Dataset) or not hasattr(dataset, "edge_index")
    graphs: Iterable[Any] = dataset if many else [dataset]
    degrees = [as_graph(data).in_degree for data in graphs]
    return mean_log_degree(torch.cat(degrees) if degrees else torch.empty(0))


def mean_log_degree(degree: Tensor) -> float:
    r"""The mean of :math:`\log(d + 1)` over nodes of these degrees.

    >>> round(mean_log_degree(torch.tensor([0, 1])), 4)
    0.3466
    """
    if not len(degree):
        raise ValueError("dataset: expected at least one node, got none; pass the training graphs")
    return float(torch.log(degree.double() + 1).mean())
