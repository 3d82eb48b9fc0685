"""Launches of Triton kernels that take the host few microseconds."""

from collections.abc import Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime import JITFunction

ALIGNMENT = 16  # bytes, and the divisor of numbers, that Triton compiles kernels for
KNOWN_VERSIONS = ("3.6.", "3.7.")  # of Triton, whose compiled kernels are launched as below

_dtype = attrgetter("dtype")


class Launcher:
    """A kernel with its constants: ``launcher(grid, tensors, *numbers)`` is ``kernel[grid](*tensors, *numbers, ...)``.

    Triton looks at each argument and constant of every launch to find the compiled kernel. Here the types of tensors,
    and which addresses and numbers are multiples of 16, are the key to what it found before; a launch then hands over
    addresses. Other versions of Triton, its interpreter and other GPUs launch as usual.
    """

    def __init__(self, kernel: Any, **constants: Any) -> None:
        self.kernel, self.constants = kernel, constants
        self.compiled: dict[tuple[Any, ...], tuple[Any, Any, Any]] = {}
        self.short = isinstance(kernel, JITFunction) and is_known()
        self.last = tuple(constants[name] for name in kernel.arg_names if name in constants)  # behind all others

    def __call__(self, grid: tuple[int, int], tensors: Sequence[Tensor], *numbers: float) -> None:
        if not self.short:
            self.kernel[grid](*tensors, *numbers, **self.constants)
            return
        active = triton.runtime.driver.active
        device = active.get_current_device()
        addresses = tuple(map(Tensor.data_ptr, tensors))
        key = (device, *map(_dtype, tensors), *[number_kind(number) for number in numbers])
        if reduce(or_, addresses) % ALIGNMENT:
            key = (*key, *[address % ALIGNMENT == 0 for address in addresses])
        entry = self.compiled.get(key)
        if entry is None:
            compiled = self.kernel[grid](*tensors, *numbers, **self.constants)
            self.compiled[key] = compiled.run, compiled.function, compiled.packed_metadata
            return
        run, function, metadata = entry
        stream = active.get_current_stream(device)
        run(*grid, 1, stream, function, metadata, None, None, None, *addresses, *numbers, *self.last)


def number_kind(number: float) -> int:
    """What Triton compiles differently: 1 is a constant, multiples of 16 and numbers of 64 bits are told apart.

    >>> number_kind(1), number_kind(32), number_kind(33), number_kind(2**31), number_kind(1.0)
    (1, 2, 0, 6, -1)
    """
    if isinstance(number, float):
        return -1
    if number == 1:
        return 1
    return 2 * (number % ALIGNMENT == 0) + 4 * (number >= 2**31)


def is_known() -> bool:
    """Whether compiled kernels are launched directly: for CUDA, by a version of Triton that is known."""
    cuda = torch.version.cuda is not None and torch.cuda.is_available()
    return cuda and triton.__version__.startswith(KNOWN_VERSIONS)
