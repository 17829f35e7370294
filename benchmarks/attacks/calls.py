"""Malformed calls of every public function: each is to be refused with a typed error.

A call that is accepted is *wrong* unless it says what came back should be like.
"""

from __future__ import annotations

import warnings
from functools import cache

from attacks import calls_models, calls_releases, calls_tools
from attacks.values import Call, words
from attacks.verdicts import Outcome

GROUPS = (*calls_models.GROUPS, *calls_releases.GROUPS, *calls_tools.GROUPS)


@cache
def _calls() -> list[Call]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [call for group in GROUPS for call in group()]


def cases(seed: int) -> list[tuple[str, str]]:  # noqa: ARG001 - the same for every seed
    return [(call.group, call.name) for call in _calls()]


def run(seed: int, k: int) -> Outcome:  # noqa: ARG001
    call = _calls()[k]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.make()
    except call.also as error:
        return Outcome("typed", f"{type(error).__name__}: {error}")
    except Exception as error:
        if call.wanted:
            return Outcome("wrong", f"refused, {type(error).__name__}: {error}")
        raise
    if call.right is None:
        return Outcome("wrong", f"accepted, got {words(result)}")
    return Outcome("right") if call.right(result) else Outcome("wrong", f"got {words(result)}")
