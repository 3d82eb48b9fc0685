"""Products of many rows with a small matrix: values and gradients as in plain PyTorch."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dgn.nn import linear as dense
from dgn.nn.fused.wgrad_stream import current_wgrad_stream, use_wgrad_stream
from dgn.nn.linear import (
    PARTS,
    TALL,
    TALL_TOWER,
    Linear,
    _AddBias,
    _Multiply,
    add_bias,
    grouped_matmul,
    multiply,
    transposed_matmul,
)

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")],
    ),
]
ROWS = [0, 1, 100, TALL_TOWER + 1, TALL, TALL + 1, TALL + PARTS + 7]


def draw(*shape, device="cpu"):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device).requires_grad_()


def gradients(function, *inputs):
    for each in inputs:
        each.grad = None
    out = function(*inputs)
    (out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device).view(out.shape)).sum().backward()
    return [out.detach(), *(each.grad.clone() for each in inputs)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("towers", [None, 1, 3])
def test_a_product_and_its_gradients(rows, towers, device):
    between = () if towers is None else (towers,)
    x, weight = draw(rows, *between, 5, device=device), draw(*between, 4, 5, device=device)
    plain = gradients(lambda x, w: torch.einsum("n...i,...oi->n...o", x, w), x, weight)
    torch.testing.assert_close(gradients(_Multiply.apply, x, weight), plain)
    torch.testing.assert_close(gradients(multiply, x, weight), plain)


def test_large_products_are_summed_in_few_parts(monkeypatch):
    a, b, sizes = draw(TALL + 7, 3).detach(), draw(TALL + 7, 5).detach(), []
    product = dense._product
    monkeypatch.setattr(dense, "LARGE", 14)
    monkeypatch.setattr(dense, "_product", lambda a, b: [sizes.append(len(a)), product(a, b)][1])
    torch.testing.assert_close(transposed_matmul(a, b), a.T @ b)
    assert sizes == [dense.FEW_PARTS]  # the rest is added in place


class Calls(TorchDispatchMode):
    """The names of the operations that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", ROWS[1:])
@pytest.mark.parametrize("towers", [1, 3])
def test_towers_are_multiplied_where_they_lie(rows, towers, device):
    x, y = draw(rows, towers, 5, device=device).detach(), draw(rows, towers, 4, device=device).detach()
    matrices = draw(towers, 4, 5, device=device).detach()
    with Calls() as calls:
        there, back = grouped_matmul(x, matrices.transpose(1, 2)), grouped_matmul(y, matrices)
        products = transposed_matmul(y, x)
    torch.testing.assert_close(there, torch.einsum("nti,toi->nto", x, matrices))
    torch.testing.assert_close(back, torch.einsum("nto,toi->nti", y, matrices))
    torch.testing.assert_close(products, torch.einsum("nto,nti->toi", y, x))
    assert there.is_contiguous()
    assert back.is_contiguous()
    assert not calls.names & {"clone", "copy_", "_to_copy"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", ROWS)
def test_a_bias_and_its_gradient(rows, device):
    x, bias = draw(rows, 6, device=device), draw(6, device=device)
    plain = gradients(lambda x, b: x + b, x, bias)
    torch.testing.assert_close(gradients(_AddBias.apply, x, bias), plain)
    torch.testing.assert_close(gradients(add_bias, x, bias), plain)


@pytest.mark.parametrize("needed", [(True, False), (False, True)])
def test_only_gradients_that_are_needed(needed):
    x, weight = (each.requires_grad_(wanted) for each, wanted in zip((draw(9, 2), draw(3, 2)), needed, strict=True))
    _Multiply.apply(x, weight).sum().backward()
    assert (x.grad is not None, weight.grad is not None) == needed


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [10, TALL + 3])
def test_the_layer_is_pytorchs(rows, bias, device):
    torch.manual_seed(0)
    ours, theirs = (nn_class(5, 4, bias=bias).double().to(device) for nn_class in (Linear, nn.Linear))
    theirs.load_state_dict(ours.state_dict())
    x = draw(rows, 5, device=device)
    for layer in (ours, theirs):
        layer(x).square().sum().backward()
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


@pytest.mark.parametrize("shape", [(5,), (10, 5), (10, 3, 5), (2, 3, 4, 5)])
def test_the_layer_takes_any_number_of_dimensions(shape, monkeypatch):
    monkeypatch.setattr(dense, "is_plain", lambda x, _: x.dim() in (2, 3))  # as on a GPU
    layer, x = Linear(5, 4).double(), draw(*shape)
    ours = gradients(lambda x, *_: layer(x), x, layer.weight, layer.bias)
    torch.testing.assert_close(ours, gradients(nn.functional.linear, x, layer.weight, layer.bias))


def test_a_side_is_noted_while_it_lasts():
    side = object()
    with use_wgrad_stream(side):
        assert current_wgrad_stream() is side
        with use_wgrad_stream(None):
            assert current_wgrad_stream() is None
        assert current_wgrad_stream() is side
    assert current_wgrad_stream() is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("rows", [10, 1000, TALL + 3])
def test_gradients_beside_the_way_back_are_the_gradients(rows):
    torch.manual_seed(0)
    network = nn.Sequential(Linear(5, 64), nn.ReLU(), Linear(64, 64), nn.ReLU(), Linear(64, 3)).cuda()
    x, side = torch.randn(rows, 5, device="cuda"), torch.cuda.Stream()
    by_stream = []
    for stream in (None, side):
        for _ in range(5):  # memory that was freed too early would be overwritten
            network.zero_grad()
            with use_wgrad_stream(stream):
                out = network(x)
            out.square().sum().backward()
            torch.cuda.current_stream().wait_stream(side)
        by_stream.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.testing.assert_close(*by_stream, rtol=1e-4, atol=1e-4)
