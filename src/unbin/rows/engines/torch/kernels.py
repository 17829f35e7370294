"""Kernels in Triton that make a whole pass over rows at once; imported on CUDA machines only.

A program works through a *chunk*, some neighbouring tiles of one block, and writes the sums of its
rows: nothing is added up across programs, so that sums are made in the same order every time. All
work is in double precision, whatever rows are stored in. Formulas are those of ``NormalBins`` and
``LogisticBins``, which say how they stay right in the tails and in narrow bins.
"""
# mypy: disable-error-code="assignment, no-untyped-call, no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

_DOUBLE = tl.constexpr(tl.float64)


@triton.jit(
    do_not_specialize=[
        "edge_stride", "share_stride", "end_stride", "move_stride", "sd_stride", "out_stride",
    ]
)  # fmt: skip
def moment_kernel(
    matrix, eta, weights, first, last, block, edges, shares, ends, moves, sds, nodes, numbers, out,
    edge_stride, share_stride, end_stride, move_stride, sd_stride, out_stride,
    EVEN: tl.constexpr, ODD: tl.constexpr, CENTRE: tl.constexpr,
    NORMAL: tl.constexpr, WIDTH: tl.constexpr, BINS: tl.constexpr, ADJACENT: tl.constexpr,
    OPEN_LOW: tl.constexpr, OPEN_HIGH: tl.constexpr, HOLDS: tl.constexpr, NARROW: tl.constexpr,
    POINTS: tl.constexpr, WEIGHTED: tl.constexpr, CHECKS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write Σ q, Σ x dq/deta, Σ dq/dlog sigma and Σ q qᵀ of each chunk, as ``laid_out`` reads them.

    With ``CHECKS`` Σ x² dq/deta and Σ x dq/dlog sigma follow.
    """
    chunk = tl.program_id(0).to(tl.int64)
    begin, end, b = tl.load(first + chunk), tl.load(last + chunk), tl.load(block + chunk)
    edges += b * edge_stride
    shares += b * share_stride
    ends += b * end_stride
    move, sd = tl.load(moves + b * move_stride), tl.load(sds + b * sd_stride)
    # numbers that are passed by value would be in single precision
    unit, density = tl.load(numbers), tl.load(numbers + 1)
    per_sigma, narrow_share = tl.load(numbers + 2), tl.load(numbers + 3)
    column, bin_ = tl.arange(0, COLUMNS), tl.arange(0, PADDED)
    by_q = tl.zeros((PADDED, PADDED), _DOUBLE)
    by_x = tl.zeros((PADDED, COLUMNS), _DOUBLE)
    by_scale = tl.zeros((PADDED, COLUMNS if CHECKS else PADDED), _DOUBLE)
    by_square = tl.zeros((PADDED, COLUMNS), _DOUBLE)
    for low in range(begin, end, ROWS):
        row = low + tl.arange(0, ROWS)
        here = row < end
        place = row[:, None] * WIDTH + column[None, :]
        x = tl.load(matrix + place, mask=here[:, None] & (column[None, :] < WIDTH), other=0.0)
        if matrix.dtype.element_ty != tl.float64:
            # a sum over one number: products of what was just turned into doubles do not compile
            x = tl.sum(x.to(tl.float64)[:, :, None], axis=2)
        at = tl.load(eta + row, mask=here, other=0.0)
        if WEIGHTED:  # noqa: SIM108
            people = tl.load(weights + row, mask=here, other=0.0)
        else:
            people = here.to(tl.float64)
        if POINTS == 1:
            q, slope, scale = _bins(
                at + move, edges, shares, ends, unit, density, per_sigma, narrow_share, EVEN, ODD,
                CENTRE, NORMAL, BINS, ADJACENT, OPEN_LOW, OPEN_HIGH, HOLDS, NARROW, PADDED,
            )  # fmt: skip
        else:
            q = tl.zeros((ROWS, PADDED), _DOUBLE)
            slope = tl.zeros((ROWS, PADDED), _DOUBLE)
            scale = tl.zeros((ROWS, PADDED), _DOUBLE)
            for j in range(POINTS):
                weight = tl.load(nodes + (POINTS + j))
                more_q, more_slope, more_scale = _bins(
                    at + move + sd * tl.load(nodes + j), edges, shares, ends, unit, density,
                    per_sigma, narrow_share, EVEN, ODD, CENTRE, NORMAL, BINS, ADJACENT, OPEN_LOW,
                    OPEN_HIGH, HOLDS, NARROW, PADDED,
                )  # fmt: skip
                q += weight * more_q
                slope += weight * more_slope
                scale += weight * more_scale
        # a bin that everybody is in gives sums of what is not multiplied by q
        q = tl.where(bin_[None, :] == BINS, 1.0, q)
        by_q = tl.dot(tl.trans(q * people[:, None]), q, by_q, out_dtype=tl.float64)
        weighed = x * people[:, None] if WEIGHTED else x
        turned = tl.trans(slope)
        by_x = tl.dot(turned, weighed, by_x, out_dtype=tl.float64)
        if CHECKS:
            by_square = tl.dot(turned, weighed * x, by_square, out_dtype=tl.float64)
            if NORMAL:
                by_scale = tl.dot(tl.trans(scale), weighed, by_scale, out_dtype=tl.float64)
        elif NORMAL:
            by_scale = tl.dot(tl.trans(scale * people[:, None]), q, by_scale, out_dtype=tl.float64)
    out += chunk * out_stride
    is_bin, is_column = bin_ < BINS, column < WIDTH
    tl.store(
        out + bin_[:, None] + 0 * bin_[None, :], by_q,
        mask=is_bin[:, None] & (bin_[None, :] == BINS),
    )  # fmt: skip
    out += BINS
    tl.store(
        out + bin_[:, None] * WIDTH + column[None, :], by_x,
        mask=is_bin[:, None] & is_column[None, :],
    )  # fmt: skip
    out += BINS * WIDTH
    if NORMAL:
        if CHECKS:
            tl.store(
                out + bin_[:, None] + 0 * column[None, :], by_scale,
                mask=is_bin[:, None] & (column[None, :] == 0),
            )  # fmt: skip
        else:
            tl.store(
                out + bin_[:, None] + 0 * bin_[None, :], by_scale,
                mask=is_bin[:, None] & (bin_[None, :] == BINS),
            )  # fmt: skip
        out += BINS
    tl.store(
        out + bin_[:, None] * BINS + bin_[None, :], by_q, mask=is_bin[:, None] & is_bin[None, :]
    )
    if CHECKS:
        out += BINS * BINS - 1  # the first column is no feature
        features = is_bin[:, None] & is_column[None, :] & (column[None, :] > 0)
        place = bin_[:, None] * (WIDTH - 1) + column[None, :]
        tl.store(out + place, by_square, mask=features)
        if NORMAL:
            tl.store(out + BINS * (WIDTH - 1) + place, by_scale, mask=features)


# -- bins of rows ----------------------------------------------------------------------------------


@triton.jit
def _bins(
    eta, edges, shares, ends, unit, density, per_sigma, narrow_share,
    EVEN: tl.constexpr, ODD: tl.constexpr, CENTRE: tl.constexpr, NORMAL: tl.constexpr,
    BINS: tl.constexpr, ADJACENT: tl.constexpr, OPEN_LOW: tl.constexpr, OPEN_HIGH: tl.constexpr,
    HOLDS: tl.constexpr, NARROW: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Return q, dq/deta and dq/dlog sigma, each (rows, PADDED); the last of a normal law only."""
    nothing = eta * 0.0
    all_q, all_slope, all_scale = (), (), ()
    one, two, three, four = _edge(eta, edges, unit, EVEN, ODD, CENTRE, NORMAL, OPEN_LOW, False)
    for k in tl.static_range(PADDED):
        if k < BINS:
            if ADJACENT:
                upper = edges + (k + 1)
            else:
                if k > 0:
                    one, two, three, four = _edge(
                        eta, edges + k, unit, EVEN, ODD, CENTRE, NORMAL, False, False
                    )
                upper = edges + (BINS + k)
            one_up, two_up, three_up, four_up = _edge(
                eta, upper, unit, EVEN, ODD, CENTRE, NORMAL, False, OPEN_HIGH and k == BINS - 1
            )
            if NORMAL:
                q = (one - one_up) + (two - two_up)
                slope = density * (three - three_up)
                scale = (density / unit) * (four - four_up)
                if NARROW:
                    q, slope, scale = _narrow(
                        eta, tl.load(ends + k), tl.load(ends + (BINS + k)),
                        tl.maximum(tl.abs(two), tl.abs(two_up)), per_sigma, narrow_share,
                        q, slope, scale,
                    )  # fmt: skip
                if HOLDS:
                    share = tl.load(shares + k)
                    q, slope, scale = q * share, slope * share, scale * share
            else:
                q = one_up * two * tl.load(shares + k)
                slope = q * (one - two_up)
                scale = nothing
            one, two, three, four = one_up, two_up, three_up, four_up
        else:
            q, slope, scale = nothing, nothing, nothing
        all_q = all_q + (q,)  # noqa: RUF005
        all_slope = all_slope + (slope,)  # noqa: RUF005
        all_scale = all_scale + (scale,)  # noqa: RUF005
    return _beside(all_q, PADDED), _beside(all_slope, PADDED), _beside(all_scale, PADDED)


@triton.jit
def _edge(
    eta, edge, unit, EVEN: tl.constexpr, ODD: tl.constexpr, CENTRE: tl.constexpr,
    NORMAL: tl.constexpr, OPEN_LOW: tl.constexpr, OPEN_HIGH: tl.constexpr,
):  # fmt: skip
    """Return what bins are made of at one edge.

    Of a normal law: whether the edge is below the mean, half erfc|x| with the sign of x, exp(-x²)
    and x exp(-x²) at x = (edge - eta) / (sigma sqrt 2). Of a logistic one G(edge - eta),
    G(eta - edge), and nothing.
    """
    nothing = eta * 0.0
    if OPEN_LOW:
        if NORMAL:
            return nothing + 1.0, nothing, nothing, nothing
        else:  # noqa: RET505
            return nothing, nothing + 1.0, nothing, nothing
    elif OPEN_HIGH:
        if NORMAL:
            return nothing, nothing, nothing, nothing
        else:  # noqa: RET505
            return nothing + 1.0, nothing, nothing, nothing
    elif NORMAL:
        x = tl.load(edge) - eta * unit
        size, f = tl.abs(x), tl.exp(-x * x)
        wide = 1.0 + 2.0 * size
        inverse = 1.0 / ((size + CENTRE) * wide)
        t = (size - CENTRE) * wide * inverse
        s = t * t
        even, odd = s * EVEN[0] + EVEN[1], nothing + ODD[0]
        for j in tl.static_range(1, 10):
            even = even * s + EVEN[j + 1]
            odd = odd * s + ODD[j]
        tail = 0.5 * f * (even + t * odd) * (size + CENTRE) * inverse
        below = x < 0
        return tl.where(below, 1.0, nothing), tl.where(below, -tail, tail), f, x * f
    else:
        t = eta - tl.load(edge)
        odds = tl.exp(-tl.abs(t))
        larger = 1.0 / (1.0 + odds)
        smaller = odds * larger
        above = t > 0
        return tl.where(above, smaller, larger), tl.where(above, larger, smaller), nothing, nothing


@triton.jit
def _narrow(eta, low, high, beyond, per_sigma, narrow_share, q, slope, scale):
    """Replace a normal bin by density times width where it is narrow."""
    width = eta * 0.0 + (high - low) * per_sigma
    narrow = (q < narrow_share * beyond) & (width > 0)
    width = tl.where(narrow, width, 0.0)
    middle = tl.where(narrow, (low - eta) * per_sigma + 0.5 * width, 0.0)
    a, b = middle - 0.28867513459481287 * width, middle + 0.28867513459481287 * width
    half = 0.5 * 0.3989422804014327 * width
    f, g = half * tl.exp(-0.5 * a * a), half * tl.exp(-0.5 * b * b)
    return (
        tl.where(narrow, f + g, q),
        tl.where(narrow, (f * a + g * b) * per_sigma, slope),
        tl.where(narrow, f * (a * a - 1.0) + g * (b * b - 1.0), scale),
    )


@triton.jit
def _beside(parts, SIZE: tl.constexpr):
    """Put numbers of rows side by side, (rows, SIZE)."""
    if SIZE >= 32:
        parts = _pairs(parts, 16)
    if SIZE >= 16:
        parts = _pairs(parts, 8)
    if SIZE >= 8:
        parts = _pairs(parts, 4)
    if SIZE >= 4:
        parts = _pairs(parts, 2)
    both = tl.join(parts[0], parts[1])
    return tl.reshape(both, (both.shape[0], SIZE))


@triton.jit
def _pairs(parts, HALF: tl.constexpr):
    found = ()
    for i in tl.static_range(HALF):
        found = found + (tl.join(parts[i], parts[i + HALF]),)  # noqa: RUF005
    return found


# -- sums of columns -------------------------------------------------------------------------------


@triton.jit
def power_kernel(
    matrix, weights, first, last, out, WIDTH: tl.constexpr, POWERS: tl.constexpr,
    WEIGHTED: tl.constexpr, SHIFTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write Σ x, Σ x², ... of each column over the rows of each chunk, (chunks, POWERS, WIDTH).

    With ``SHIFTED`` those of the distances to the first row of the chunk.
    """
    chunk = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(first + chunk), tl.load(last + chunk)
    column = tl.arange(0, COLUMNS)
    if SHIFTED:
        shift = tl.load(matrix + begin * WIDTH + column, mask=column < WIDTH, other=0.0)
        shift = shift.to(tl.float64)[None, :]
    one = tl.zeros((ROWS, COLUMNS), _DOUBLE)
    two = tl.zeros((ROWS, COLUMNS), _DOUBLE)
    three = tl.zeros((ROWS, COLUMNS), _DOUBLE)
    four = tl.zeros((ROWS, COLUMNS), _DOUBLE)
    for low in range(begin, end, ROWS):
        row = low + tl.arange(0, ROWS)
        here = (row < end)[:, None] & (column[None, :] < WIDTH)
        x = tl.load(matrix + row[:, None] * WIDTH + column[None, :], mask=here, other=0.0)
        x = x.to(tl.float64)
        if SHIFTED:
            x = tl.where(here, x - shift, 0.0)
        weighed = x
        if WEIGHTED:
            weighed = x * tl.load(weights + row, mask=row < end, other=0.0).to(tl.float64)[:, None]
        one += weighed
        if POWERS > 1:
            two += weighed * x
        if POWERS > 2:
            three += weighed * x * x
        if POWERS > 3:
            four += weighed * x * x * x
    out += chunk * (POWERS * WIDTH) + column
    tl.store(out, tl.sum(one, axis=0), mask=column < WIDTH)
    if POWERS > 1:
        tl.store(out + WIDTH, tl.sum(two, axis=0), mask=column < WIDTH)
    if POWERS > 2:
        tl.store(out + 2 * WIDTH, tl.sum(three, axis=0), mask=column < WIDTH)
    if POWERS > 3:
        tl.store(out + 3 * WIDTH, tl.sum(four, axis=0), mask=column < WIDTH)


@triton.jit(do_not_specialize=["n_rows", "chunk_rows"])
def gram_kernel(
    matrix, weights, out, n_rows, chunk_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write Σ w x xᵀ over the rows of each chunk, (chunks, WIDTH, WIDTH)."""
    chunk = tl.program_id(0).to(tl.int64)
    begin = chunk * chunk_rows
    end = tl.minimum(begin + chunk_rows, n_rows)
    column = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, COLUMNS), _DOUBLE)
    for low in range(begin, end, ROWS):
        row = low + tl.arange(0, ROWS)
        here = (row < end)[:, None] & (column[None, :] < WIDTH)
        x = tl.load(matrix + row[:, None] * WIDTH + column[None, :], mask=here, other=0.0)
        if matrix.dtype.element_ty != tl.float64:
            x = tl.sum(x.to(tl.float64)[:, :, None], axis=2)
        weight = tl.load(weights + row, mask=row < end, other=0.0)
        total = tl.dot(tl.trans(x * weight[:, None]), x, total, out_dtype=tl.float64)
    place = column[:, None] * WIDTH + column[None, :]
    inside = (column[:, None] < WIDTH) & (column[None, :] < WIDTH)
    tl.store(out + chunk * (WIDTH * WIDTH) + place, total, mask=inside)


# -- layout ----------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["n_rows"])
def fill_kernel(
    x, slots, center, divide, matrix, n_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Put 1 and the standardised columns of each row into its slot of ``matrix``."""
    chunk = tl.program_id(0).to(tl.int64)
    row, column = chunk * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside, feature = row < n_rows, (column > 0) & (column < WIDTH)
    slot = tl.load(slots + row, mask=inside, other=0)
    place = row[:, None] * (WIDTH - 1) + column[None, :] - 1
    values = tl.load(x + place, mask=inside[:, None] & feature[None, :], other=0.0).to(tl.float64)
    shift = tl.load(center + column - 1, mask=feature, other=0.0)
    by = tl.load(divide + column - 1, mask=feature, other=1.0)
    values = tl.where(feature[None, :], (values - shift[None, :]) / by[None, :], 1.0)
    tl.store(
        matrix + slot[:, None] * WIDTH + column[None, :],
        values.to(matrix.dtype.element_ty),
        mask=inside[:, None] & (column[None, :] < WIDTH),
    )
