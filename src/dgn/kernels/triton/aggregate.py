"""Launchers of the Triton aggregation kernels."""

from functools import cache
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from dgn.kernels.aggregation import Code, KernelArgs, SavedTensors, saved_outputs
from dgn.kernels.triton.aggregate_backward import gradient_of_messages
from dgn.kernels.triton.aggregate_forward import aggregate_nodes
from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.segment_sum import sum_segments
from dgn.kernels.triton.sizes import ceil_div, power_of_2

ACCUMULATORS = {torch.float32: tl.float32, torch.float64: tl.float64}

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]
Edges = tuple[Tensor, Tensor, Tensor]  # pointer, order and neighbor of edges sorted by target


def forward(call: KernelArgs, towers: int = 1, unused: Tensor | None = None) -> SavedTensors:
    """All outputs of the plan and the tensors saved for the backward pass, on CUDA or in Triton's interpreter.

    With several ``towers`` the C channels are split among them and outputs are laid out as [N, T, A, C / T], the
    operand of a batched matrix product. ``unused`` stands for what is not saved.
    """
    saved = SavedTensors(*call.empty_outputs(unused))
    unused, channels, nodes = call.pointer, saved.out.size(2), saved.out.size(0)
    if saved.out.numel():
        constants = _constants(call, towers)
        launch = _forward_kernel(constants, _block_e(call.neighbor.size(0), nodes), call.node is not None, call.save)
        tensors = (
            _or(call.source, unused), _or(call.target, unused), _or(call.table, unused), call.table_row,
            _or(call.number, unused), _or(call.node, unused), call.weight, call.self_weight, call.pointer,
            call.neighbor, *saved,
        )  # fmt: skip
        strides = _stride(call.source), _stride(call.target), _stride(call.node)
        launch((nodes, ceil_div(channels, constants.block_c)), tensors, channels, *strides)
    if towers == 1:
        return saved
    return saved._replace(out=saved.out.view(nodes, towers, len(call.codes), channels // towers))


def backward(
    call: KernelArgs,
    grad: Tensor,
    saved: SavedTensors,
    space: Gradients | None = None,
    extra: Tensor | None = None,
    towers: int = 1,
    number_grad: Tensor | None = None,
) -> Gradients:
    """Gradients of messages (in the order of ``call.gradient_order``), source, target and node.

    They are written to ``space``, if given; its source and target may have any row stride. ``extra`` is added to the
    gradient of the node. ``grad`` has the layout in which :func:`forward` with as many ``towers`` wrote the outputs.
    Where edges have features (``call.number``), ``number_grad`` [N, R, C] must be given: the contribution of each node
    to the gradient of R rows of the table.
    """
    assert (number_grad is None) == (call.number is None)
    space = call.empty_gradients() if space is None else space
    edge_grad, source_grad, target_grad, node_grad = space
    unused, constants, channels = call.pointer, _constants(call, towers), edge_grad.size(1)
    nodes, blocks = call.num_nodes, ceil_div(channels, constants.block_c)
    if grad.numel():
        launch = _backward_kernel(constants, _block_e(call.neighbor.size(0), nodes), extra is not None)
        tensors = (
            grad, saved.out, _or(call.source, unused), _or(call.target, unused), _or(call.table, unused),
            call.table_row, call.weight, call.self_weight, call.pointer, call.neighbor,
            call.gradient_order, *saved[1:], _or(call.number, unused),
            _or(extra, unused), edge_grad, target_grad, node_grad, _or(number_grad, unused),
        )  # fmt: skip
        strides = _stride(call.source), _stride(call.target), target_grad.stride(0)
        launch((nodes, blocks), tensors, channels, *strides)
    if source_grad.numel():
        sources, order, own = source_grad.size(0), call.source_order, node_grad if call.self_is_source else None
        has = order is not None, own is not None
        launch = _sum_kernel(constants.accumulator, constants.block_c, _block_e(call.neighbor.size(0), sources), *has)
        tensors = edge_grad, call.source_pointer, _or(order, unused), _or(own, unused), source_grad
        launch((sources, blocks), tensors, channels, source_grad.stride(0))
    return space


class Constants(NamedTuple):
    """What the kernels of an aggregation are compiled for, in both directions."""

    codes: tuple[int, ...]
    columns: tuple[int, ...]
    num_weights: int
    has_source: bool
    has_target: bool
    has_table: bool
    num_features: int
    has_self: bool
    width: int
    accumulator: torch.dtype
    block_c: int

    def named(self) -> dict[str, Any]:
        """By their names in the kernels."""
        return {
            "CODES": self.codes, "COLUMNS": self.columns, "A": len(self.codes), "W": self.num_weights,
            "WIDTH": self.width, "NUM_FEATURES": self.num_features,
            "NEED_VAR": Code.VAR in self.codes or Code.STD in self.codes, "NEED_MAX": Code.MAX in self.codes,
            "NEED_MIN": Code.MIN in self.codes, "HAS_SOURCE": self.has_source, "HAS_TARGET": self.has_target,
            "HAS_TABLE": self.has_table, "HAS_SELF": self.has_self, "ACC": ACCUMULATORS[self.accumulator],
            "BLOCK_C": self.block_c, "num_warps": 1,
        }  # fmt: skip


def _constants(call: KernelArgs, towers: int) -> Constants:
    example, features = call.example, 0 if call.number is None else call.number.size(1)
    channels = example.size(1)
    return Constants(
        tuple(call.codes), tuple(call.columns), call.weight.size(1), call.source is not None, call.target is not None,
        call.table is not None and features == 0, features, call.has_self, 0 if towers == 1 else channels // towers,
        _accumulator(example), _block_c(channels),
    )  # fmt: skip


@cache
def _forward_kernel(constants: Constants, block_e: int, has_node: bool, save: bool) -> Launcher:
    need_sum = Code.SUM in constants.codes or Code.MEAN in constants.codes
    return Launcher(
        aggregate_nodes, **constants.named(), NEED_SUM=need_sum, HAS_NODE=has_node, SAVE=save, BLOCK_E=block_e
    )


@cache
def _backward_kernel(constants: Constants, block_e: int, has_extra: bool) -> Launcher:
    return Launcher(gradient_of_messages, **constants.named(), HAS_EXTRA=has_extra, BLOCK_E=block_e)


@cache
def _sum_kernel(accumulator: torch.dtype, block_c: int, block_e: int, has_order: bool, has_extra: bool) -> Launcher:
    return Launcher(
        sum_segments, MEAN=False, HAS_ORDER=has_order, HAS_EXTRA=has_extra, ACC=ACCUMULATORS[accumulator],
        BLOCK_E=block_e, BLOCK_C=block_c, num_warps=1,
    )  # fmt: skip


def _accumulator(example: Tensor) -> torch.dtype:
    return torch.float64 if example.dtype == torch.float64 else torch.float32


def _block_c(channels: int) -> int:
    """Channels of a program: one warp per node and 128 channels."""
    return min(128, power_of_2(max(channels, 1)))


def _block_e(num_edges: int, num_nodes: int) -> int:
    """Edges at once, by the average degree."""
    degree = num_edges // max(num_nodes, 1)
    return 4 if degree <= 16 else 8 if degree <= 32 else 32


def _stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    """The tensor, or a valid pointer that the kernel does not read."""
    return unused if tensor is None else tensor


class SourceAggregation:
    """:func:`forward` and :func:`backward` of float32 messages :math:`m_{ij} = x_j`.

    The kernels and their constants follow from the plan, the number of channels and the average degree
    (:func:`aggregation_of_sources`). A call only allocates what they write and launches them: on a small batch the host
    takes longer for all else than for the launches.
    """

    def __init__(self, codes: tuple[int, ...], columns: tuple[int, ...], has_self: bool, widths: tuple[int, int, int]):
        channels, weights, block_e = widths
        block_c = _block_c(channels)
        constants = Constants(codes, columns, weights, True, False, False, 0, has_self, 0, torch.float32, block_c)
        self.channels, self.outputs, self.has_self = channels, len(codes), has_self
        self.saves, self.weights = saved_outputs(codes), weights
        self.blocks = ceil_div(channels, block_c)
        self.aggregate = _forward_kernel(constants, block_e, has_node=False, save=True)
        self.differentiate = _backward_kernel(constants, block_e, has_extra=False)
        self.sums = [_sum_kernel(torch.float32, block_c, block_e, has_order, has_self) for has_order in (False, True)]

    def forward(self, x: Tensor, weights: tuple[Tensor, Tensor], edges: Edges) -> SavedTensors:
        """The outputs [N, A, C] and what :meth:`backward` reads, the pointer in the place of what is not saved."""
        unused, order, neighbor = edges
        n, c = x.shape
        saved = SavedTensors(
            x.new_empty(n, self.outputs, c),
            x.new_empty(n, c, dtype=torch.int32) if self.saves.at_max else unused,
            x.new_empty(n, c, dtype=torch.int32) if self.saves.at_min else unused,
            x.new_empty(n, self.weights, c, dtype=torch.int8) if self.saves.sign else unused,
            x.new_empty(n, c) if self.saves.average else unused,
        )
        tensors = x, unused, unused, order, unused, unused, *weights, unused, neighbor, *saved
        self.aggregate((n, self.blocks), tensors, c, x.stride(0), 0, 0)
        return saved

    def backward(
        self,
        grad: Tensor,
        x: Tensor,
        weights: tuple[Tensor, Tensor],
        edges: Edges,
        source_pointer: Tensor,
        target_to_source: Tensor | None,
        source_order: Tensor | None,
        saved: SavedTensors,
    ) -> Tensor:
        """The gradient of ``x`` [N, C]; orders as in :class:`dgn.kernels.aggregation.KernelArgs`."""
        unused, order, neighbor = edges
        n, c = x.shape
        edge_grad, x_grad = x.new_empty(neighbor.size(0), c), torch.empty_like(x)
        own_grad = torch.empty_like(x) if self.has_self else unused
        place = order if target_to_source is None else target_to_source
        tensors = (
            grad, saved.out, x, unused, unused, order, *weights, unused, neighbor, place, *saved[1:], unused, unused,
            edge_grad, unused, own_grad, unused,
        )  # fmt: skip
        self.differentiate((n, self.blocks), tensors, c, x.stride(0), 0, 0)
        sum_of_sources = self.sums[source_order is not None]
        tensors = edge_grad, source_pointer, unused if source_order is None else source_order, own_grad, x_grad
        sum_of_sources((n, self.blocks), tensors, c, c)
        return x_grad


def aggregation_of_sources(
    codes: tuple[int, ...], columns: tuple[int, ...], has_self: bool, x: Tensor, weight: Tensor
) -> SourceAggregation:
    """The kernels for features like ``x`` [N, C] and weights like ``weight`` [E, W]."""
    edges, width = weight.shape
    return _prepared(codes, columns, has_self, (x.size(1), width, _block_e(edges, x.size(0))))


_prepared = cache(SourceAggregation)
