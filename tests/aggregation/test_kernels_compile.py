"""The Triton kernels compile for a GPU, on any machine."""

import inspect
from itertools import product
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dgn.aggregation import make_plan
from dgn.kernels.triton import aggregate_backward as gpu_backward
from dgn.kernels.triton import aggregate_forward as gpu_forward
from dgn.kernels.triton import epilogue, field_weights, layout
from dgn.kernels.triton.segment_sum import sum_segments, sum_types

NAMES = ["mean", "sum", "max", "min", "std", "var", "av1", "dx1", "dx1-signed", "dx2"]
POINTERS = {
    "pointer": "*i64", "source_pointer": "*i64", "order": "*i32", "neighbor": "*i32", "place": "*i32", "row": "*i32",
    "at_max": "*i32", "at_min": "*i32", "sign": "*i8", "weight": "*fp32", "self_weight": "*fp32", "average": "*fp32",
    "num_channels": "i32", "out_stride": "i32", "target_grad_stride": "i32", "extra": "*fp32",
    "source_stride": "i32", "target_stride": "i32", "node_stride": "i32", "num_live": "*i64", "features_grad": "*fp32",
    "row_type": "*i64", "num_types": "i32", "num_rows": "i32",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not hasattr(gpu_forward.aggregate_nodes, "fn"), reason="Triton is interpreting")


def compile_kernel(kernel: Any, dtype: str, constants: dict[str, Any], types: dict[str, str] = POINTERS) -> Any:
    names = list(inspect.signature(kernel.fn).parameters)
    constants = {name: value for name, value in constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else types.get(name, f"*{dtype}") for name in names}
    source = ASTSource(kernel, signature=signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm


def compiled_size(kernel: Any, dtype: str, constants: dict[str, Any], types: dict[str, str] = POINTERS) -> int:
    return len(compile_kernel(kernel, dtype, constants, types)["ptx"])


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "fp64"])
@pytest.mark.parametrize(("names", "parts"), list(product([NAMES, ["mean"], ["av1", "dx1"]], ["s", "ste", "e", "st2"])))
def test_every_plan_compiles(names: list[str], parts: str, dtype: str) -> None:
    plan = make_plan(names)
    constants = {
        "CODES": plan.codes, "COLUMNS": plan.columns, "A": len(plan), "W": len(plan.weights),
        "NEED_SUM": {0, 1} & set(plan.codes) != set(), "NEED_VAR": {4, 5} & set(plan.codes) != set(),
        "NEED_MAX": 2 in plan.codes, "NEED_MIN": 3 in plan.codes,
        "HAS_SOURCE": "s" in parts, "HAS_TARGET": "t" in parts, "HAS_TABLE": "e" in parts, "HAS_NODE": parts == "e",
        "NUM_FEATURES": 2 if "2" in parts else 0,
        "HAS_SELF": plan.has_self, "SAVE": True, "HAS_EXTRA": True, "HAS_ORDER": True, "MEAN": False,
        "ACC": tl.float64 if dtype == "fp64" else tl.float32,
        "BLOCK_E": 8, "BLOCK_C": 64, "WIDTH": 20 if parts == "ste" else 0,
    }  # fmt: skip
    for kernel in (gpu_forward.aggregate_nodes, gpu_backward.gradient_of_messages, sum_segments):
        assert compiled_size(kernel, dtype, constants) > 0


SORTED = {
    "edge_index": "*i64", "keys": "*i32", "sorted_keys": "*i32", "sorted_places": "*i64", "edge_to_source": "*i32",
    "source_order": "*i32", "values": "*i64", "ok": "*i1",
}  # fmt: skip
WEIGHED = {"finite": "*i1", "pointer": "*i64", "order": "*i32", "delta": "fp32"}
PREPARATIONS = [
    (layout.check_range, SORTED, {"BLOCK": 4096}),
    (layout.make_keys, SORTED, {"BLOCK": 256}),
    (layout.find_order, {**SORTED, "pointer": "*i64", "source_pointer": "*i64", "order": "*i32"}, {"BLOCK": 256}),
    (field_weights.find_largest, WEIGHED, {"BLOCK_E": 1024, "BLOCK_K": 4}),
    (field_weights.weigh_edges, WEIGHED, {"DIRECTIONS": (0, 1), "DERIVATIVE": (True, False), "W": 2, "BLOCK_E": 8}),
    (field_weights.scale_degrees, WEIGHED, {"CODES": (0, 1, 2), "S": 3, "BLOCK_N": 256}),
    (epilogue.scale_rows, {}, {"S": 3, "HAS_OWN": True, "BLOCK_N": 16, "BLOCK_C": 64}),
]


@pytest.mark.parametrize(("kernel", "types", "constants"), PREPARATIONS)
def test_what_prepares_a_batch_compiles(kernel: Any, types: dict[str, str], constants: dict[str, Any]) -> None:
    numbers = {
        name: "i32" for name in inspect.signature(kernel.fn).parameters if name.startswith(("num_", "size", "b"))
    }
    more = {"width": "i32", "self_out_stride": "i32", "rows_per_block": "i32"}
    assert compiled_size(kernel, "fp32", {**constants, "ACC": tl.float32}, {**numbers, **more, **types}) > 0


@pytest.mark.parametrize(("dtype", "acc", "dot"), [("fp32", tl.float32, True), ("fp64", tl.float64, False)])
def test_sums_by_type_address_memory_with_64_bits(dtype: str, acc: Any, dot: bool) -> None:
    constants = {
        "ACC": acc,
        "HAS_PLACE": True,
        "HAS_LIVE": True,
        "DOT": dot,
        "NUM_TYPES": 32,
        "BLOCK_N": 64,
        "BLOCK_C": 64,
    }
    code = compile_kernel(sum_types, dtype, constants)["ttir"]
    products = [line for line in code.splitlines() if "arith.muli" in line]
    assert len(products) > 3
    narrow = [line for line in products if "i64" not in line.split(" : ")[1]]
    assert ["channels" in line for line in narrow] == [True]  # the first channel of a block, not an address
