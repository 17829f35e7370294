"""Features and tables by their names in what a fit says of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from unbin.fitting.model import Fit
from unbin.likelihood.infer.diagnostics import Diagnostics

_FEATURE = re.compile(r"\bfeature (\d+)\b")
_FEATURES = re.compile(r"\(counted from 0: ([\d, ]+)")
_TABLE = re.compile(r"\btable (\d+)(?= differ)")


def with_names(fit: Fit, features: Sequence[str]) -> Fit:
    """Return a fit whose diagnostics name features and tables."""
    tables = tuple(table.name for table in fit.tables)
    return replace(fit, diagnostics=named_in(fit.diagnostics, features, tables))


def named_in(
    found: Diagnostics, features: Sequence[str], tables: Sequence[str] = ()
) -> Diagnostics:
    """Return diagnostics that name features and tables; a fit knows their numbers."""
    feature, table = dict(enumerate(features)), dict(enumerate(tables, 1))

    def named(text: str) -> str:
        text = _FEATURE.sub(lambda match: feature.get(int(match[1]), match[0]), text)
        text = _FEATURES.sub(
            lambda match: "(" + re.sub(r"\d+", lambda k: feature[int(k[0])], match[1]), text
        )
        return _TABLE.sub(lambda match: table.get(int(match[1]), match[0]), text)

    return replace(
        found,
        reason=named(found.reason),
        reasons=tuple(map(named, found.reasons)),
        warnings=tuple(map(named, found.warnings)),
    )
