"""How a case of ``attack.py`` ended."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

import sklearn

import unbin
from unbin.exceptions import UnbinError

VERDICTS = ("typed", "right", "wrong", "untyped", "hung")
_UNBIN = str(Path(unbin.__file__).parent)
_SKLEARN = str(Path(sklearn.__file__).parent)


@dataclass(frozen=True)
class Outcome:
    """One of ``VERDICTS``, and why."""

    verdict: str
    note: str = ""


def verdict_of(error: Exception) -> Outcome:
    """Return how a case ended that raised."""
    note = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return Outcome("typed" if is_typed(error) else "untyped", note)


def is_typed(error: BaseException) -> bool:
    """Tell whether an exception is one that a user of unbin may expect.

    Errors of unbin's own tree. A ValueError or TypeError (OverflowError for a number that no float
    holds) that scikit-learn's validation raised when unbin asked it about X, y, random_state,
    parameters or a model that is not fitted; AttributeError for ``predict_proba`` where it is not
    available. A TypeError of Python itself for a call that does
    not match the signature: no frame of unbin is in its traceback.
    """
    if isinstance(error, UnbinError):
        return True
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = max((k for k, name in enumerate(frames) if name.startswith(_UNBIN)), default=None)
    if ours is None:
        asked = any(name.startswith(_SKLEARN) for name in frames)
        return isinstance(error, TypeError) or (asked and isinstance(error, _OF_SKLEARN))
    asked = any(name.startswith(_SKLEARN) for name in frames[ours + 1 :])
    return asked and isinstance(error, _OF_SKLEARN)


_OF_SKLEARN = (ValueError, TypeError, OverflowError, AttributeError)
