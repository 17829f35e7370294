"""The audit: check what was asked for, audit every planned table, and return the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, product
from typing import Any

from rich.console import Console

from unbin._checks import (
    check_choices,
    check_flag,
    check_generator,
    check_number,
    check_share,
    check_whole,
)
from unbin._typing import ArrayLike
from unbin.disclosure.assessment import Settings, Task, audit_table, audit_together
from unbin.disclosure.attacks import ATTACKS
from unbin.disclosure.inputs import plans_of, read_records
from unbin.disclosure.protections import Protection
from unbin.disclosure.results import Audit, PlannedTable
from unbin.disclosure.rules import smallest_allowed


def audit(
    X: ArrayLike,
    y: ArrayLike,
    blocks: Any = None,
    bins: Sequence[int | ArrayLike] | str | None = None,
    *,
    weights: ArrayLike | None = None,
    together: bool = True,
    target_transform: str | None = None,
    families: str | Sequence[str] = "auto",
    attacks: str | Sequence[str] = ATTACKS,
    held_out: float = 0.2,
    rule: str | int = "cms",
    suppress: int | None = None,
    complementary: bool = False,
    round: int | None = None,  # noqa: A002 - the word that agencies use
    noise: str | None = None,
    min_utility: float = 0.8,
    max_gain: float | None = None,
    n_permutations: int = 199,
    level: float = 0.95,
    random_state: int | None = None,
    progress: bool | Callable[[str], None] = False,
) -> Audit:
    """Measure what planned tables would disclose, before they are published.

    For data stewards who hold the individual records. Each planned table is made, attacked with the
    features of the people in it, and compared with what its histograms reveal without features. See
    docs/howto/audit.md for what the numbers mean.

    Parameters
    ----------
    X : (n, d)
        What an attacker may know about each person.
    y : (n,)
        The value to be published as a table: numbers, or names of categories.
    blocks : (n,) block ids, mapping of level name to block ids, or None
        Several levels are audited separately, and then together: what an attacker can learn from
        all their tables at once. A frame of several columns is a crossed table. None, or a level
        that is None, is everybody in one block.
    bins : sequence of int or edges, optional
        Planned tables: numbers of bins at the pooled quantiles, or edges; 2, 5, 10 and 25 when left
        out. Categories have none: their table is that of ``unbin.aggregate(y, blocks)``.
        "categories" takes whole numbers for names of categories.
    weights : (n,), optional
        How many people have these features, this value and these blocks: whole numbers. Each of
        them is audited, as if their row were repeated.
    together : bool
        Whether tables of several levels are audited together, too; False where they are
        alternatives, of which one will be published.
    target_transform : {None, "log"}
        "log" attacks the log of the value and squares errors of logs: for amounts.
    families : "auto", str or sequence of str
        The families that attackers fit. "auto" is every family that can have produced the table,
        except gamma, which takes minutes. Categories are fitted by a multinomial logit.
    attacks : {"matching", "likelihood", "ridge"}, or a sequence of them
        Matching does not apply to categories.
    held_out : float
        Share of the people of each block who are left out of the audited tables.
    rule : {"cms", "wonder", "nhs"} or int
        The smallest count that may be published: 11, 10, 8, or the number.
    suppress : int, optional
        Audit the tables with counts under this hidden, too.
    complementary : bool
        With ``suppress``: hide further counts, so that totals do not give hidden ones away.
    round : int, optional
        Audit the tables with counts rounded to this base, too.
    noise : str, optional
        "laplace:EPSILON" audits the tables with Laplace noise of scale 1/EPSILON added, too; see
        :class:`unbin.disclosure.protections.Protection` for what that protects.
    min_utility : float
        Of the recommended table; see :class:`unbin.disclosure.utility.Utility`.
    max_gain : float, optional
        The largest gain of a table that is recommended.
    n_permutations : int
        For the chance baseline; no fit is repeated.
    level : float
        Coverage of the intervals.
    random_state : int, optional
    progress : bool or callable
        Show what is going on, or call this with it.

    Returns
    -------
    Audit
        Prints as a table; ``to_frame()``, ``to_json()``, ``recommended``, ``gain``.

    Examples
    --------
    >>> import numpy as np, unbin
    >>> rng = np.random.default_rng(0)
    >>> county = np.repeat(np.arange(40).astype(str), 50)
    >>> X = rng.normal(size=(2000, 2)) + rng.normal(size=(40, 2)).repeat(50, axis=0)
    >>> y = X @ [1.0, -0.5] + 0.3 * rng.normal(size=2000)
    >>> found = unbin.audit(X, y, county, bins=[5], attacks=("likelihood",), random_state=0)
    >>> found.gain > 0.8
    True
    """
    rng = check_generator(random_state)
    records = read_records(
        X,
        y,
        blocks,
        bins=bins,
        weights=weights,
        target_transform=target_transform,
        held_out=held_out,
        rng=rng,
    )
    plans = plans_of(bins, records)
    protection = Protection.parse(suppress, complementary, round, noise)
    settings = Settings(
        attacks=check_choices("attacks", attacks, ATTACKS),
        families=families,
        smallest=smallest_allowed(rule),
        n_permutations=check_whole("n_permutations", n_permutations, low=1),
        level=check_share("level", level),
        seed=int(rng.integers(2**31)),
    )
    utility = check_number("min_utility", min_utility, low=0.0)
    limit = None if max_gain is None else check_number("max_gain", max_gain, low=0.0)
    versions = [None] if protection is None else [None, protection]
    joined = records.published_together if check_flag("together", together) else ()
    alone: dict[str, list[PlannedTable]] = {name: [] for name in records.levels}
    both: list[PlannedTable] = []
    with _teller(progress) as tell:
        for plan, version in product(plans, versions):
            found = [
                audit_table(Task(records, name, k, ids, plan, version, settings), tell)
                for k, (name, ids) in enumerate(records.levels.items())
            ]
            for each in found:
                alone[each.task.level].append(each.table)
            if joined:
                chosen = [each for each in found if each.task.level in joined]
                both.append(audit_together(chosen, tell))
    tables = [*chain.from_iterable(alone.values()), *both]
    return Audit(
        tables=tuple(tables),
        n_people=len(records.y),
        n_held_out=int(records.held_out.sum()),
        feature_names=records.feature_names,
        log=records.log,
        categories=records.categories,
        min_utility=utility,
        max_gain=limit,
        level=settings.level,
        n_permutations=settings.n_permutations,
    )


def _teller(
    progress: bool | Callable[[str], None],
) -> AbstractContextManager[Callable[[str], None]]:
    """Return what is called with the progress of the audit."""
    if callable(progress):
        return nullcontext(progress)
    return _spinner() if progress else nullcontext(lambda _: None)


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    with Console(stderr=True).status("auditing") as status:
        yield lambda text: status.update(text)
