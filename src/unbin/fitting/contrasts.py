"""Wald tests of linear hypotheses about the terms of a fit.

With b̂ the estimates, V their covariance and ν its degrees of freedom, R b = r is tested by
W = (R b̂ - r)ᵀ (R V Rᵀ)⁻¹ (R b̂ - r). Where V is estimated from blocks (ν finite) W is taken for
Hotelling's T²: (ν - q + 1)/(ν q) W is F with q and ν - q + 1 degrees of freedom, q the rank of
R V Rᵀ. For one contrast that is the square of Student's t with ν. Where ν is infinite W is
chi-square.

References
----------
Pustejovsky, J. E. and Tipton, E. (2018). Small-sample methods for cluster-robust variance
estimation and hypothesis testing in fixed effects models. *Journal of Business & Economic
Statistics*, 36, 672-683.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc

from unbin._checks import check_package
from unbin._linalg import inverse_form
from unbin._typing import FloatArray
from unbin.exceptions import ParameterError

_SLOT = "unbin_term_{}_"
_EXPONENT = re.compile(r"(?<![\w.])\d+\.?\d*[eE][-+]?\d+(?![\w.])")
_ALGEBRA = re.compile(r"[\w\s.+\-*/(),=]*")
_IN_RANGE = 1e-8
"""Share of the values at which hypotheses about the same terms contradict each other."""
_MOST_TEXT = 10_000
"""Characters of a hypothesis."""


@dataclass(frozen=True, slots=True)
class ContrastTest:
    """A Wald test of linear hypotheses.

    Attributes
    ----------
    statistic : float
        F; chi-square where ``df_denominator`` is infinite.
    df : int
        Hypotheses that do not follow from each other.
    df_denominator : float
        Degrees of freedom of the denominator.
    p_value : float
    hypothesis : str
        In words.
    """

    statistic: float
    df: int
    df_denominator: float
    p_value: float
    hypothesis: str = ""

    def __repr__(self) -> str:
        if np.isinf(self.df_denominator):
            law = f"chi2({self.df})"
        else:
            law = f"F({self.df}, {self.df_denominator:g})"
        head = f"{self.hypothesis}: " if self.hypothesis else ""
        return f"{head}{law} = {self.statistic:.4g}, p = {self.p_value:.4g}"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """R b = r: ``matrix`` (q, k), ``values`` (q,), and how they read."""

    matrix: FloatArray
    values: FloatArray
    text: str


def wald_test(
    asked: Hypotheses,
    estimate: FloatArray,
    covariance: FloatArray,
    names: Sequence[str],
    df_residual: float,
) -> ContrastTest:
    """Test linear hypotheses about estimates (k,) with covariance (k, k)."""
    used = (asked.matrix != 0).any(axis=0)
    lost = [name for name, own, v in zip(names, used, np.diag(covariance), strict=True)
            if own and not (np.isfinite(v) and v > 0)]  # fmt: skip
    if lost:
        raise ParameterError(
            f"wald_test: needs terms that are estimable, got {lost[0]!r}, which is not; leave it "
            "out"
        )
    R = asked.matrix[:, used]
    away, spread = R @ estimate[used] - asked.values, R @ covariance[np.ix_(used, used)] @ R.T
    _refuse_contradictions(asked)
    wald, rank = inverse_form(away, spread)
    if np.isinf(df_residual):
        return ContrastTest(wald, rank, np.inf, float(chdtrc(rank, wald)), asked.text)
    below = max(df_residual - rank + 1, 1.0)
    f = wald * below / (max(df_residual, below) * rank)
    return ContrastTest(f, rank, below, float(fdtrc(rank, below, f)), asked.text)


def read_hypotheses(spec: Any, names: Sequence[str]) -> Hypotheses:
    """Return hypotheses given as text, as names of terms, or as a matrix of contrasts.

    Parameters
    ----------
    spec : str, sequence of str, or (q, k) or (k,) numbers
        Text as "age = 0", "2*age + income = 1" or "a = b, c = 0"; without a sign of equality the
        left side is 0. Names stand as they are, whatever is in them, or between backticks.
        Contrasts are in the order of ``names``.
    names : sequence of str
    """
    if isinstance(spec, str):
        return _stack([_read_one(spec, names)])
    if isinstance(spec, Sequence) and any(isinstance(part, str) for part in spec):
        if not all(isinstance(part, str) for part in spec):
            raise ParameterError(
                f"wald_test: must be texts alone or numbers alone, got {spec!r}; pass for example "
                '["age = 0", "income"]'
            )
        return _stack([_read_one(part, names) for part in spec])
    try:
        matrix = np.atleast_2d(np.asarray(spec, dtype=np.float64))
    except (TypeError, ValueError):
        raise ParameterError(
            f"wald_test: must be text, names of terms or a matrix of numbers, got "
            f'{type(spec).__name__}; pass for example "age = 0"'
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] != len(names) or not np.isfinite(matrix).all():
        raise ParameterError(
            f"wald_test: contrasts must be finite, one number for each of the {len(names)} terms "
            f"of tidy(), got shape {matrix.shape}; pass a matrix with {len(names)} columns"
        )
    n = len(matrix)
    return _checked(Hypotheses(matrix, np.zeros(n), f"{n} contrast{'s' * (n > 1)} = 0"))


def _read_one(text: str, names: Sequence[str]) -> Hypotheses:
    """Read a text; terms are replaced by plain words first, since their names may hold anything."""
    if text in names:
        return Hypotheses(np.eye(len(names))[[names.index(text)]], np.zeros(1), f"{text} = 0")
    if len(text) > _MOST_TEXT:
        raise ParameterError(
            f"wald_test: must have at most {_MOST_TEXT:,} characters, got {len(text):,}; pass a "
            "matrix of contrasts"
        )
    slots = [_SLOT.format(k) for k in range(len(names))]
    plain = _replace_names(text, dict(zip(names, slots, strict=True)))
    matrix, values = _parse(plain, slots, text)
    return Hypotheses(matrix, values, text if "=" in text else f"{text} = 0")


def _replace_names(text: str, slots: dict[str, str]) -> str:
    """Put words in the place of names, longer names first; a name inside a word is none."""
    ordered = sorted((name for name in slots if name), key=len, reverse=True)
    bare = [name for name in ordered if not _is_number(name)]
    quoted = "|".join(re.escape(f"`{name}`") for name in ordered)
    plain = "|".join(
        (r"(?<![\w.])" if re.match(r"\w", name) else "")
        + re.escape(name)
        + (r"(?![\w.(\[])" if re.search(r"\w$", name) else "")
        for name in bare
    )
    found = re.compile("|".join(part for part in (quoted, plain) if part))
    return found.sub(lambda match: slots[_unquoted(match[0], slots)], text)


def _unquoted(text: str, slots: dict[str, str]) -> str:
    return text if text in slots else text[1:-1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(plain: str, slots: list[str], text: str) -> tuple[FloatArray, FloatArray]:
    """Return R and r of a text in plain words, by formulaic's algebra, which evaluates nothing."""
    check_package("wald_test, of a text", "formulaic", "formulas")
    from formulaic.utils.constraints import LinearConstraintParser

    plain = _EXPONENT.sub(lambda found: np.format_float_positional(float(found[0])), plain)
    unknown = [word for word in re.findall(r"[^\W\d][\w.]*", plain) if word not in slots]
    if unknown:
        raise ParameterError(
            f"wald_test: must name terms of tidy(), got {unknown[0]!r} in {text!r}; check the "
            "spelling"
        )
    parser, rows = LinearConstraintParser(slots), []
    try:
        if not _ALGEBRA.fullmatch(plain):
            raise ValueError
        for part in plain.split(","):  # the parser does not take a sign after "="
            left, right = part.split("=") if "=" in part else (part, "0")
            (v, c), (w, e) = parser.get_matrix(left), parser.get_matrix(right)
            rows.append(np.append(np.squeeze(v, 0) - np.squeeze(w, 0), c[0] - e[0]))
    except Exception:  # whatever a parser of free text comes upon
        raise ParameterError(
            f"wald_test: must be linear in the terms, got {text!r}; write for example "
            '"2*age + income = 1"'
        ) from None
    found = np.array(rows, dtype=np.float64)
    return found[:, :-1], found[:, -1]


def _stack(parts: list[Hypotheses]) -> Hypotheses:
    matrix = np.concatenate([part.matrix for part in parts])
    values = np.concatenate([part.values for part in parts])
    return _checked(Hypotheses(matrix, values, ", ".join(part.text for part in parts)))


def _checked(asked: Hypotheses) -> Hypotheses:
    """Refuse hypotheses that are about no term, or are no numbers."""
    finite = np.isfinite(asked.matrix).all() and np.isfinite(asked.values).all()
    if not len(asked.matrix) or not finite or not (asked.matrix != 0).any(axis=1).all():
        raise ParameterError(
            f"wald_test: every hypothesis must be about a term, got {asked.text or 'none'!r}; name "
            'one, for example "age = 0"'
        )
    return asked


def _refuse_contradictions(asked: Hypotheses) -> None:
    """Raise where no coefficients satisfy all hypotheses."""
    scale = np.abs(asked.matrix).max(axis=1)
    matrix, values = asked.matrix / scale[:, None], asked.values / scale
    best = np.linalg.lstsq(matrix, values, rcond=None)[0]
    if np.abs(matrix @ best - values).max() > _IN_RANGE * max(1.0, np.abs(values).max()):
        raise ParameterError(
            f"wald_test: hypotheses must not contradict each other, got {asked.text!r}; leave one "
            "out"
        )
