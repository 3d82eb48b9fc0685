"""Input checks: every error names the subject, the expected and the actual value, and the remedy."""

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

from dgn.graph.columns import as_columns

HAS_TRITON = find_spec("triton") is not None
DENSE_NODES, NODES_PER_EDGE = 2**24, 1000  # numbers of nodes that are inferred from the highest one without question


def check_edge_index(edge_index: Tensor, num_nodes: int | None) -> tuple[Tensor, int]:
    """``edge_index`` as int64 ``[2, E]`` and the number of nodes; raises if they are invalid."""
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            "edge_index: expected a tensor [2, E] of node indices, or a homogeneous PyG Data that has one, "
            f"got {type(edge_index).__name__}; build it with torch.tensor([[sources], [targets]])"
        )
    if edge_index.layout != torch.strided:
        raise TypeError(
            f"edge_index: expected a dense tensor [2, E], got a matrix of layout {edge_index.layout}; convert it with "
            "matrix.to_sparse_csr() or torch_geometric.utils.to_edge_index(matrix)[0]"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"edge_index: expected shape [2, E], got {list(edge_index.shape)}; "
            "row 0 holds the sources j and row 1 the targets i of the messages j -> i"
        )
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise TypeError(f"edge_index: expected integers, got {edge_index.dtype}; convert it with edge_index.long()")
    edge_index = edge_index.long()
    if torch.compiler.is_compiling() and num_nodes is not None:
        return edge_index, num_nodes  # values are not available while tracing
    if edge_index.is_cuda and num_nodes is not None:
        _check_on_device(edge_index, num_nodes)
        return edge_index, num_nodes
    low, high = (int(edge_index.min()), int(edge_index.max())) if edge_index.numel() else (0, -1)
    if num_nodes is None:
        check_inferred_nodes(high, edge_index.size(1))
        num_nodes = high + 1
    if num_nodes < 0:
        raise ValueError(f"num_nodes: expected 0 or more, got {num_nodes}; give the number of nodes of the graph")
    if low < 0 or high >= num_nodes:
        bad = int(((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0).nonzero()[0])
        raise ValueError(
            f"edge_index: expected nodes from 0 to below num_nodes={num_nodes}, got edge {bad} = "
            f"({int(edge_index[0, bad])}, {int(edge_index[1, bad])}); remove the edge, or pass num_nodes= "
            "and as many rows of features"
        )
    return edge_index, num_nodes


def _check_on_device(edge_index: Tensor, num_nodes: int) -> None:
    """Let the GPU stop at an edge to no node, as PyTorch's indexing does: the host does not wait for it."""
    if edge_index.numel():
        message = (
            f"edge_index: expected nodes from 0 to below num_nodes={num_nodes}; look at them with edge_index.cpu()"
        )
        torch._assert_async(_all_below(edge_index, num_nodes), message)


def _all_below(values: Tensor, bound: int) -> Tensor:
    """Whether integers on a GPU are from 0 to below a bound: one launch where there is a kernel for it."""
    if HAS_TRITON:
        from dgn.kernels.triton.layout import all_below

        return all_below(values, bound)
    low, high = values.aminmax()
    return (low >= 0) & (high < bound)


def check_inferred_nodes(highest: int, num_edges: int) -> None:
    """Refuse a highest node so far beyond the number of edges that it is a mistake, before memory is taken for it."""
    if highest >= max(DENSE_NODES, NODES_PER_EDGE * num_edges):
        raise ValueError(
            f"edge_index: expected nodes numbered from 0, got node {highest} in a graph of {num_edges} edges; number "
            "them without large gaps, or state num_nodes if so many have no edge"
        )


def check_num_nodes(source: str, expected: int | None, num_nodes: int | None, remedy: str) -> None:
    """Refuse a ``num_nodes`` that contradicts the number of nodes of ``source``."""
    if num_nodes not in (None, expected):
        raise ValueError(f"num_nodes: expected {expected}, as the {source} has, got {num_nodes}; {remedy}")


#: The optional packages of each extra in pyproject.toml, by the names under which they are imported.
EXTRAS = {
    "train": ("lightning", "matplotlib", "rich", "sklearn", "torchmetrics", "typer", "yaml"),
    "cpu": ("numba", "threadpoolctl"),
    "molecules": ("rdkit",),
    "tables": ("openpyxl", "pyarrow"),
    "search": ("optuna",),
    "logs": ("tensorboard",),
    "ray": ("ray",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
}


def check_package(subject: str, package: str) -> None:
    """Raise if an optional package is missing, and name the extra that installs it."""
    if sys.modules.get(package) is not None:  # called for every molecule
        return
    try:
        import_module(package)
    except ImportError as error:
        raise _missing(subject, package) from error


def check_extra(subject: str, extra: str) -> None:
    """Raise unless all packages of an extra are installed; none of them is imported."""
    for package in EXTRAS[extra]:
        if sys.modules.get(package) is None and find_spec(package) is None:
            raise _missing(subject, package)


def _missing(subject: str, package: str) -> ImportError:
    extra = next(extra for extra, packages in EXTRAS.items() if package in packages)
    return ImportError(
        f"{subject}: expected the package {package}, got none of that name; install the extra {extra!r}: "
        f"pip install 'dgn[{extra}]'"
    )


def check_finite(name: str, values: Tensor) -> None:
    """Refuse NaN and infinity."""
    if not torch.compiler.is_compiling() and not bool(torch.isfinite(values).all()):
        bad = [int(i) for i in (~torch.isfinite(values)).nonzero()[0]]
        raise ValueError(
            f"{name}: expected finite numbers, got {values[tuple(bad)].item()} at index {bad}; "
            f"clean the input, for example with torch.nan_to_num({name})"
        )


def check_result(name: str, values: Tensor) -> Tensor:
    """The result of finite input; one that left the range of its numbers is refused."""
    if not torch.compiler.is_compiling() and not bool(torch.isfinite(values).all()):
        raise OverflowError(
            f"{name}: expected finite numbers, got some beyond the range of {values.dtype}; scale the input towards 1"
        )
    return values


def check_columns(name: str, values: Tensor, other: Tensor | None = None) -> None:
    """Require a tensor [R, K] or [R]; or one that has the columns of ``other``, a tensor of any shape."""
    if other is None:
        if values.dim() > 2:
            raise ValueError(f"{name}: expected shape [R, K] or [R], got {list(values.shape)}; flatten its columns")
        return
    pairs = zip(values.shape[1:], other.shape[1:], strict=False)
    if values.dim() != other.dim() or any(one != two and 1 not in (one, two) for one, two in pairs):
        raise ValueError(
            f"{name}: expected the columns of {list(other.shape)}, got {list(values.shape)}; give both the same shape"
        )


def check_numbers(name: str, values: Tensor) -> None:
    """Require a finite floating-point tensor with rows."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(values).__name__}; convert it with torch.as_tensor")
    if values.dim() == 0:
        raise ValueError(f"{name}: expected rows of numbers, got a single one; give one row per node or edge")
    if not values.is_floating_point():
        raise TypeError(f"{name}: expected floating-point numbers, got {values.dtype}; convert it with {name}.float()")
    check_finite(name, values)


def check_field(field: Tensor) -> None:
    """Require a field of finite real numbers; a GPU checks that they are finite without making the host wait."""
    check_field_type(field)
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return  # values are not available
    if field.is_cuda:
        assert_finite_field(torch.isfinite(field).all())
    else:
        check_finite("edge_field", field)


def assert_finite_field(finite: Tensor) -> None:
    """Let the GPU stop unless a field is finite, as one element says."""
    torch._assert_async(finite, "edge_field: expected finite numbers; look at them with edge_field.isfinite().all()")


def check_field_type(field: Tensor) -> None:
    """Require a field of real numbers."""
    if not isinstance(field, Tensor) or not field.is_floating_point():
        came = field.dtype if isinstance(field, Tensor) else type(field).__name__
        raise TypeError(
            f"edge_field: expected floating-point numbers [E, K], got {came}; convert it with .float(), or give edge "
            "features as edge_attr="
        )


FLAT = 1e-3  # of the largest slope: below, a slope may have either sign


def check_directions(field: Tensor, potential: Tensor, edge_index: Tensor | None) -> None:
    """Refuse a field that does not rise where its potential does: its edges were changed, reordered or merged.

    A field may be the slope times a positive weight, and 0 on edges that were added. Where the potential has other
    columns, it is not that of the field. Edges in a matrix, as ``ToSparseTensor`` makes them, are not checked. On a GPU
    the host does not wait for the answer.
    """
    if edge_index is None or edge_index.layout != torch.strided or torch.compiler.is_compiling():
        return
    if field.shape[1:] != potential.shape[1:]:
        return
    field, potential = as_columns(field), as_columns(potential)
    remedy = (
        "apply transforms that change edges before AddDirections, or AddCoordinates('node_potential') after them; "
        "delete node_potential if the field is your own"
    )
    if len(field) != edge_index.size(1):
        raise ValueError(f"edge_field: expected {edge_index.size(1)} rows, one per edge, got {len(field)}; {remedy}")
    if not field.numel():
        return
    slope = potential[edge_index[0]] - potential[edge_index[1]]
    steep = slope.abs() > FLAT * slope.abs().amax(dim=0)
    against, vanished = (field * slope < 0) & steep, ~field.any() & steep.any()
    expected = "edge_field: expected the slope of node_potential along each edge"
    if field.is_cuda:
        torch._assert_async(~(against.any() | vanished), f"{expected}; {remedy}")
    elif vanished:
        raise ValueError(f"{expected}, got 0 on every edge; {remedy}")
    elif against.any():
        bad = int(against.any(dim=1).nonzero()[0])
        raise ValueError(
            f"{expected}, got {field[bad].tolist()} on edge {bad} of slope {slope[bad].tolist()}; {remedy}"
        )


def check_rows(name: str, values: Tensor, rows: int, meaning: str) -> None:
    """Require a finite floating-point tensor with one row per node, edge or graph."""
    if isinstance(values, Tensor) and (values.dim() == 0 or values.size(0) != rows):
        raise ValueError(
            f"{name}: expected {rows} rows, one per {meaning}, got shape {list(values.shape)}; "
            f"give one row per {meaning}, in the order of the graph it belongs to"
        )
    check_numbers(name, values)


def check_weight(weight: Tensor, num_edges: int) -> None:
    """Require finite edge weights, one per edge and not negative."""
    check_rows("edge_weight", weight, num_edges, "edge")
    if weight.dim() != 1:
        raise ValueError(f"edge_weight: expected shape [{num_edges}], got {list(weight.shape)}; squeeze it")
    if bool((weight < 0).any()):
        bad = int((weight < 0).nonzero()[0])
        raise ValueError(
            f"edge_weight: expected weights of 0 or more, got {weight[bad].item()} at edge {bad}; "
            "a Laplacian with negative weights has no lowest frequencies: take abs() or shift the weights"
        )


def check_option(name: str, value: object, options: tuple[object, ...]) -> None:
    """Refuse an unknown option and name the nearest valid one."""
    if value in options:
        return
    by_text = {str(option).lower(): option for option in options}
    near = get_close_matches(str(value).lower(), by_text, n=1)
    remedy = f"did you mean {by_text[near[0]]!r}?" if near else "choose one of those"
    raise ValueError(f"{name}: expected one of {', '.join(map(repr, options))}, got {value!r}; {remedy}")
