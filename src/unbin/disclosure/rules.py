"""The rules that agencies hold a table against, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbin._checks import check_choice, check_whole
from unbin._typing import BoolArray, FloatArray, IntArray
from unbin.disclosure.protections import Protection, rounded
from unbin.release import Release
from unbin.release.derivation import possible_counts

RULES = {"cms": 11, "wonder": 10, "nhs": 8}
"""The smallest count of people that each agency publishes."""
_UNLIKELY = 0.05
"""Share of noise that is left out of account where it is held against the rule."""


@dataclass(frozen=True, slots=True)
class CellCheck:
    """How a planned table stands to the rules; counts of cells, blocks and edges.

    Attributes
    ----------
    smallest : int
        The rule: no published count of fewer people, other than 0.
    n_cells : int
    smallest_block, smallest_cell : int
        People of the smallest block, and of the smallest cell that has any.
    blocks_under, cells_under : int
        Those with people, but fewer than the rule asks for.
    whole_blocks : int
        Blocks whose people are all in one bin: whoever knows the block knows the bin.
    edges_at_values, edges_at_rare_values : int
        Edges that equal somebody's value, and a value of fewer people than the rule asks for.
    publishes_minimum, publishes_maximum : bool
        Whether the lowest or the highest edge is somebody's value, and nobody's lies beyond.
    hidden : int
        Cells that the rule, or the protection, hides.
    derived, narrowed : int
        Hidden cells that totals of blocks and bins pin to one count, and to an interval that is
        shorter than the rule's.
    exact : bool
        Whether no further cell can be worked out from the totals; else there may be more.
    exposed : int
        Cells under the rule that the table, as it would be published, shows, or that it and its
        totals narrow to fewer than the ``smallest - 1`` counts that the rule leaves open.
    """

    smallest: int
    n_cells: int
    smallest_block: int
    smallest_cell: int
    blocks_under: int
    cells_under: int
    whole_blocks: int
    edges_at_values: int
    edges_at_rare_values: int
    publishes_minimum: bool
    publishes_maximum: bool
    hidden: int
    derived: int
    narrowed: int
    exact: bool
    exposed: int

    @property
    def within_rule(self) -> bool:
        """Whether no cell under the rule is exposed, for certain."""
        return self.exposed == 0 and (self.exact or self.cells_under == 0)


def smallest_allowed(rule: str | int) -> int:
    """Return the smallest count that a rule lets pass."""
    if isinstance(rule, str):
        return RULES[check_choice("rule", rule.lower(), tuple(RULES))]
    return check_whole("rule", rule, low=2)


def check_cells(
    y: FloatArray, release: Release, smallest: int, protection: Protection | None = None
) -> CellCheck:
    """Hold the table of everybody against the rules.

    Parameters
    ----------
    y : (n,)
        Everybody's values.
    release : Release
        Their table, unprotected, with the same bins in every block.
    smallest : int
    protection : Protection, optional
        Without one, the cells under the rule are taken to be hidden.
    """
    table = release.histogram
    count = table.count.reshape(len(release), -1)
    edges = np.concatenate([table.lower[: count.shape[1]], table.upper[count.shape[1] - 1 :][:1]])
    values, people = np.unique(y, return_counts=True)
    place = np.minimum(np.searchsorted(values, edges), len(values) - 1)
    at_value = values[place] == edges
    small = (count > 0) & (count < smallest)
    hidden, width, exact = _derivable(release, count, smallest, protection)
    used = protection or Protection()
    told = hidden & (used.epsilon is None)  # of noisy counts nothing can be worked out
    asked = (used.suppress or used.round or smallest) - 1
    shown = np.ones_like(width) if protection is None else width
    return CellCheck(
        smallest=smallest,
        n_cells=count.size,
        smallest_block=int(release.n.min()),
        smallest_cell=int(count[count > 0].min()),
        blocks_under=int((release.n < smallest).sum()),
        cells_under=int(small.sum()),
        whole_blocks=int((count.max(axis=1) == release.n).sum()),
        edges_at_values=int(at_value.sum()),
        edges_at_rare_values=int((at_value & (people[place] < smallest)).sum()),
        publishes_minimum=bool(edges[0] == values[0]),
        publishes_maximum=bool(edges[-1] == values[-1]),
        hidden=int(hidden.sum()),
        derived=int((told & (width == 1)).sum()),
        narrowed=int((told & (width > 1) & (width < asked)).sum()),
        exact=exact,
        exposed=int((small & (shown < smallest - 1)).sum()),
    )


def _derivable(
    release: Release, count: IntArray, smallest: int, protection: Protection | None
) -> tuple[BoolArray, IntArray, bool]:
    """Return which cells are hidden, how many counts each can be, and whether for certain.

    Of noisy counts no totals are published; each can be what 95 % of the noise may have made of it.
    """
    used = protection or Protection(suppress=smallest)
    hidden = used.hidden(release)
    if used.epsilon is not None:
        reach = int(-np.log(_UNLIKELY) / used.epsilon)
        return hidden, np.full(count.shape, 2 * reach + 1), True
    published = used.apply(release, np.random.default_rng(0)).histogram
    low, high = (end.reshape(count.shape) for end in published.interval())
    columns = None  # those of a single block are its counts
    if len(count) > 1:
        totals = count.sum(axis=0)
        columns = (totals, totals)
        if used.round is not None:
            columns = rounded(totals, used.round)
    found = possible_counts(low, high, (release.n, release.n), columns)
    return hidden, found.high - found.low + 1, found.exact
