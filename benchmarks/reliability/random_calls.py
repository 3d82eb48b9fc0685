"""Random calls of the public functions: each returns, or raises one of the documented errors."""

import random
import sys
import warnings
from collections import Counter
from inspect import signature

import torch

import dgn

REFUSED = (ValueError, TypeError, OSError, ArithmeticError, ImportError)  # the errors of the command line


def random_tensor(rows: int, chance: random.Random) -> torch.Tensor:
    """A tensor of about the right shape, of any dtype, with extreme values."""
    shape = chance.choice([(rows,), (rows, 2), (rows, 1), (rows + 1,), (), (0,), (rows, 2, 2)])
    dtype = chance.choice(
        [torch.float64, torch.float64, torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]
    )
    values = torch.randn(shape) * chance.choice([1, 1, 0, 1e-30, 1e30])
    values = values.double() * chance.choice([1, 1, 1e-290, 1e270])
    if values.numel() and chance.random() < 0.2:
        values.view(-1)[chance.randrange(values.numel())] = chance.choice([torch.nan, torch.inf, -1e308, 1e-320])
    return values.to(dtype)


def random_edges(chance: random.Random) -> torch.Tensor:
    """Edges of a small graph; some have an absurd node or another dtype."""
    size = chance.choice([0, 1, 5, 12])
    index = torch.randint(0, chance.choice([1, 4, 8]), (2, size))
    if size and chance.random() < 0.1:
        index[0, 0] = chance.choice([-1, 2**31, 2**62])
    return index if chance.random() < 0.9 else index.to(chance.choice([torch.float32, torch.int32, torch.bool]))


def random_arguments(chance: random.Random) -> dict[str, object]:
    """Arguments for any public function, by name."""
    index = random_edges(chance)
    number = index.size(1)
    node, edge = random_tensor(8, chance), random_tensor(number, chance)
    return {
        "edge_index": index, "dataset": [index], "batch": None, "component": None,
        "num_nodes": chance.choice([None, 8, 8, 0, -1]), "k": chance.choice([1, 2, 9, 0, 10**9]),
        "potential": node, "x": node, "y": random_tensor(8, chance), "source": node,
        "field": edge, "fields": edge, "first": edge, "other": random_tensor(number, chance),
        "second": random_tensor(number, chance), "gap": random_tensor(8, chance),
        "edge_weight": chance.choice([None, edge, edge.abs() if edge.dtype != torch.bool else edge]),
        "angle": chance.choice([0.1, torch.nan]), "strength": chance.choice([0.1, -1.0]),
        "temperature": chance.choice([None, 1.0, -1.0]), "time": chance.choice([1.0, 1e300, -1.0]),
        "normalization": chance.choice([None, "rw", "sym", "no"]), "p": chance.choice([1, 2, 3]),
        "generator": torch.Generator().manual_seed(0),
    }  # fmt: skip


def calls(count: int, seed: int = 0) -> Counter[str]:
    """Call public functions with random arguments: each returns or raises one of the documented errors."""
    chance, counts = random.Random(seed), Counter[str]()
    torch.manual_seed(seed)

    names = [name for name in dgn.__all__ if name[0].islower() and name not in ("nn", "testing", "transforms")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            name = chance.choice(names)
            function = getattr(dgn, name)
            accepted = signature(function).parameters
            counts["calls"] += 1
            try:
                function(**{key: value for key, value in random_arguments(chance).items() if key in accepted})
                counts["returned"] += 1
            except REFUSED:
                counts["refused"] += 1
            except Exception as problem:
                counts["uncaught"] += 1
                print(f"{name}: {type(problem).__name__}: {problem}", file=sys.stderr)
    return counts
