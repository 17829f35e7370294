"""Eight numbers at a time, in compiled loops.

The compiler vectorises long loops over arrays that cannot overlap. Loops of eight steps at places
that data decide it leaves alone; these functions are such loops, written out.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

EIGHT = 8
_VECTOR = ir.VectorType(ir.DoubleType(), EIGHT)
_FUSED = ("contract",)
_intrinsic: Any = intrinsic  # what it makes is called without the first argument


def _load(context: Any, builder: Any, kind: Any, array: Any, first: Any) -> Any:
    """Load eight numbers of an array, as if flat."""
    return builder.load(_place(context, builder, kind, array, first), align=8)


def _place(context: Any, builder: Any, kind: Any, array: Any, first: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [first]), _VECTOR.as_pointer())


def _repeated(builder: Any, number: Any) -> Any:
    """Return eight times the same number."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), [0] * EIGHT)
    return builder.shuffle_vector(one, nothing, mask)


@_intrinsic
def add_eight(typing, out, at, values, first, factor):  # type: ignore[no-untyped-def]
    """Add ``factor * values[first + p]`` to ``out[at + p]``, p = 0 … 7; arrays as if flat."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        place = _place(context, builder, kinds[0], args[0], args[1])
        more = _load(context, builder, kinds[2], args[2], args[3])
        more = builder.fmul(_repeated(builder, args[4]), more, flags=_FUSED)
        builder.store(
            builder.fadd(builder.load(place, align=8), more, flags=_FUSED), place, align=8
        )
        return context.get_dummy_value()

    return types.none(out, types.intp, values, types.intp, types.float64), generate


@_intrinsic
def combine_eight(typing, out, at, values, first, step, factors, i):  # type: ignore[no-untyped-def]
    """Add Σ_r factors[i + r] values[first + r step + p], r = 0 … 7, to ``out[at + p]``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, (_, _, _, first, step, _, i) = signature.args, args
        place = _place(context, builder, kinds[0], args[0], args[1])
        total = builder.load(place, align=8)
        factors = context.make_array(kinds[5])(context, builder, args[5]).data
        for r in range(EIGHT):
            here = ir.Constant(first.type, r)
            factor = builder.load(builder.gep(factors, [builder.add(i, here)]))
            at = builder.add(first, builder.mul(step, here))
            more = _load(context, builder, kinds[2], args[2], at)
            more = builder.fmul(_repeated(builder, factor), more, flags=_FUSED)
            total = builder.fadd(total, more, flags=_FUSED)
        builder.store(total, place, align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.none(out, whole, values, whole, whole, factors, whole), generate


@_intrinsic
def prefetch(typing, values, place):  # type: ignore[no-untyped-def]
    """Ask for ``values[place]``, as if flat, to be in the cache soon."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # to read, to be kept, of data
        rest = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(ask, [builder.bitcast(builder.gep(data, [args[1]]), byte), *rest])
        return context.get_dummy_value()

    return types.none(values, types.intp), generate
