"""An audit as one page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from unbin._checks import check_kind, check_texts
from unbin.disclosure.results import Audit
from unbin.disclosure.text import (
    TOGETHER,
    UNSURE,
    error_text,
    recommendation,
    together_rows,
    together_sentences,
)
from unbin.release.alignment import SMALL
from unbin.results.report.audit_facts import attack_rows, cell_rows, change_rows, facts, gain_rows
from unbin.results.report.page import NO_INPUTS, check_pictures, template, versions, when


def render_audit(
    audit: Audit,
    *,
    title: str,
    command: str = "",
    inputs: Mapping[str, str] = NO_INPUTS,
    created: datetime | str | None = None,
) -> str:
    """Return the report of an audit: one page that needs nothing else, not even a network.

    Nobody's value is in it, true or recovered, no block is named, and numbers of fewer than 11
    people are masked. The same audit gives the same page.

    Parameters
    ----------
    audit : Audit
    title : str
    command : str
        What was run, to be quoted.
    inputs : mapping of str to str
        Names of the input files and their hashes.
    created : datetime or str, optional

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(1000, 2, 20)
    >>> audit = unbin.audit(people.X, people.y, {"county": people.blocks}, bins=[3], random_state=0,
    ...                     attacks=("likelihood",), families=("gaussian",), n_permutations=19)
    >>> page = unbin.report.render_audit(audit, title="Incomes by county, before publication")
    >>> unbin.report.write_report("audit.html", page)
    """
    check_kind("audit", audit, Audit, instead="what unbin.audit returned")
    check_pictures("report")
    from unbin.results.report.audit_pictures import draw_audit
    from unbin.results.report.svg import settings

    with settings():
        pictures = draw_audit(audit)
    return template("audit.html.j2").render(
        title=title,
        recommendation=recommendation(audit),
        recommends=audit.recommended is not None,
        facts=facts(audit),
        pictures=pictures,
        gains=gain_rows(audit),
        changes=change_rows(audit),
        attacks=[(table.name, attack_rows(table)) for table in audit.tables],
        cells=cell_rows(audit),
        together_columns=TOGETHER,
        together=together_rows(audit),
        sentences=[text for table in audit.tables for text in together_sentences(audit, table)],
        unsure=UNSURE,
        rule=audit.tables[0].cells.smallest,
        smallest=SMALL,
        level=f"{100 * audit.level:g} %",
        min_utility=f"{audit.min_utility:g}",
        features=audit.feature_names,
        n_permutations=f"{audit.n_permutations:,}",
        error=error_text(audit),
        categories=audit.categories,
        command=command,
        inputs=check_texts("inputs", inputs),
        versions=versions(),
        created=when(created),
    )
