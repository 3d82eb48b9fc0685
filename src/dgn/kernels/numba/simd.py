"""SIMD vectors of sixteen channels as Numba values.

The compiler vectorises a plain loop over channels only behind checks that arrays do not overlap, and handles the
remainder one by one. Kernels written with these values hold their sums in registers. Lanes are independent. Without
wide registers LLVM uses several narrow ones.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 16
_FUSE = ("contract",)  # a product and a sum may become one instruction


class Lanes(types.Type):
    """A vector of ``WIDTH`` scalars of one type."""

    def __init__(self, scalar):
        self.scalar = scalar
        super().__init__(name=f"Lanes({scalar})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.scalar).get_value_type(), WIDTH))


def _place(context, builder, signature, arguments):
    """Address of the first lane in an array whose last axis is contiguous; bounds are not checked."""
    array, indices = signature.args[:2]
    parts = context.make_array(array)(context, builder, arguments[0])
    place = builder.ptrtoint(parts.data, context.get_value_type(types.intp))
    strides = cgutils.unpack_tuple(builder, parts.strides, array.ndim)
    for index, index_type, stride in zip(cgutils.unpack_tuple(builder, arguments[1]), indices, strides, strict=True):
        place = builder.add(place, builder.mul(context.cast(builder, index, index_type, types.intp), stride))
    return builder.inttoptr(place, ir.VectorType(context.get_data_type(array.dtype), WIDTH).as_pointer())


@intrinsic
def load(typing, array, indices):
    """``array[i, c : c + WIDTH]`` for ``indices`` (i, c)."""

    def emit(context, builder, signature, arguments):
        return builder.load(_place(context, builder, signature, arguments), align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, indices), emit


@intrinsic
def load_part(typing, array, indices):
    """``load``, or 0 from an array without rows."""

    def emit(context, builder, signature, arguments):
        vector_type = ir.VectorType(context.get_data_type(array.dtype), WIDTH)
        loaded = cgutils.alloca_once_value(builder, ir.Constant(vector_type, None))
        rows = cgutils.unpack_tuple(builder, context.make_array(array)(context, builder, arguments[0]).shape)[0]
        with builder.if_then(builder.icmp_signed("!=", rows, ir.Constant(rows.type, 0))):
            place = _place(context, builder, signature, arguments)
            builder.store(builder.load(place, align=array.dtype.bitwidth // 8), loaded)
        return builder.load(loaded)

    return Lanes(array.dtype)(array, indices), emit


@intrinsic
def store(typing, array, indices, value):
    """``array[i, c : c + WIDTH] = value`` for ``indices`` (i, c)."""

    def emit(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, indices, value), emit


def splat_scalar(builder, number):
    vectors = ir.VectorType(number.type, WIDTH)
    one = builder.insert_element(ir.Constant(vectors, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(vectors, ir.Undefined), order)


@intrinsic
def splat(typing, number):
    """One scalar in all lanes."""
    return Lanes(number)(number), lambda context, builder, signature, arguments: splat_scalar(builder, arguments[0])


@intrinsic
def where_above(typing, a, b, yes, no):
    """``yes`` where a > b, else ``no``; false for NaN."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def where_larger(typing, a, b, yes, no):
    """``yes`` where a > b or a is NaN, else ``no``: NaN compares above all numbers."""

    def emit(context, builder, signature, arguments):
        above = builder.fcmp_ordered(">", *arguments[:2])
        return builder.select(builder.or_(above, builder.fcmp_unordered("uno", *arguments[:1] * 2)), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def where_equal(typing, a, b, yes, no):
    """``yes`` where the integers a and b are equal, else ``no``."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.icmp_signed("==", *arguments[:2]), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def as_floating(typing, a, like):
    """Integers converted to the floating-point type of ``like``."""
    return like(a, like), lambda context, builder, signature, arguments: builder.sitofp(arguments[0], arguments[1].type)


@intrinsic
def sqrt(typing, a):
    """Square root."""

    def emit(context, builder, signature, arguments):
        function_type = ir.FunctionType(arguments[0].type, [arguments[0].type])
        name = f"llvm.sqrt.v{WIDTH}f{a.scalar.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)

    return a(a), emit


def _define(operation, instruction, **flags):
    """Define an operator lane by lane; a scalar operand is broadcast."""

    @intrinsic
    def by_lane(typing, a, b):
        def emit(context, builder, signature, arguments):
            vectors = (x if isinstance(x.type, ir.VectorType) else splat_scalar(builder, x) for x in arguments)
            return getattr(builder, instruction)(*vectors, **flags)

        return (a if isinstance(a, Lanes) else b)(a, b), emit

    @overload(operation)
    def choose(a, b):
        scalars = {x.scalar if isinstance(x, Lanes) else x for x in (a, b)}
        if len(scalars) == 1 and (isinstance(a, Lanes) or isinstance(b, Lanes)):
            return lambda a, b: by_lane(a, b)
        return None


_define(operator.add, "fadd", flags=_FUSE)
_define(operator.sub, "fsub", flags=_FUSE)
_define(operator.mul, "fmul", flags=_FUSE)
_define(operator.truediv, "fdiv")
