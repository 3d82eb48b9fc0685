"""NaN shows: no kernel turns it into a number. In the interpreter maxima keep it, on a GPU they do not."""

import inspect
from typing import Any

import pytest

from tests.interpreter import INTERPRETED

SIZES = {"num_rows": "i32", "num_channels": "i32", "rows_per_block": "i32", "keep_factor": "fp32"}
SIZES |= {f"width{k}": "i32" for k in range(4)}
CONSTANTS = {
    "RELU": True, "HAS_RESIDUAL": False, "HAS_KEPT": False, "BLOCK_N": 16, "BLOCK_C": 16, "PRECISION": "tf32x3",
    "BLOCK1": 16, "BLOCK2": 16, "BLOCK3": 16,
}  # fmt: skip


def compiled(kernel: Any) -> str:
    """The code of a kernel for a GPU, on any machine."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(inspect.signature(kernel.fn).parameters)
    constants = {name: value for name, value in CONSTANTS.items() if name in names}
    signature = {name: "constexpr" if name in constants else SIZES.get(name, "*fp32") for name in names}
    source = ASTSource(kernel, signature=signature, constexprs=constants)
    return str(triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ttir"])


@pytest.mark.skipif(INTERPRETED, reason="Triton is interpreting")
def test_a_relu_keeps_nan_on_a_gpu() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from dgn.kernels.triton.epilogue import normalize_rows

    code = compiled(normalize_rows)
    assert "arith.cmpf olt" in code
    assert "maxnumf" not in code  # of NaN and a number it is the number
