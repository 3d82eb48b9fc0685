"""Export to ONNX: the networks of a model, with eigenvectors and structural encodings as inputs.

ONNX has no eigensolver: what :meth:`TrainedModel.prepare` computes stays outside. Needs the extra ``onnx``.
"""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.io.atomic import atomic_file
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_package
from dgn.graph.columns import as_columns
from dgn.nn.conv import DGNConv
from dgn.training.model import TrainedModel

EXAMPLES, TOLERANCE = 100, 1e-4  # graphs that the exported file is checked on, and the difference that is accepted
OPSET = 18


class Predictor(nn.Module):
    """The predictions of a model as a function of tensors alone: the mean over its networks, as ``model.predict``."""

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.networks = nn.ModuleList(deepcopy(list(model.networks)))
        self.as_prediction = model.as_prediction

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, graph: Tensor, more: dict[str, Tensor]) -> Tensor:
        outputs = [network(x, edge_index, batch=batch, num_graphs=graph.size(0), **more) for network in self.networks]
        return self.as_prediction(torch.stack(outputs)).mean(dim=0)


def export_onnx(model: TrainedModel, out: Path) -> float:
    """Write a model as ONNX; returns the largest difference to its predictions on a hundred random graphs.

    The file takes the tensors of :func:`onnx_inputs`, for any number of graphs, and returns ``prediction``, as
    ``model.predict``. It is written atomically, after onnxruntime has predicted the same.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        check_package("onnx", package)
    import onnx

    if model.experiment.network.tta_mirror:
        raise ValueError(
            "network.tta_mirror: expected a network that predicts each graph once, got one that averages over mirror "
            "images; export one without"
        )
    graphs = random_graphs(model, EXAMPLES)
    proto = _convert(model, graphs)
    with atomic_file(out) as unfinished:
        onnx.save(proto, str(unfinished))
        difference = _compare(model, unfinished, graphs)
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"{out}: expected the predictions of the model to {TOLERANCE:g}, got a difference of {difference:g}; "
                "this network cannot be exported"
            )
    return difference


def onnx_inputs(model: TrainedModel, graphs: Any) -> dict[str, Tensor]:
    """The inputs of an exported model by name, for graphs as ``model.predict`` takes them.

    ``x`` and ``edge_attr`` as in training, or edge types; ``edge_index`` of all graphs as one; ``batch`` [N], the graph
    of each node; ``graph`` [G], the numbers 0, 1, ... of the graphs; ``edge_field``, ``node_potential``, ``gap``,
    ``structure`` and ``graph_attr`` where the network reads them.
    """
    prepared = model.prepare(graphs)
    joined, network = prepared.graph, model.experiment.network
    assert joined.batch is not None
    reads = {
        "edge_field": (prepared.edges, network.plan.num_directions > 0),
        "edge_attr": (prepared.edges, network.edge_dim is not None),
        "node_potential": (prepared.nodes, network.reads_potential),
        "gap": (prepared.nodes, network.plan.needs_gap),
        "structure": (prepared.nodes, model.signature.structure is not None),
        GRAPH_ATTR: (prepared.graphs, model.signature.inputs.features is not None),
    }
    more = {name: values[name] for name, (values, is_read) in reads.items() if is_read}
    more |= {name: as_columns(value) for name, value in more.items() if name == "edge_attr"}
    inputs = {"x": as_columns(prepared.nodes["x"]), "edge_index": joined.edge_index, "batch": joined.batch}
    inputs |= {"graph": torch.arange(len(prepared)), **more}
    return {name: value if value.is_floating_point() else value.long() for name, value in inputs.items()}


def random_graphs(model: TrainedModel, count: int) -> PackedGraphs:
    """Random trees with a few more edges, of 1 to 30 nodes, with random features of the right kind."""
    draw, signature = torch.Generator().manual_seed(0), model.signature

    def integers(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=draw)

    def features(columns: Sequence[int] | int, rows: int) -> Tensor:
        if isinstance(columns, int):
            return torch.randn(rows, columns, generator=draw)
        return torch.stack([integers(size, rows) for size in columns], dim=1)

    pairs = []
    for n in [1, *(2 + integers(29, count - 1)).tolist()]:
        bonds = {(int(integers(i, 1)), i) for i in range(1, n)}
        bonds |= {(i, j) for i, j in integers(n, n // 4, 2).tolist() if i < j}
        index = torch.tensor(sorted(bonds), dtype=torch.long).view(-1, 2).T
        pairs.append((torch.cat([index, index.flip(0)], dim=1), n))
    packed = PackedGraphs.pack(pairs)
    nodes = {"x": features(signature.inputs.nodes, packed.num_nodes)}
    structure, columns = signature.structure, signature.inputs.edges
    if structure is not None and isinstance(columns, int):
        columns -= len(structure.rings)  # counts of rings are appended
    edges = {} if columns is None else {"edge_attr": features(columns, packed.num_edges)}
    if signature.has_field:
        k = max(signature.num_directions, 1)
        nodes["node_potential"] = torch.randn(packed.num_nodes, k, generator=draw)
        edges["edge_field"] = torch.randn(packed.num_edges, k, generator=draw)
    scaled = signature.inputs.features
    of_graphs = {} if scaled is None else {GRAPH_ATTR: features(len(scaled.scale), len(packed))}
    return packed.with_values(nodes=nodes, edges=edges, graphs=of_graphs)


def _convert(model: TrainedModel, graphs: PackedGraphs) -> Any:
    """The ONNX model of the predictor, with numbers of nodes, edges and graphs that vary."""
    inputs = onnx_inputs(model, graphs.select(torch.arange(1, 5)))
    fixed = ("x", "edge_index", "batch", "graph")
    more = {name: value for name, value in inputs.items() if name not in fixed}
    nodes, edges, number = (
        torch.export.Dim("nodes", min=2),
        torch.export.Dim("edges", min=2),
        torch.export.Dim("graphs"),
    )
    rows = {"edge_field": edges, "edge_attr": edges, "node_potential": nodes, "gap": nodes, "structure": nodes}
    rows[GRAPH_ATTR] = number
    shapes = ({0: nodes}, {1: edges}, {0: nodes}, {0: number}, {n: {0: rows[n]} for n in more})
    arguments = (*(inputs[name] for name in fixed), more)
    return to_onnx(Predictor(model), arguments, shapes, [*fixed, *more], ["prediction"])


def to_onnx(
    module: nn.Module,
    arguments: tuple[Any, ...],
    dynamic_shapes: Any,
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> Any:
    """The ``onnx.ModelProto`` of any module with convolutions, in evaluation mode, by PyTorch's dynamo exporter.

    ``arguments`` are example inputs and ``dynamic_shapes`` those of :func:`torch.export.export`: nodes and edges of at
    least 2. Convolutions run without kernels, which ONNX does not have; the module is not changed.
    """
    for package in ("onnx", "onnxscript"):
        check_package("onnx", package)
    plain = deepcopy(module).cpu().eval()
    for part in plain.modules():
        if isinstance(part, DGNConv):
            part.backend = "reference"
    program = torch.export.export(plain, arguments, dynamic_shapes=dynamic_shapes)
    converted = torch.onnx.export(
        program,
        input_names=list(input_names),
        output_names=list(output_names),
        opset_version=OPSET,
        custom_translation_table=_translations(),
        verbose=False,
    )
    assert converted is not None
    return _with_wide_indices(converted.model_proto)


def _translations() -> dict[Any, Any]:
    """Operations that PyTorch does not translate: a stable sort, offsets of sorted numbers, and products."""
    from onnxscript import opset18 as op

    def sort(self: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:  # noqa: ARG001
        return op.TopK(self, op.Shape(self), axis=0, largest=0, sorted=1)  # of equal values, the first comes first

    def offsets(sorted_sequence: Any, self: Any, out_int32: bool = False, right: bool = False) -> Any:  # noqa: ARG001
        one = op.Expand(op.Constant(value_int=1), op.Shape(sorted_sequence))
        count = op.ScatterElements(op.Sub(self, self), sorted_sequence, one, axis=0, reduction="add")
        return op.CumSum(count, op.Constant(value_int=0), exclusive=1)  # ``self`` is 0, 1, ...: see Graph

    def product(inp: Any, dims: Sequence[int], output_dtype: int = -1) -> Any:  # noqa: ARG001
        return op.ReduceProd(inp, op.Constant(value_ints=list(dims)), keepdims=0)

    prims = torch.ops.prims.prod.default
    return {torch.ops.aten.sort.stable: sort, torch.ops.aten.searchsorted.Tensor: offsets, prims: product}


def _with_wide_indices(proto: Any) -> Any:
    """The ONNX model with 64-bit indices, which GatherND requires; the layout of a graph has 32-bit ones."""
    import onnx

    nodes = []
    for node in proto.graph.node:
        if node.op_type == "GatherND":
            name = f"{node.name}_int64"
            nodes.append(onnx.helper.make_node("Cast", [node.input[1]], [name], to=onnx.TensorProto.INT64, name=name))
            node.input[1] = name
        nodes.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


def _compare(model: TrainedModel, file: Path, graphs: PackedGraphs) -> float:
    """The largest difference between the predictions of the file and those of the model, alone and together."""
    from onnxruntime import InferenceSession

    session = InferenceSession(str(file), providers=["CPUExecutionProvider"])
    largest = 0.0
    for index in (torch.arange(len(graphs)), torch.tensor([0]), torch.tensor([1])):
        chosen = graphs.select(index)
        inputs = {name: value.numpy() for name, value in onnx_inputs(model, chosen).items()}
        (prediction,) = session.run(["prediction"], inputs)
        difference = (torch.from_numpy(prediction) - model.predict(chosen)).abs()
        largest = max(largest, float(difference.max()))
    return largest
