"""Sixteen neighbouring channels as one value that Numba keeps in vector registers.

Left to itself the compiler turns a loop over channels into vector instructions only behind checks that arrays do not
overlap, and does the channels that fill no register one by one. Kernels written with these values hold their sums in
registers. Nothing crosses lanes. Without wide registers LLVM takes several narrow ones.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 16
_FUSE = ("contract",)  # a product and a sum may become one instruction


class Lanes(types.Type):
    """``WIDTH`` numbers of one kind."""

    def __init__(self, scalar):
        self.scalar = scalar
        super().__init__(name=f"Lanes({scalar})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.scalar).get_value_type(), WIDTH))


def _place(context, builder, signature, arguments):
    """Where lanes begin in an array: its last axis is contiguous, and nothing is checked."""
    array, indices = signature.args[:2]
    parts = context.make_array(array)(context, builder, arguments[0])
    place = builder.ptrtoint(parts.data, context.get_value_type(types.intp))
    strides = cgutils.unpack_tuple(builder, parts.strides, array.ndim)
    for index, kind, stride in zip(cgutils.unpack_tuple(builder, arguments[1]), indices, strides, strict=True):
        place = builder.add(place, builder.mul(context.cast(builder, index, kind, types.intp), stride))
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
        kind = ir.VectorType(context.get_data_type(array.dtype), WIDTH)
        found = cgutils.alloca_once_value(builder, ir.Constant(kind, None))
        rows = cgutils.unpack_tuple(builder, context.make_array(array)(context, builder, arguments[0]).shape)[0]
        with builder.if_then(builder.icmp_signed("!=", rows, ir.Constant(rows.type, 0))):
            place = _place(context, builder, signature, arguments)
            builder.store(builder.load(place, align=array.dtype.bitwidth // 8), found)
        return builder.load(found)

    return Lanes(array.dtype)(array, indices), emit


@intrinsic
def store(typing, array, indices, value):
    """``array[i, c : c + WIDTH] = value`` for ``indices`` (i, c)."""

    def emit(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, indices, value), emit


def spread_number(builder, number):
    wide = ir.VectorType(number.type, WIDTH)
    one = builder.insert_element(ir.Constant(wide, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(wide, ir.Undefined), order)


@intrinsic
def spread(typing, number):
    """One number in all lanes."""
    return Lanes(number)(number), lambda context, builder, signature, arguments: spread_number(builder, arguments[0])


@intrinsic
def where_above(typing, a, b, yes, no):
    """``yes`` where a > b, else ``no``; NaN is above nothing."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def where_larger(typing, a, b, yes, no):
    """``yes`` where a > b or a is NaN, else ``no``: NaN is above all numbers, and stays."""

    def emit(context, builder, signature, arguments):
        above = builder.fcmp_ordered(">", *arguments[:2])
        return builder.select(builder.or_(above, builder.fcmp_unordered("uno", *arguments[:1] * 2)), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def where_equal(typing, a, b, yes, no):
    """``yes`` where the whole numbers a and b are the same, else ``no``."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.icmp_signed("==", *arguments[:2]), *arguments[2:])

    return yes(a, b, yes, no), emit


@intrinsic
def as_floating(typing, a, like):
    """Whole numbers as floating-point numbers of the kind of ``like``."""
    return like(a, like), lambda context, builder, signature, arguments: builder.sitofp(arguments[0], arguments[1].type)


@intrinsic
def root(typing, a):
    """Square root."""

    def emit(context, builder, signature, arguments):
        kind = ir.FunctionType(arguments[0].type, [arguments[0].type])
        name = f"llvm.sqrt.v{WIDTH}f{a.scalar.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return a(a), emit


def _define(operation, instruction, **flags):
    """Let an operator act lane by lane; a number beside lanes stands in all of them."""

    @intrinsic
    def by_lane(typing, a, b):
        def emit(context, builder, signature, arguments):
            wide = (x if isinstance(x.type, ir.VectorType) else spread_number(builder, x) for x in arguments)
            return getattr(builder, instruction)(*wide, **flags)

        return (a if isinstance(a, Lanes) else b)(a, b), emit

    @overload(operation)
    def choose(a, b):
        kinds = {x.scalar if isinstance(x, Lanes) else x for x in (a, b)}
        if len(kinds) == 1 and (isinstance(a, Lanes) or isinstance(b, Lanes)):
            return lambda a, b: by_lane(a, b)
        return None


_define(operator.add, "fadd", flags=_FUSE)
_define(operator.sub, "fsub", flags=_FUSE)
_define(operator.mul, "fmul", flags=_FUSE)
_define(operator.truediv, "fdiv")
