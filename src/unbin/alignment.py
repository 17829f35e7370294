"""Whether a release and the rows of X are about the same blocks and people."""

from __future__ import annotations

import numpy as np

from unbin.exceptions import AlignmentError
from unbin.typing import BoolArray, IntArray, TextArray
from unbin.words import plural


def find_blocks(known: TextArray, wanted: TextArray) -> IntArray:
    """Return where each wanted block is among the known ones; both are sorted and distinct."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    unknown = known[place] != wanted
    if unknown.any():
        raise _unknown_blocks(known, wanted[unknown])
    return np.asarray(place)


def check_all_present(blocks: TextArray, published: BoolArray, place: IntArray) -> None:
    """Raise if a published block has no rows."""
    absent = published.copy()
    absent[place] = False
    if absent.any():
        raise AlignmentError(
            f"block {str(blocks[np.argmax(absent)])!r}: released, but no row of X is in it, got "
            f"{plural(int(absent.sum()), 'such block')}; select() the blocks of X or add the "
            "missing people"
        )


def check_totals(blocks: TextArray, n: IntArray, known: BoolArray, rows: IntArray) -> None:
    """Raise if the release counts other people than X, naming the worst blocks."""
    off = known & (n != rows)
    if not off.any():
        return
    worst = np.argsort(-np.abs(np.where(off, n - rows, 0)), kind="stable")[:3]
    told = "; ".join(
        f"block {str(blocks[b])!r}: the release counts {n[b]:,} people, "
        f"X has {plural(int(rows[b]), 'row')}"
        for b in worst
        if off[b]
    )
    raise AlignmentError(
        f"{told} ({int(off.sum())} of {len(rows)} blocks differ); check for missing rows or wrong "
        "block ids"
    )


def _unknown_blocks(known: TextArray, unknown: TextArray) -> AlignmentError:
    first = str(unknown[0])
    bare = {str(name).lstrip("0"): str(name) for name in known}
    twin = bare.get(first.lstrip("0"))
    if twin is not None:
        hint = (
            f"the release has {twin!r}: a leading zero was lost; read block ids as text, or pad "
            f"them with str.zfill({len(max(twin, first, key=len))})"
        )
    else:
        more = ", …" if len(known) > 3 else ""
        some = ", ".join(repr(str(name)) for name in known[:3])
        hint = f"the release has {some}{more}; check the ids"
    return AlignmentError(
        f"block {first!r}: must be in the release, got {plural(len(unknown), 'block')} in X that "
        f"{'is' if len(unknown) == 1 else 'are'} not; {hint}"
    )
