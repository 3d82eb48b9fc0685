"""Every error names its subject, the expected and the actual value, and the remedy."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import dgn
from dgn.data import PackedGraphs, add_directions
from dgn.graph.checks import check_finite, check_option

PATH = torch.tensor([[0, 1], [1, 2]])


def refusal(call: Callable[[], Any], error: type[Exception] = ValueError) -> str:
    """The message of the error, which must have the form ``subject: expected ..., got ...; remedy``."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert re.fullmatch(r"\w+: expected .+, got .+; .+", message), message
    return message


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "error", "got", "remedy"),
    [
        ([[0], [1]], 2, TypeError, "got list", "build it with torch.tensor"),
        (PATH[0], 3, ValueError, "got [2]", "row 0 holds the sources"),
        (PATH.new_zeros(3, 2), 3, ValueError, "got [3, 2]", "row 0 holds the sources"),
        (PATH.new_zeros(1, 2, 2), 3, ValueError, "got [1, 2, 2]", "row 0 holds the sources"),
        (PATH.float(), 3, TypeError, "got torch.float32", "edge_index.long()"),
        (PATH.bool(), 3, TypeError, "got torch.bool", "edge_index.long()"),
        (PATH.to(torch.complex64), 3, TypeError, "got torch.complex64", "edge_index.long()"),
        (PATH, 2, ValueError, "got edge 1 = (1, 2)", "remove the edge, or pass num_nodes="),
        (PATH - 1, 3, ValueError, "got edge 0 = (-1, 0)", "remove the edge, or pass num_nodes="),
        (PATH - 1, None, ValueError, "got edge 0 = (-1, 0)", "remove the edge, or pass num_nodes="),
        (PATH[:, :0], -1, ValueError, "got -1", "number of nodes"),
    ],
)
@pytest.mark.parametrize("function", [dgn.as_graph, dgn.laplacian, dgn.directions, dgn.heat_kernel])
def test_bad_edges_are_refused(
    function: Callable[..., Any],
    edge_index: Any,
    num_nodes: int | None,
    error: type[Exception],
    got: str,
    remedy: str,
) -> None:
    message = refusal(lambda: function(edge_index, num_nodes), error)
    assert message.startswith(("edge_index: ", "num_nodes: "))
    assert got in message
    assert remedy in message.split("; ")[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("weight", "got", "remedy"),
    [
        ([1.0, float("nan")], "got nan at index [1]", "torch.nan_to_num(edge_weight)"),
        ([float("inf"), 1.0], "got inf at index [0]", "torch.nan_to_num(edge_weight)"),
        ([1.0, -2.0], "got -2.0 at edge 1", "abs()"),
        ([1.0], "got shape [1]", "one row per edge"),
        ([1.0, 1.0, 1.0], "got shape [3]", "one row per edge"),
        ([[1.0], [1.0]], "got [2, 1]", "squeeze"),
    ],
)
@pytest.mark.parametrize("function", [dgn.laplacian, dgn.directions, dgn.heat_kernel, dgn.diffusion_distance])
def test_bad_weights_are_refused(
    function: Callable[..., Any], weight: list[Any], got: str, remedy: str, dtype: torch.dtype
) -> None:
    message = refusal(lambda: function(PATH, 3, edge_weight=torch.tensor(weight, dtype=dtype)))
    assert message.startswith("edge_weight: ")
    assert got in message
    assert remedy in message


@pytest.mark.parametrize(
    ("weight", "got", "remedy"),
    [
        ([1.0, 1.0], "got list", "convert it with torch.as_tensor"),
        (torch.tensor([1, 1]), "got torch.int64", "edge_weight.float()"),
    ],
)
def test_weights_that_are_not_a_floating_point_tensor_are_refused(weight: Any, got: str, remedy: str) -> None:
    message = refusal(lambda: dgn.laplacian(PATH, 3, edge_weight=weight), TypeError)
    assert message.startswith("edge_weight: ")
    assert got in message
    assert remedy in message


@pytest.mark.parametrize("size", [10, 400])
def test_a_weight_too_small_to_connect_a_component_is_refused(size: int) -> None:
    weight = torch.ones(size - 1, dtype=torch.float64)
    weight[size // 2] = 1e-30
    message = refusal(lambda: dgn.directions(torch.arange(size).unfold(0, 2, 1).t(), size, edge_weight=weight))
    assert message.startswith("edge_weight: ")
    assert "0 to rounding" in message
    assert "drop the edges of negligible weight" in message


@pytest.mark.parametrize("k", [0, -3])
def test_fewer_than_one_direction_is_refused(k: int) -> None:
    message = refusal(lambda: dgn.directions(PATH, 3, k=k))
    assert message.startswith("k: expected the number of directions, 1 or more")
    assert f"got {k};" in message


@pytest.mark.parametrize("function", [dgn.laplacian, dgn.directions])
@pytest.mark.parametrize(
    ("normalization", "remedy"), [("symm", "'sym'"), ("r", "'rw'"), ("none", "None"), (7, "choose one of those")]
)
def test_unknown_normalization_names_the_nearest(function: Callable[..., Any], normalization: Any, remedy: str) -> None:
    message = refusal(lambda: function(PATH, 3, normalization=normalization))
    assert message.startswith("normalization: expected one of None, 'rw', 'sym'")
    assert f"got {normalization!r};" in message
    expected = remedy if isinstance(normalization, int) else f"did you mean {remedy}?"
    assert message.endswith(expected)


def test_unknown_measure_names_the_nearest() -> None:
    message = refusal(lambda: dgn.diffusion_distance(PATH, 3, measure="degrees"))  # type: ignore[arg-type]
    assert message.startswith("measure: ")
    assert "got 'degrees'; did you mean 'degree'?" in message


@pytest.mark.parametrize(
    "batch", [torch.zeros(2, dtype=torch.long), torch.zeros(3), torch.tensor([0, -1, 0]), torch.zeros(3, 1).long()]
)
def test_a_bad_batch_is_refused(batch: torch.Tensor) -> None:
    message = refusal(lambda: dgn.as_graph(PATH, 3, batch=batch))
    assert message.startswith("batch: expected the graph number (0 or more) of each of 3 nodes")
    assert f"got {batch.dtype} of shape {list(batch.shape)}; PyG's Batch.batch" in message


@pytest.mark.parametrize("time", [-1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("function", [dgn.heat_kernel, dgn.diffusion_distance])
def test_bad_times_are_refused(function: Callable[..., Any], time: float) -> None:
    message = refusal(lambda: function(PATH, 3, time=time))
    assert message.startswith("time: expected a finite number of 0 or more")
    assert f"got {time};" in message


@pytest.mark.parametrize(
    ("potential", "error", "got"),
    [
        (torch.tensor([0.0, 1.0, float("nan")]), ValueError, "got nan at index [2]"),
        (torch.tensor([0, 1, 2]), TypeError, "got torch.int64"),
    ],
)
def test_a_bad_potential_is_refused(potential: torch.Tensor, error: type[Exception], got: str) -> None:
    message = refusal(lambda: dgn.gradient_step(potential, PATH), error)
    assert message.startswith("potential: ")
    assert got in message


def test_a_potential_of_another_graph_is_refused() -> None:
    message = refusal(lambda: dgn.gradient_step(torch.zeros(4), dgn.as_graph(PATH, 3)))
    assert message.startswith("potential: expected 3 rows, one per node, got shape [4]")


def test_the_index_of_a_value_that_is_not_finite_is_named() -> None:
    assert "got inf at index [1, 0]" in refusal(lambda: check_finite("x", torch.tensor([[0.0], [torch.inf]])))


def test_valid_input_is_accepted() -> None:
    check_option("normalization", None, (None, "rw"))
    check_finite("x", torch.empty(0))
    assert dgn.laplacian(PATH, 3, edge_weight=torch.zeros(2)).to_dense().abs().sum() == 0


@pytest.mark.parametrize("node", [2**31, 2**62, 2**63 - 1])
def test_an_absurd_node_is_refused_before_memory_is_taken(node: int) -> None:
    edge_index = torch.tensor([[0, node], [1, 0]])
    message = f"edge_index: expected nodes numbered from 0, got node {node} in a graph of 2 edges"
    assert message in refusal(lambda: dgn.as_graph(edge_index))
    assert message in refusal(lambda: dgn.directions(edge_index))
    assert message in refusal(lambda: dgn.directions(Data(edge_index=edge_index, num_nodes=node + 1)))
    assert message in refusal(lambda: PackedGraphs.from_data([Data(edge_index=edge_index, num_nodes=node + 1)]))
    assert dgn.as_graph(torch.tensor([[0], [2**24]]), 2**24 + 1).num_nodes == 2**24 + 1  # stated


def test_a_huge_k_is_refused_at_once() -> None:
    message = refusal(lambda: dgn.directions(PATH, k=10**12))
    assert message.startswith("k: expected at most 1000 directions for graphs of 3 nodes, got 1000000000000")
    assert dgn.directions(PATH, k=20).potential.shape == (3, 20)
    packed = PackedGraphs.pack([(PATH, 3)])
    assert "k: expected at most 1000" in refusal(lambda: add_directions(packed, k=10**12))
