"""Features and tables by their names in what a fit says of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from unbin.fitting.model import Fit

_FEATURE = re.compile(r"\bfeature (\d+)\b")
_FEATURES = re.compile(r"\(counted from 0: ([\d, ]+)")
_TABLE = re.compile(r"\btable (\d+)(?= differ)")


def with_names(fit: Fit, features: Sequence[str]) -> Fit:
    """Return a fit whose reasons name features and tables; the likelihood knows their numbers."""
    feature = dict(enumerate(features))
    table = dict(enumerate((table.name for table in fit.tables), 1))

    def named(text: str) -> str:
        text = _FEATURE.sub(lambda match: feature.get(int(match[1]), match[0]), text)
        text = _FEATURES.sub(
            lambda match: "(" + re.sub(r"\d+", lambda k: feature[int(k[0])], match[1]), text
        )
        return _TABLE.sub(lambda match: table.get(int(match[1]), match[0]), text)

    found = fit.diagnostics
    reasons = tuple(map(named, found.reasons))
    return replace(fit, diagnostics=replace(found, reason=named(found.reason), reasons=reasons))
