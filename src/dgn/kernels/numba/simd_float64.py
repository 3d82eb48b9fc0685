"""SIMD vectors of eight float64 lanes as Numba values.

Kernels written with these values read like scalar code. Lanes are independent except in ``sum_lanes``, whose order is
fixed. Without wide registers LLVM uses several narrow ones.
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from dgn.kernels.numba.jit import jit

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)
_FUSE = ("contract",)  # a product and a sum may become one instruction


class Lanes(types.Type):
    """A vector of eight float64 lanes."""


class Mask(types.Type):
    """A vector of eight booleans."""


lanes, mask = Lanes("lanes"), Mask("mask")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes_type):
        super().__init__(manager, lanes_type, _VECTOR)


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, lanes_type):
        super().__init__(manager, lanes_type, _BITS)


def _define(operation, operand, result, emit):
    """Define an operator for two values of type ``operand``."""

    @infer_global(operation)
    class _Template(AbstractTemplate):
        def generic(self, args, keywords):
            return signature(result, operand, operand) if args == (operand, operand) else None

    lower_builtin(operation, operand, operand)(lambda context, builder, sig, args: emit(builder, *args))


for add, subtract, multiply in (
    (operator.add, operator.sub, operator.mul),
    (operator.iadd, operator.isub, operator.imul),
):
    _define(add, lanes, lanes, lambda builder, a, b: builder.fadd(a, b, flags=_FUSE))
    _define(subtract, lanes, lanes, lambda builder, a, b: builder.fsub(a, b, flags=_FUSE))
    _define(multiply, lanes, lanes, lambda builder, a, b: builder.fmul(a, b, flags=_FUSE))
_define(operator.truediv, lanes, lanes, lambda builder, a, b: builder.fdiv(a, b))
_define(operator.lt, lanes, mask, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
_define(operator.xor, mask, mask, lambda builder, a, b: builder.xor(a, b))


def _call(name, count):
    """A call of an LLVM function of ``count`` vectors."""

    def emit(context, builder, sig, args):
        function_type = ir.FunctionType(_VECTOR, [_VECTOR] * count)
        function = cgutils.get_or_insert_function(builder.module, function_type, f"{name}.v{LANES}f64")
        return builder.call(function, args)

    return emit


@intrinsic
def fabs(typing, a):
    """Absolute value."""
    return lanes(lanes), _call("llvm.fabs", 1)


@intrinsic
def sqrt(typing, a):
    """Square root."""
    return lanes(lanes), _call("llvm.sqrt", 1)


@intrinsic
def copysign(typing, a, b):
    """The magnitude of a with the sign of b."""
    return lanes(lanes, lanes), _call("llvm.copysign", 2)


@intrinsic
def where(typing, choice, a, b):
    """a where ``choice`` is true, b elsewhere."""
    return lanes(mask, lanes, lanes), lambda context, builder, sig, args: builder.select(*args)


@intrinsic
def splat(typing, number):
    """One scalar in all lanes."""

    def emit(context, builder, sig, args):
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), order)

    return lanes(types.float64), emit


@intrinsic
def sum_lanes(typing, a):
    """The sum over the lanes, in a fixed order."""

    def emit(context, builder, sig, args):
        (total,) = args
        for half in (4, 2, 1):
            order = [*range(half, 2 * half), *([0] * (LANES - half))]
            moved = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
            total = builder.fadd(total, builder.shuffle_vector(total, total, moved))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return types.float64(lanes), emit


def _place(context, builder, array_type, array, index):
    """Address of elements ``8 * index`` and following of a contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    first = builder.gep(data, [builder.mul(index, ir.Constant(index.type, LANES))])
    return builder.bitcast(first, _VECTOR.as_pointer())


@intrinsic
def load(typing, array, index):
    """Elements ``8 * index`` to ``8 * index + 7`` of a contiguous float64 array."""

    def emit(context, builder, sig, args):
        return builder.load(_place(context, builder, sig.args[0], args[0], args[1]), align=8)

    return lanes(array, types.int64), emit


@intrinsic
def store(typing, array, index, a):
    """Write elements ``8 * index`` to ``8 * index + 7`` of a contiguous float64 array."""

    def emit(context, builder, sig, args):
        builder.store(args[2], _place(context, builder, sig.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), emit


@jit
def aligned_zeros(count):
    """``count`` vectors of zeros, aligned to a cache line."""
    raw = np.zeros(LANES * count + LANES - 1)
    skip = (-raw.ctypes.data % 64) // 8
    return raw[skip : skip + LANES * count]
