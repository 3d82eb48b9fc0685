"""The end of a layer: the kernels against plain PyTorch, forward and backward, with and without each part."""

import itertools

import pytest
import torch

from dgn.nn.conv import ConvParts
from dgn.nn.dropout import Dropout
from dgn.nn.layer import epilogue
from dgn.nn.norm import BatchNorm
from tests.interpreter import DEVICE, check_in_interpreter, somewhere

CASES = [
    (rows, towers, scalers, parts)
    for (rows, towers, scalers), parts in itertools.product(
        [(70, 1, 3), (2100, 1, 1), (33, 5, 3)],
        [
            (),
            ("own", "scale", "size", "real", "residual", "relu"),
            ("own", "real", "kept"),
            ("residual", "kept", "relu"),
        ],
    )
]


def run(function, dtype, rows, towers, scalers, parts, width=6):
    generator = torch.Generator().manual_seed(rows + towers)
    channels = towers * width

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(DEVICE, dtype)

    inputs = {"every": draw(rows, towers, scalers, width) + 3, "bias": draw(towers, width)}
    inputs |= {name: draw(rows, channels) for name in ("own", "residual") if name in parts}
    scale = draw(rows, scalers) if "scale" in parts else None
    size = draw(rows, 1).abs() if "size" in parts else None
    real = (draw(rows, 1) > -0.5).to(dtype) if "real" in parts else None
    norm, weight = BatchNorm(channels).to(DEVICE, dtype), draw(rows, channels)
    with torch.no_grad():
        norm.weight.copy_(draw(channels))
        norm.bias.copy_(draw(channels))
    for value in inputs.values():
        value.requires_grad_()
    dropout = Dropout(0.4 if "kept" in parts else 0.0)
    dropout.generator = torch.Generator(DEVICE).manual_seed(1)
    products = ConvParts(inputs["every"], inputs.get("own"), scale, inputs["bias"])
    out = function(products, norm, dropout, size, real, inputs.get("residual"), "relu" in parts)
    out = out * (1 if real is None else real)
    (out * weight).sum().backward()
    grads = {name: value.grad for name, value in {**inputs, **dict(norm.named_parameters(prefix="norm"))}.items()}
    return {"out": out, **grads, **dict(norm.named_buffers())}


def fused_epilogue(*args):
    from dgn.nn.fused.gpu_epilogue import fused_epilogue as kernels  # needs Triton

    return kernels(*args)


def by_definition(products, norm, dropout, size, real, residual, relu):
    """Without the kernels, which are for single precision, and with the numbers that they draw."""
    out = epilogue(products, norm, Dropout(0.0), size, real, residual, relu)
    mask = torch.empty(out.shape, device=DEVICE).bernoulli_(1 - dropout.p, generator=dropout.generator)
    return out * mask / (1 - dropout.p)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("rows", "towers", "scalers", "parts"), CASES)
def test_the_kernels_equal_the_definition(rows, towers, scalers, parts, monkeypatch):
    for name, blocks in (("MOST_BLOCKS", 64), ("MOST_APART", 32)):  # so that a block has more rows than fit at once
        monkeypatch.setattr(f"dgn.nn.fused.gpu_epilogue.{name}", blocks)
    got = run(fused_epilogue, torch.float32, rows, towers, scalers, parts)
    expected = run(by_definition, torch.float64, rows, towers, scalers, parts)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            got[name], value.to(got[name].dtype), rtol=1e-4, atol=2e-4, msg=lambda m, n=name: f"{n}: {m}"
        )


APART = {  # one number for each of 30 rows, none behind the one before it in memory
    "columns": lambda part: torch.stack([part, part + 1], dim=1)[:, :1],
    "one for all": lambda part: part[:1, None],
    "expanded": lambda part: part[:1, None].expand(30, 1),
}


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("kind", APART)
def test_size_factors_that_lie_apart_equal_the_definition(kind):
    generator = torch.Generator().manual_seed(0)
    y, size, real = (torch.randn(shape, generator=generator).to(DEVICE) for shape in ((30, 1, 1, 6), (30,), (30,)))
    size, real = APART[kind](size.abs()), APART[kind]((real > -0.5).float())
    results = []
    for function in (fused_epilogue, epilogue):
        norm = BatchNorm(6).to(DEVICE)
        norm.plain = True
        products = ConvParts(y, None, None, y.new_zeros(1, 6))
        out = function(products, norm, Dropout(0.0), size, real.expand(30, 1), None, True)
        results.append([out * real, norm.running_mean, norm.running_var])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@somewhere
def test_where_no_row_counts_running_statistics_stay_by_definition():
    norm = BatchNorm(6).to(DEVICE)
    products = ConvParts(torch.ones(30, 1, 1, 6, device=DEVICE), None, None, torch.zeros(1, 6, device=DEVICE))
    out = fused_epilogue(products, norm, Dropout(0.0), None, torch.zeros(30, 1, device=DEVICE), None, True)
    assert out.isfinite().all()
    assert not norm.running_mean.any()
    assert (norm.running_var == 1).all()


@pytest.mark.gpu
@somewhere
def test_a_share_of_everything_keeps_nothing_by_definition():
    products = ConvParts(torch.ones(30, 1, 1, 6, device=DEVICE), None, None, torch.ones(1, 6, device=DEVICE))
    assert not fused_epilogue(products, BatchNorm(6).to(DEVICE), Dropout(1.0), None, None, None, True).any()


@pytest.mark.slow
def test_the_kernels_in_the_interpreter():
    check_in_interpreter(__file__, "definition", len(CASES) + len(APART) + 2)
