"""What was derived from tensors, kept for as long as they live and nobody changes them."""

import weakref
from collections.abc import Callable, Hashable, MutableMapping
from operator import attrgetter, call, is_
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

_version = attrgetter("_version")

_BY_TENSOR: MutableMapping[Tensor, dict[Hashable, Any]] = WeakTensorKeyDictionary()


class Memo(NamedTuple):
    """A value, and the tensors that it was derived from: weak references to them, and their versions."""

    references: tuple["weakref.ref[Tensor]", ...]
    versions: tuple[int, ...]
    value: Any

    def fits(self, tensors: tuple[Tensor, ...], versions: tuple[int, ...]) -> bool:
        """Whether the value was derived from these very tensors, in these versions."""
        return self.versions == versions and all(map(is_, map(call, self.references), tensors))


def remember(memos: MutableMapping[Any, Any], key: Hashable, tensors: tuple[Tensor, ...], make: Callable[[], T]) -> T:
    """``make()``, or what it gave before for the same tensors, if none was changed in place since.

    PyTorch counts changes in place; writing through ``.data`` or a NumPy array is not seen. Nothing is kept while a
    step is traced or captured in a CUDA graph, whose tensors change behind PyTorch's back, nor of tensors that are
    being learned or were made in inference mode, which has no versions.
    """
    return _remember(memos, key, tensors, make) if may_remember(tensors) else make()


def remember_with(tensor: Tensor, key: Hashable, make: Callable[[], T]) -> T:
    """:func:`remember` what is derived from one tensor, and forget it with that; the value must not hold it."""
    if not may_remember((tensor,)):
        return make()
    memos = _BY_TENSOR.get(tensor)
    if memos is None:
        memos = _BY_TENSOR[tensor] = {}
    return _remember(memos, key, (tensor,), make)


def _remember(memos: MutableMapping[Any, Any], key: Hashable, tensors: tuple[Tensor, ...], make: Callable[[], T]) -> T:
    versions = tuple(map(_version, tensors))  # no loops here: every layer looks up what it is given
    memo: Memo | None = memos.get(key)
    if memo is not None and memo.fits(tensors, versions):
        value: T = memo.value
        return value
    value = make_constant(make)
    memos[key] = Memo(tuple(weakref.ref(tensor) for tensor in tensors), versions, value)
    return value


def make_constant(make: Callable[[], T]) -> T:
    """``make()`` without gradients and outside inference mode, as what is kept may be trained with later.

    Both are entered only where they do not hold yet, which would take as long as a launch.
    """
    if not (torch.is_grad_enabled() or torch.is_inference_mode_enabled()):
        return make()
    with torch.inference_mode(False), torch.no_grad():
        return make()


def may_remember(tensors: tuple[Tensor, ...]) -> bool:
    """Whether what is derived from these tensors stays true until one of their versions changes."""
    if torch.compiler.is_compiling():
        return False
    for tensor in tensors:
        if tensor.requires_grad or tensor.is_inference():
            return False
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
    return True
