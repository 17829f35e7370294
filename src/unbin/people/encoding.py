"""From columns of people to the features of a model, the same way for every later table."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbin._frames import as_text, to_frame
from unbin._typing import ArrayLike, FloatArray
from unbin.exceptions import EncodingError
from unbin.people.columns import (
    MISSING,
    as_numbers,
    category_codes,
    find_categories,
    gaps,
    odd_one,
    read_column,
    refuse_gaps,
)
from unbin.people.formulas import Formula, check_formulas, parse_formula, quote

MAX_COLUMNS = 5000
MANY = 30
"""Categories of a text column beyond which C() has to say that they are meant."""
_STATES = {
    "center", "scale", "ddof", "lower_bound", "upper_bound", "knots", "alpha", "norms2", "cyclic",
    "constraints",
}  # fmt: skip
_VARIABLE = re.compile(r"v([0-9]+)(\)?)(?:\[(T\.)?([0-9]+)\])?")
_WRITTEN = re.compile(r", (?:constraints='center'|\([-+0-9., e]*\))(?=\))")
"""What a label need not repeat."""


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
    means : dict
        What stands for a missing number of new people, by column; such a column has an indicator
        besides. A missing category is one of its own.
    """

    formula: Formula
    categories: tuple[tuple[str, ...] | None, ...]
    state: dict[str, Any]
    names: tuple[str, ...]
    means: dict[str, float] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        formula: str,
        frame: Any,
        *,
        missing: str = "error",
        blocks: ArrayLike | None = None,
    ) -> tuple[Encoding, FloatArray]:
        """Learn an encoding from people, and encode them.

        Parameters
        ----------
        formula : str
            See :mod:`unbin.people.formulas`. Columns of text are categories, with or without
            ``C()``.
        frame : pandas or polars frame, or mapping of columns
        missing : {"error", "mean"}
            Whether missing values are refused, or replaced by a mean, with a further column that
            marks them; a missing category becomes one of its own.
        blocks : (n,) ids, or a mapping of columns, optional
            The blocks of a table, or columns whose cells they are: the mean is that of the person's
            block, without which blocks would differ less in a feature than they do. Otherwise, and
            for people to be predicted, it is that of the column.

        Returns
        -------
        encoding : Encoding
        X : (n, d)
            Without an intercept; the model has its own.
        """
        parsed = parse_formula(formula)
        values = [read_column(frame, variable.column) for variable in parsed.variables]
        means: dict[str, float] = {}
        if missing == "mean":
            means = _means(parsed, values)
            values = [_marked(array) for array in values]
        categories = tuple(
            _learn(parsed, k, array, filled=parsed.variables[k].column in means)
            for k, array in enumerate(values)
        )
        draft = cls(parsed, categories, {}, (), means)
        by_block = bool(means) and blocks is not None
        own = _block_means(parsed, values, means, blocks) if by_block else {}
        X, state, labels = draft._evaluate(values, {}, own)
        names = tuple(_label(label, draft) for label in labels)
        if len(set(names)) < len(names) or not names:
            raise EncodingError(
                f"formula: must give different columns, got {', '.join(names) or 'none'}; change "
                "the categories that look alike, or add a term"
            )
        _check_finite(X, names)
        return cls(parsed, categories, state, names, means), X

    def encode(self, frame: Any) -> FloatArray:
        """Return the features of other people, shape (n, d), as they were in the fit."""
        values = [read_column(frame, variable.column) for variable in self.formula.variables]
        values = [
            _marked(array) if known is not None and MISSING in known else array
            for array, known in zip(values, self.categories, strict=True)
        ]
        X, _, labels = self._evaluate(values, _arrays(self.state))
        if tuple(_label(label, self) for label in labels) != self.names:
            raise EncodingError(
                "encoding: must give the columns of the fit, got others; save the model again"
            )
        _check_finite(X, self.names)
        return X

    def frame(self, X: FloatArray) -> Any:
        """Return features as a frame, under the names of their columns."""
        return to_frame(dict(zip(self.names, X.T, strict=True)), "pandas")

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
            "means": dict(self.means),
        }

    @classmethod
    def from_json(cls, data: Any) -> Encoding:
        """Return the encoding that :meth:`to_json` wrote; the formula is parsed again."""
        keys = {"formula", "categories", "state", "names", "means"}
        if not isinstance(data, dict) or set(data) != keys:
            raise EncodingError("encoding: must have formula, categories, state, names and means")
        means = data["means"]
        if not isinstance(means, dict) or not all(map(_is_number, means.values())):
            raise EncodingError("encoding: means must be numbers, by column")
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
        return cls(formula, categories, _check_state(data["state"]), tuple(names), means)

    def _evaluate(
        self,
        values: list[NDArray[Any]],
        state: dict[str, Any],
        own: Mapping[str, FloatArray] | None = None,
    ) -> tuple[FloatArray, dict[str, Any], list[str]]:
        """Return the columns, the state of transforms, and the columns' labels.

        What stands for a missing number is ``own``, by column, or else the mean of the fit.
        """
        check_formulas()
        from formulaic import ModelSpec
        from formulaic.errors import FormulaicError

        pandas = import_module("pandas")  # formulaic brings it
        columns: dict[str, Any] = {}
        for k, (variable, known) in enumerate(
            zip(self.formula.variables, self.categories, strict=True)
        ):
            if known is not None or variable.column not in self.means:
                refuse_gaps(variable.column, values[k], new=bool(self.names))
            columns[f"v{k}"] = (
                self._numbers(variable.column, values[k], own or self.means)
                if known is None
                else pandas.Categorical.from_codes(
                    category_codes(variable.column, values[k], known),
                    categories=[str(code) for code in range(len(known))],
                )
            )
        text = f"{int(self.formula.intercept)} + {self.formula.terms}"
        spec = ModelSpec.from_spec(text, transform_state=state, na_action="ignore", output="numpy")
        try:
            with np.errstate(all="ignore"):
                matrix = spec.get_model_matrix(pandas.DataFrame(columns), context=_functions())
        except (FormulaicError, ValueError, TypeError, IndexError) as error:
            cause = _cause(error)
            if "beyond upper and/or lower bounds" in cause:
                raise EncodingError(
                    "formula: bs() needs values within the range of the fit, got others; leave "
                    "those people out, or use poly()"
                ) from error
            raise EncodingError(
                f"formula: cannot be evaluated, got {cause}; change the term it is about"
            ) from error
        labels = list(matrix.model_spec.column_names)
        keep = [k for k, label in enumerate(labels) if label != "Intercept"]
        X = np.asarray(matrix, dtype=np.float64)[:, keep]
        place = {v.column: k for k, v in reversed(list(enumerate(self.formula.variables)))}
        marks = [gaps(values[place[name]]).astype(np.float64) for name in self.means]
        labels = [*(labels[k] for k in keep), *(f"{quote(name)}[missing]" for name in self.means)]
        return np.column_stack([X, *marks]), _lists(matrix.model_spec.transform_state), labels

    def _numbers(self, name: str, values: NDArray[Any], filled: Mapping[str, Any]) -> FloatArray:
        """Return a column of numbers, with what stands for those that are missing."""
        found = as_numbers(name, values)
        return np.where(gaps(found), filled[name], found) if name in self.means else found


def _means(formula: Formula, values: list[NDArray[Any]]) -> dict[str, float]:
    """Return the means of columns of numbers in which some are missing."""
    found = {}
    for variable, array in zip(formula.variables, values, strict=True):
        gap = gaps(array)
        if variable.categorical or array.dtype.kind in "OU" or not gap.any():
            continue
        if gap.all():
            raise EncodingError(
                f"column {variable.column!r}: must have a value in some rows, got none; leave it "
                "out of the formula"
            )
        found[variable.column] = float(array[~gap].mean())
    return found


def _block_means(
    formula: Formula,
    values: list[NDArray[Any]],
    means: Mapping[str, float],
    blocks: ArrayLike,
) -> dict[str, FloatArray]:
    """Return the mean of each row's block, that of everybody where the block has no number."""
    names, codes = np.unique(as_text(blocks, where="blocks", outside=True), return_inverse=True)
    found = {}
    for variable, array in zip(formula.variables, values, strict=True):
        if variable.column in means:
            known = ~gaps(array)
            n = np.bincount(codes[known], minlength=len(names))
            total = np.bincount(codes[known], as_numbers(variable.column, array)[known], len(names))
            found[variable.column] = np.where(
                n > 0, total / np.maximum(n, 1), means[variable.column]
            )[codes]
    return found


def _marked(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts with a category of its own for those that are missing."""
    if values.dtype.kind not in "OU":
        return values
    gap = gaps(values)
    return np.where(gap, MISSING, values).astype(object) if gap.any() else values


def _functions() -> dict[str, Any]:
    """Return what formulas may call beside what formulaic brings."""
    pandas = import_module("pandas")

    def cut(values: Any, edges: tuple[float, ...]) -> Any:
        """Return which of the intervals between edges each value is in."""
        array = np.asarray(values, dtype=np.float64)
        names = [f"<= {edges[0]:g}"]
        names += [f"({a:g}, {b:g}]" for a, b in itertools.pairwise(edges)]
        codes = np.where(np.isnan(array), -1, np.searchsorted(edges, array, side="left"))
        return pandas.Categorical.from_codes(codes, categories=[*names, f"> {edges[-1]:g}"])

    return {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "cut": cut}


def _learn(
    formula: Formula, k: int, values: NDArray[Any], *, filled: bool
) -> tuple[str, ...] | None:
    """Return the categories of a variable, the reference first; None if it is a number."""
    variable = formula.variables[k]
    name = variable.column
    if not filled:
        refuse_gaps(name, values)
    if not variable.categorical:
        if values.dtype.kind not in "OU":
            return None
        odd = odd_one([str(value) for value in values])
        if odd is not None:
            raise EncodingError(
                f"column {name!r}, row {odd + 1}: must be a number like most of the column, got "
                f"{str(values[odd])!r}; correct it, or write C({quote(name)})"
            )
        if re.search(rf"\b(?!C\b)\w+\([^)]*\bv{k}\b", formula.terms):
            raise EncodingError(
                f"column {name!r}: functions need numbers, got {str(values[0])!r}; write "
                f"C({quote(name)})"
            )
    found = find_categories(name, values)
    if len(found) > MANY and not variable.categorical:
        raise EncodingError(
            f"column {name!r}: has {len(found):,} different texts; is it an id? If they are "
            f"categories, write C({quote(name)})"
        )
    if not variable.reference:
        return found
    if variable.reference not in found:
        some = ", ".join(map(repr, found[:8])) + (", …" if len(found) > 8 else "")
        raise EncodingError(
            f"column {name!r}: the reference must be one of its categories, got "
            f"{variable.reference!r} beside {some}; correct it"
        )
    return variable.reference, *(text for text in found if text != variable.reference)


def _check_finite(X: FloatArray, names: tuple[str, ...]) -> None:
    if X.shape[1] > MAX_COLUMNS:
        raise EncodingError(
            f"formula: must give at most {MAX_COLUMNS:,} columns, got {X.shape[1]:,}; use fewer"
        )
    bad = ~np.isfinite(X)
    if bad.any():
        row, k = map(int, np.argwhere(bad)[0])
        raise EncodingError(
            f"{names[k]}, row {row + 1}: must be finite, got {X[row, k]:g}; is a log "
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

    return _VARIABLE.sub(word, _WRITTEN.sub("", label))


def _cause(error: BaseException) -> str:
    """Return the innermost reason, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__


def _lists(value: Any) -> Any:
    """Return state with lists in the place of arrays, so that states can be compared."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _arrays(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the state as transforms take it."""
    state = copy.deepcopy(state)
    for held in state.values():
        if held.get("constraints") is not None:
            held["constraints"] = np.array(held["constraints"])
    return state


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
    if value is None and key in ("center", "scale", "constraints"):
        return None
    if key == "cyclic" and isinstance(value, bool):
        return value
    if not _is_number(value):
        raise EncodingError(f"encoding: state must be finite numbers, got {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
