"""What a fit is given: people as read and encoded, tied to their tables, and files by hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unbin.cli import options, standing

if TYPE_CHECKING:
    from unbin._typing import BoolArray, FloatArray
    from unbin.people.encoding import Encoding
    from unbin.people.reading import People
    from unbin.release import AggregatedTarget, Release
    from unbin.release.join import JoinedTarget

_MOST_NAMES = 6
"""Files that a title names."""


@dataclass(frozen=True, slots=True)
class Data:
    """People as read, and encoded.

    Attributes
    ----------
    everybody : People
    rows : People
        Those who are fitted.
    keep : (n,) bool
        Who of everybody they are.
    encoding : Encoding
    X : (n, d)
        Of those who are fitted.
    """

    everybody: People
    rows: People
    keep: BoolArray
    encoding: Encoding
    X: FloatArray


def read(
    people: str,
    formula: str,
    blocks: list[str],
    others: list[str],
    missing: str,
    clusters: Sequence[str] = (),
) -> Data:
    """Read people, their ids and other columns, and encode what the formula names."""
    import numpy as np

    from unbin.analysis import complete_rows
    from unbin.people.encoding import Encoding
    from unbin.people.formulas import parse_formula
    from unbin.people.reading import read_people, with_numbers

    parsed, ids = parse_formula(formula), [*options.block_columns(blocks), *clusters]
    everybody = read_people(
        people, text=[*ids, *parsed.categorical_columns], columns=[*ids, *parsed.columns, *others]
    )
    numbers = set(ids) - set(parsed.categorical_columns)
    keep = np.ones(len(everybody), dtype=bool)
    if missing == "drop":
        keep = complete_rows(with_numbers(everybody, numbers), parsed)
    rows = everybody if keep.all() else everybody.take(keep)
    how = "mean" if missing == "mean" else "error"
    first = options.block_ids(rows, blocks[0]) if blocks else None
    encoding, X = Encoding.build(formula, with_numbers(rows, numbers), missing=how, blocks=first)
    return Data(everybody, rows, keep, encoding, X)


def tie(
    tables: list[Release],
    data: Data,
    blocks: list[str],
    who: standing.Standing,
    *,
    scale: bool,
    on_missing: str,
) -> AggregatedTarget | JoinedTarget:
    """Tie the tables to people; those who were dropped are taken out of them."""
    import warnings

    from unbin.analysis import thinned
    from unbin.exceptions import AlignmentWarning

    if data.keep.all():
        return options.join_tables(
            tables, data.rows, blocks, who, scale=scale, on_missing=on_missing
        )
    whole = options.align_tables(
        tables, data.everybody, blocks, who, scale=scale, on_missing=on_missing
    )
    left = [thinned(each, data.keep) for each in whole]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)  # said once, with the reason
        return options.join_tables(left, data.rows, blocks, who, scale=True, on_missing=on_missing)


def hashes(rows: People, releases: list[str]) -> dict[str, str]:
    """Return the hashes of all input files by their names, which may be alike."""
    from unbin.release.join import distinct_names

    names = distinct_names([rows.name, *(Path(path).name for path in releases)])
    return dict(zip(names, [rows.sha256, *map(_sha256, releases)], strict=True))


def title_of(files: list[str]) -> str:
    """Return what a report is called."""
    more = f" and {len(files) - _MOST_NAMES} more" if len(files) > _MOST_NAMES else ""
    return f"Fit of {', '.join(files[:_MOST_NAMES])}{more}"


def _sha256(path: str) -> str:
    import hashlib

    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def parse_alpha(text: str) -> float | str | None:
    """Return the ridge that a text names."""
    from unbin.exceptions import ParameterError

    if text in ("auto", "held-out"):
        return text
    if text == "needed":
        return None
    try:
        return float(text)
    except ValueError:
        raise ParameterError(
            f"--alpha: must be a number, auto, needed or held-out, got {text!r}; write for example "
            "0.01"
        ) from None
