"""From columns of people to the features of a model, the same way for every later table."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from unbin.exceptions import EncodingError, ReleaseError
from unbin.formulas import Formula, Variable, parse_formula, quote
from unbin.frames import column
from unbin.typing import FloatArray, IntArray

MAX_CATEGORIES = 1000
MAX_COLUMNS = 5000
_STATES = {"center", "scale", "ddof", "lower_bound", "upper_bound", "knots", "alpha", "norms2"}
_FUNCTIONS: dict[str, Any] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_VARIABLE = re.compile(r"v([0-9]+)(\)?)(?:\[(T\.)?([0-9]+)\])?")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a formula turns columns into features, with all that was learnt from the fitted people.

    Attributes
    ----------
    formula : Formula
    categories : tuple of (tuple of str, or None)
        Per variable of the formula: its categories as text, in order; None for numbers.
    state : dict
        Centers, scales, knots and norms, by transform.
    names : tuple of str
        One per column of X.
    """

    formula: Formula
    categories: tuple[tuple[str, ...] | None, ...]
    state: dict[str, Any]
    names: tuple[str, ...]

    @classmethod
    def build(cls, formula: str, frame: Any) -> tuple[Encoding, FloatArray]:
        """Learn an encoding from people, and encode them.

        Parameters
        ----------
        formula : str
            See :mod:`unbin.formulas`. Columns of text are categories, with or without ``C()``.
        frame : pandas or polars frame, or mapping of columns

        Returns
        -------
        encoding : Encoding
        X : (n, d)
            Without an intercept; the model has its own.
        """
        parsed = parse_formula(formula)
        values = [_read(frame, variable) for variable in parsed.variables]
        categories = tuple(_learn(parsed, k, array) for k, array in enumerate(values))
        draft = cls(parsed, categories, {}, ())
        X, state, labels = draft._evaluate(values, {})
        names = tuple(_label(label, draft) for label in labels)
        if len(set(names)) < len(names) or not names:
            raise EncodingError(
                f"formula: must give different columns, got {', '.join(names) or 'none'}; change "
                "the categories that look alike, or add a term"
            )
        _check_finite(X, names)
        return cls(parsed, categories, state, names), X

    def encode(self, frame: Any) -> FloatArray:
        """Return the features of other people, shape (n, d), as they were in the fit."""
        values = [_read(frame, variable) for variable in self.formula.variables]
        X, _, labels = self._evaluate(values, copy.deepcopy(self.state))
        if tuple(_label(label, self) for label in labels) != self.names:
            raise EncodingError(
                "encoding: must give the columns of the fit, got others; save the model again"
            )
        _check_finite(X, self.names)
        return X

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns whose values are categories, to be read from files as text."""
        pairs = zip(self.formula.variables, self.categories, strict=True)
        return frozenset(variable.column for variable, known in pairs if known is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the encoding as JSON can hold it."""
        return {
            "formula": self.formula.text,
            "categories": [None if known is None else list(known) for known in self.categories],
            "state": _plain(self.state),
            "names": list(self.names),
        }

    @classmethod
    def from_json(cls, data: Any) -> Encoding:
        """Return the encoding that :meth:`to_json` wrote; the formula is parsed again."""
        if not isinstance(data, dict) or set(data) != {"formula", "categories", "state", "names"}:
            raise EncodingError("encoding: must have formula, categories, state and names")
        formula = parse_formula(data["formula"])
        known, names = data["categories"], data["names"]
        if not _is_texts(names) or not isinstance(known, list) or len(known) != len(
            formula.variables
        ):  # fmt: skip
            raise EncodingError("encoding: names and categories do not go with the formula")
        for variable, categories in zip(formula.variables, known, strict=True):
            if not (_is_texts(categories) or (categories is None and not variable.categorical)):
                raise EncodingError(f"encoding: categories of {variable.column!r} must be texts")
        categories = tuple(None if found is None else tuple(found) for found in known)
        return cls(formula, categories, _check_state(data["state"]), tuple(names))

    def _evaluate(
        self, values: list[NDArray[Any]], state: dict[str, Any]
    ) -> tuple[FloatArray, dict[str, Any], list[str]]:
        """Return the columns, the state of transforms, and the columns' labels."""
        from formulaic import ModelSpec
        from formulaic.errors import FormulaicError

        pandas = import_module("pandas")  # formulaic brings it
        columns: dict[str, Any] = {}
        for k, (variable, known) in enumerate(
            zip(self.formula.variables, self.categories, strict=True)
        ):
            columns[f"v{k}"] = (
                _numbers(variable.column, values[k])
                if known is None
                else pandas.Categorical.from_codes(
                    _codes(variable.column, values[k], known),
                    categories=[str(code) for code in range(len(known))],
                )
            )
        text = f"{int(self.formula.intercept)} + {self.formula.terms}"
        spec = ModelSpec.from_spec(text, transform_state=state, na_action="ignore", output="numpy")
        try:
            with np.errstate(all="ignore"):
                matrix = spec.get_model_matrix(pandas.DataFrame(columns), context=_FUNCTIONS)
        except (FormulaicError, ValueError, TypeError, IndexError) as error:
            raise EncodingError(f"formula: cannot be evaluated, got {_cause(error)}") from error
        labels = list(matrix.model_spec.column_names)
        keep = [k for k, label in enumerate(labels) if label != "Intercept"]
        X = np.asarray(matrix, dtype=np.float64)[:, keep]
        return X, matrix.model_spec.transform_state, [labels[k] for k in keep]


def _read(frame: Any, variable: Variable) -> NDArray[Any]:
    """Return a column without gaps, as numbers or as texts."""
    name = variable.column
    try:
        values = column(frame, name, role="formula")
    except ReleaseError:
        known = list(frame) if isinstance(frame, Mapping) else nw.from_native(frame).columns
        some = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
        raise EncodingError(
            f"column {name!r}: must be in the table of people, got {some or 'no columns'}; check "
            "the formula"
        ) from None
    if values.dtype.kind not in "biufOU":
        raise EncodingError(
            f"column {name!r}: must hold numbers or text, got {values.dtype}; convert it first"
        )
    if values.dtype.kind == "O":
        values = _objects(values)
    gap = values != values
    if values.dtype.kind in "OU":
        gap = np.array([value is None or value == "" for value in values], dtype=bool)
    if gap.any():
        raise EncodingError(
            f"column {name!r}, row {int(np.argmax(gap))} (counted from 0): must have a value, got "
            f"{int(gap.sum())} missing; fill them, or leave those people out of the release too"
        )
    return values


def _objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as floats, anything else as texts and None."""
    missing = [value is None or value != value or type(value).__name__ == "NAType" for value in
               values]  # fmt: skip
    held = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if held and all(isinstance(value, int | float | np.number) for value in held):
        return np.array([np.nan if gone else float(v) for v, gone in zip(values, missing,
                         strict=True)])  # fmt: skip
    result = np.empty(len(values), dtype=object)
    result[:] = [None if gone else str(v) for v, gone in zip(values, missing, strict=True)]
    return result


def _texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return values as categories: a whole number is written without a decimal point."""
    if values.dtype.kind == "f":
        unique, inverse = np.unique(values, return_inverse=True)
        texts = [str(int(v)) if v == np.floor(v) and abs(v) < 2**53 else repr(float(v))
                 for v in unique]  # fmt: skip
        return np.array(texts, dtype=np.str_)[inverse]
    return values.astype(np.str_)


def _learn(formula: Formula, k: int, values: NDArray[Any]) -> tuple[str, ...] | None:
    """Return the categories of a variable, None if it is a number."""
    variable = formula.variables[k]
    name = variable.column
    if not variable.categorical:
        if values.dtype.kind not in "OU":
            return None
        odd = _odd_one([str(value) for value in values])
        if odd is not None:
            raise EncodingError(
                f"column {name!r}, row {odd} (counted from 0): must be a number like most of the "
                f"column, got {str(values[odd])!r}; correct it, or write C({quote(name)})"
            )
        if re.search(rf"\b(?!C\b)\w+\([^)]*\bv{k}\b", formula.terms):
            raise EncodingError(
                f"column {name!r}: functions need numbers, got {str(values[0])!r}; write "
                f"C({quote(name)})"
            )
    return _categories(name, values)


def _categories(name: str, values: NDArray[Any]) -> tuple[str, ...]:
    found = [str(value) for value in np.unique(_texts(values))]
    if len(found) > MAX_CATEGORIES:
        raise EncodingError(
            f"column {name!r}: must have at most {MAX_CATEGORIES:,} categories, got "
            f"{len(found):,}; join the rare ones"
        )
    as_numbers = [_number(text) for text in found]
    if all(number is not None for number in as_numbers):
        return tuple(text for _, text in sorted(zip(as_numbers, found, strict=True)))
    return tuple(found)


def _odd_one(texts: list[str]) -> int | None:
    """Return the row of the first text that is no number, where most are."""
    odd = [row for row, text in enumerate(texts) if _number(text) is None]
    return odd[0] if odd and 2 * len(odd) < len(texts) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _codes(name: str, values: NDArray[Any], known: tuple[str, ...]) -> IntArray:
    unique, inverse = np.unique(_texts(values), return_inverse=True)
    place = {text: code for code, text in enumerate(known)}
    unseen = [str(text) for text in unique if str(text) not in place]
    if unseen:
        row = int(np.argmax(inverse == int(np.flatnonzero(unique == unseen[0])[0])))
        some = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
        raise EncodingError(
            f"column {name!r}, row {row} (counted from 0): category {unseen[0]!r} was not in the "
            f"fit, which knows {some}; {len(unseen)} such, leave those people out or fit again"
        )
    return np.array([place[str(text)] for text in unique], dtype=np.int64)[inverse]


def _numbers(name: str, values: NDArray[Any]) -> FloatArray:
    if values.dtype.kind in "OU":
        raise EncodingError(
            f"column {name!r}: must hold numbers as in the fit, got {str(values[0])!r}; convert it"
        )
    return values.astype(np.float64)


def _check_finite(X: FloatArray, names: tuple[str, ...]) -> None:
    if X.shape[1] > MAX_COLUMNS:
        raise EncodingError(
            f"formula: must give at most {MAX_COLUMNS:,} columns, got {X.shape[1]:,}; use fewer"
        )
    bad = ~np.isfinite(X)
    if bad.any():
        row, k = map(int, np.argwhere(bad)[0])
        raise EncodingError(
            f"{names[k]}, row {row} (counted from 0): must be finite, got {X[row, k]:g}; is a log "
            "or root of 0 or of a negative number taken?"
        )


def _label(label: str, encoding: Encoding) -> str:
    """Return the name of a column, the variables and categories in the user's words."""

    def word(match: re.Match[str]) -> str:
        k, bracket, reduced, code = match.groups()
        variable, known = encoding.formula.variables[int(k)], encoding.categories[int(k)]
        text = quote(variable.column) + bracket
        if code is None:
            return text
        return text + f"[{reduced or ''}{code if known is None else known[int(code)]}]"

    return _VARIABLE.sub(word, label)


def _cause(error: BaseException) -> str:
    """Return the innermost reason, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__


def _plain(value: Any) -> Any:
    """Return state as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _check_state(state: Any) -> dict[str, Any]:
    """Return the state of transforms, which holds finite numbers under known names."""
    if not isinstance(state, dict):
        raise EncodingError("encoding: the state of transforms must be an object")
    result: dict[str, Any] = {}
    for transform, held in state.items():
        if not isinstance(held, dict) or not set(held) <= _STATES:
            raise EncodingError(f"encoding: the state of {transform!r} is not known")
        result[transform] = {key: _check_held(key, value) for key, value in held.items()}
    return result


def _check_held(key: str, value: Any) -> Any:
    if key in ("alpha", "norms2") and isinstance(value, dict) and all(k.isdigit() for k in value):
        return {int(k): _check_held("", item) for k, item in value.items()}
    if isinstance(value, list) and len(value) <= 1000:
        return [_check_held("", item) for item in value]
    if value is None and key in ("center", "scale"):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise EncodingError(f"encoding: state must be finite numbers, got {value!r}")
    return value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
