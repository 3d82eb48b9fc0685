"""The small matrices of a convolution on the CPU (Numba), laid out as the products read them, and the way back."""

import numpy as np

from dgn.kernels.numba.jit import compiled, inlined


@compiled
def lay_out_ends(ends, own, message_bias, bias, there, start, back):
    """What a node is multiplied by, and what is added: for messages from it, messages to it, and itself.

    Shapes:
        ``ends`` [2 in, in], ``own`` [out, in]; ``there`` [in', 2 in' + out'], ``start`` [1, 2 in' + out'] and ``back``
        [2 in' + out', in'], of zeros, are filled in.
    """
    out, width = own.shape
    low = there.shape[0]
    for part in range(3):
        matrix, rows = (own, out) if part == 2 else (ends[part * width : (part + 1) * width], width)
        for o in range(rows):
            for i in range(width):
                there[i, part * low + o] = matrix[o, i]
                back[part * low + o, i] = matrix[o, i]
    start[0, low : low + width] = message_bias
    start[0, 2 * low : 2 * low + out] = bias


@inlined
def add_row(factor, row, out):
    """Add a multiple of a row to another one."""
    for i in range(len(row)):
        out[i] += factor * row[i]


@compiled
def lay_out_degrees(scaled, scale, width, there, back):
    r"""The matrix of each degree, :math:`\sum_s S_s(d) W_s`.

    Shapes:
        ``scaled`` [S * out, A * in], ``scale`` [D, S]; ``there`` [D, A * in', out'] and ``back`` [D, out', A * in'],
        of zeros, are filled in.
    """
    degrees, scalers = scale.shape
    out, aggregators = len(scaled) // scalers, scaled.shape[1] // width
    low = there.shape[1] // aggregators
    turned = np.empty((scalers, scaled.shape[1], out), scaled.dtype)
    for s in range(scalers):
        for o in range(out):
            for i in range(scaled.shape[1]):
                turned[s, i, o] = scaled[s * out + o, i]
    for degree in range(degrees):
        for s in range(scalers):
            factor = scale[degree, s]
            for a in range(aggregators):
                for i in range(width):
                    add_row(factor, turned[s, a * width + i], there[degree, a * low + i])
                for o in range(out):
                    add_row(factor, scaled[s * out + o, a * width : (a + 1) * width], back[degree, o, a * low :])


@compiled
def gather_ends(parts, sums, ends, own, message_bias, bias):
    """The gradients of what :func:`lay_out_ends` was given, from those of ``there``, turned, and ``start`` in parts.

    Shapes:
        ``parts`` [P, 2 in' + out', in'], ``sums`` [P, 2 in' + out'].
    """
    out, width = own.shape
    low = parts.shape[2]
    ends[:], own[:], message_bias[:], bias[:] = 0, 0, 0, 0
    for p in range(len(parts)):
        for o in range(width):
            message_bias[o] += sums[p, low + o]
            for i in range(width):
                ends[o, i] += parts[p, o, i]
                ends[width + o, i] += parts[p, low + o, i]
        for o in range(out):
            bias[o] += sums[p, 2 * low + o]
            for i in range(width):
                own[o, i] += parts[p, 2 * low + o, i]


@compiled
def gather_degrees(parts, degree, scale, width, scaled):
    """The gradient of ``scaled`` in :func:`lay_out_degrees`, from that of ``back`` in parts, each of one degree.

    Shapes:
        ``parts`` [P, out', A * in'], ``degree`` [P].
    """
    scalers = scale.shape[1]
    out, aggregators = len(scaled) // scalers, scaled.shape[1] // width
    low = parts.shape[2] // aggregators
    scaled[:] = 0
    for p in range(len(parts)):
        for s in range(scalers):
            for o in range(out):
                for a in range(aggregators):
                    row = parts[p, o, a * low : a * low + width]
                    add_row(scale[degree[p], s], row, scaled[s * out + o, a * width :])
