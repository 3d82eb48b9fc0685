"""Products of many rows with small matrices."""

import pytest
import torch

pytest.importorskip("triton")
from dgn.kernels.triton.matmul import LIBRARY_WIDTH, multiply
from tests.interpreter import DEVICE, check_in_interpreter, somewhere


def check(width: int, device: str) -> None:
    draw = torch.Generator().manual_seed(0)
    shapes = (70, width), (1, 50, width), (2, 10)
    x, weight, bias = (torch.randn(*shape, generator=draw).to(device) for shape in shapes)
    expected = x.double() @ weight[0].double().T
    expected[:, -20:] += bias.flatten().double()
    torch.testing.assert_close(multiply(x, weight, bias).double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("width", [6, 90, LIBRARY_WIDTH + 1])
def test_the_product_has_a_bias_on_its_last_columns(width: int) -> None:
    check(width, DEVICE)


def test_a_wide_product_is_that_of_the_library() -> None:
    check(LIBRARY_WIDTH + 1, "cpu")


def test_the_product_in_the_interpreter() -> None:
    check_in_interpreter(__file__, "bias", 3)
