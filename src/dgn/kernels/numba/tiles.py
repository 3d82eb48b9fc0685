"""A block of a matrix product whose sums stay in vector registers (Numba).

Products here have many rows and few columns. A library spends a fifth of its time on packing them, and a second team of
threads on waiting; a block of eight rows by up to 48 columns needs no packing, and runs in whichever thread calls it.
"""

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dgn.kernels.numba.simd import WIDTH, spread_number

ROWS = 8  # of a block


def rows_at_once(bits, vectors):
    """How many of the rows of a block the registers hold, a quarter of them left for operands."""
    has = binding.get_host_cpu_features()
    count, width = (32, 512) if has.get("avx512f") else (32, 128) if has.get("neon") else (16, 256)
    room = 3 * count * width // (4 * WIDTH * bits * vectors)
    return max(size for size in (1, 2, 4, ROWS) if size <= max(room, 1))


class _Emitter:
    """Writes one block, some rows at a time; addresses are whole numbers."""

    def __init__(self, context, builder, number):
        self.context, self.builder = context, builder
        self.number, self.size = context.get_data_type(number), number.bitwidth // 8
        self.vector, self.integer = ir.VectorType(self.number, WIDTH), context.get_value_type(types.intp)

    def address(self, kind, array, row, column):
        """Where an element of a matrix lies, and how far its rows and columns are apart."""
        parts = self.context.make_array(kind)(self.context, self.builder, array)
        down, right = cgutils.unpack_tuple(self.builder, parts.strides, 2)
        place = self.builder.ptrtoint(parts.data, self.integer)
        return self.after(self.after(place, down, row), right, column), down, right

    def after(self, place, step, count):
        count = ir.Constant(self.integer, count) if isinstance(count, int) else count
        return self.builder.add(place, self.builder.mul(step, count))

    def vectors(self, place, count):
        lanes = ir.Constant(self.integer, self.size * WIDTH)
        return [self.builder.inttoptr(self.after(place, lanes, v), self.vector.as_pointer()) for v in range(count)]

    def load(self, pointers):
        return [self.builder.load(pointer, align=self.size) for pointer in pointers]

    def loop(self, count, places, steps, sums, body):
        """``sums`` after ``body(places, sums)`` has run ``count`` times, places moving on by their steps."""
        builder, before = self.builder, self.builder.block
        head, done = builder.append_basic_block("multiply"), builder.append_basic_block("multiplied")
        nothing = ir.Constant(self.integer, 0)
        builder.cbranch(builder.icmp_signed(">", count, nothing), head, done)
        builder.position_at_end(head)
        state = [(builder.phi(value.type), value) for value in (nothing, *places, *sums)]
        for phi, value in state:
            phi.add_incoming(value, before)
        counter, *rest = (phi for phi, _ in state)
        found = body(rest[: len(places)], rest[len(places) :])
        moved = [builder.add(place, step) for place, step in zip(rest, steps, strict=False)]
        next_counter = builder.add(counter, ir.Constant(self.integer, 1))
        for (phi, _), value in zip(state, (next_counter, *moved, *found), strict=True):
            phi.add_incoming(value, head)
        builder.cbranch(builder.icmp_signed("<", next_counter, count), head, done)
        builder.position_at_end(done)
        results = [builder.phi(self.vector) for _ in sums]
        for result, value, begun in zip(results, found, sums, strict=True):
            result.add_incoming(begun, before)
            result.add_incoming(value, head)
        return results

    def rows(self, left, apart, along, right, down, start, below, out, under, count, rows, vectors):
        """``out = start + left @ right`` for some rows: places, and the steps between rows and along the sum."""
        outs = [self.vectors(self.after(out, under, r), vectors) for r in range(rows)]
        sums = [value for r in range(rows) for value in self.load(self.vectors(self.after(start, below, r), vectors))]
        shape = ir.FunctionType(self.vector, [self.vector] * 3)
        fma = cgutils.get_or_insert_function(self.builder.module, shape, f"llvm.fma.v{WIDTH}f{8 * self.size}")

        def body(places, sums):
            of_right, found = self.load(self.vectors(places[1], vectors)), []
            for r in range(rows):
                pointer = self.builder.inttoptr(self.after(places[0], apart, r), self.number.as_pointer())
                factor = spread_number(self.builder, self.builder.load(pointer, align=self.size))
                found += [self.builder.call(fma, [factor, of_right[v], sums[r * vectors + v]]) for v in range(vectors)]
            return found

        for number, value in enumerate(self.loop(count, [left, right], [along, down], sums, body)):
            self.builder.store(value, outs[number // vectors][number % vectors], align=self.size)


def make_tile(rows, vectors, transposed=False):
    """``out[i : i + rows, j : j + 16 vectors] = start[...] + left[i : i + rows, k : l] @ right[k : l, j : ...]``.

    ``start`` of one row is added to all rows. Transposed, the block is that of ``left[k : l].T @ right[k : l]``.
    """

    @intrinsic
    def tile(typing, left, right, start, out, i, j, k, l):  # noqa: E741
        def emit(context, builder, signature, arguments):
            write = _Emitter(context, builder, left.dtype)
            i, j, k, last = arguments[4:]
            count = builder.sub(last, k)
            ahead, *steps = write.address(left, arguments[0], *((k, i) if transposed else (i, k)))
            along, apart = steps if transposed else reversed(steps)
            of_right, down, _ = write.address(right, arguments[1], k, j)
            height = cgutils.unpack_tuple(builder, context.make_array(start)(context, builder, arguments[2]).shape)[0]
            single = builder.icmp_signed("==", height, ir.Constant(height.type, 1))
            nothing = ir.Constant(write.integer, 0)
            begun, below, _ = write.address(start, arguments[2], builder.select(single, nothing, i), j)
            below = builder.select(single, nothing, below)
            place, under, _ = write.address(out, arguments[3], i, j)
            some = min(rows, rows_at_once(left.dtype.bitwidth, vectors))
            for first in range(0, rows, some):
                shifted = (write.after(*pair, first) for pair in ((ahead, apart), (begun, below), (place, under)))
                of_left, of_start, of_out = shifted
                write.rows(
                    of_left, apart, along, of_right, down, of_start, below, of_out, under, count, some, vectors
                )  # fmt: skip
            return context.get_dummy_value()

        whole = types.intp
        return types.void(left, right, start, out, whole, whole, whole, whole), emit

    return tile
