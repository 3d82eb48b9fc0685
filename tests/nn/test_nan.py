"""NaN shows: no kernel turns it into a number. In the interpreter maxima keep it, on a GPU they do not."""

import inspect
from typing import Any

import pytest
import torch

from dgn.nn.readout import Head
from tests.interpreter import DEVICE, INTERPRETED, somewhere

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
@pytest.mark.parametrize(("module", "name"), [("epilogue", "normalize_rows"), ("head", "head_forward")])
def test_a_relu_keeps_nan_on_a_gpu(module: str, name: str) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    kernel = getattr(__import__(f"dgn.kernels.triton.{module}", fromlist=[name]), name)
    code = compiled(kernel)
    assert "arith.cmpf olt" in code
    assert "maxnumf" not in code  # of NaN and a number it is the number


@pytest.mark.gpu
@somewhere
def test_the_head_gives_nan_for_nan() -> None:
    head, x = Head(8, 8, 2).to(DEVICE), torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    x[2] = torch.nan
    assert head.fused(x).isnan().any(dim=1).tolist() == [False, False, True, False, False]
