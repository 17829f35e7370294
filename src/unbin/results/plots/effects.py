"""The effect of one column of people over its range: curves of splines and polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import stdtrit

from unbin._checks import check_kind, check_share
from unbin._frames import as_finite
from unbin._typing import ArrayLike, FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.people.encoding import Encoding
from unbin.results.plots.drawing import BLUE, GREY, axes, one_target, short_ticks, shorten

_POINTS = 101


def effect(
    model: AggregatedGLM,
    column: str,
    *,
    encoding: Encoding | None = None,
    values: ArrayLike | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw the effect of a numeric column of a formula on the linear predictor, with its band.

    The effect is that against the middle of the range, all other columns as they are: the sum of
    all terms of the column, such as those of ``bs(age, 4)`` or ``poly(age, 2)``. In interactions
    the others are at their first category, at the middle of their range, or 1.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted to the columns of ``encoding``.
    column : str
    encoding : Encoding, optional
        What the formula became; that of the model where it was fitted by a formula.
    values : (k,), optional
        Where to draw it; the range of the fit where a spline knows it.
    level : float
        Coverage of the band, at each point.

    Examples
    --------
    >>> import pandas as pd, unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40, between=0.5)
    >>> frame = pd.DataFrame(people.X, columns=["age", "income"]).assign(county=people.blocks)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.glm("ns(age, 3) + income", frame, {"county": release}, family="gaussian")
    >>> ax = unbin.plots.effect(model, "age")
    """
    found = encoding_of(one_target(model), encoding)
    names = [variable.column for variable in found.formula.variables]
    known = dict(zip(names, found.categories, strict=True))
    if column not in known or known[column] is not None:
        numeric = [repr(name) for name, own in known.items() if own is None]
        raise ParameterError(
            f"column: must be a number in the formula, got {column!r}; use one of "
            f"{', '.join(numeric) or 'none, all are categories'}"
        )
    check_share("level", level)
    x = _grid(found, column, values)
    rows = _encoded(found, column, np.append(x, (x.min() + x.max()) / 2))
    X = rows[:-1] - rows[-1]
    coef = np.asarray(model.coef_)
    if X.shape[1] != len(coef):
        raise ParameterError(
            f"encoding: must give the {len(coef)} columns of the model, got {X.shape[1]}; pass "
            "that of the fit"
        )
    y = X @ coef
    ax = axes(ax, width=4.8, height=3.0)
    ax.axhline(0, color=GREY, linewidth=0.8)
    covariance = model._fits[0].covariance
    if covariance is not None:
        d = len(coef)
        spread = np.einsum("ij,jk,ik->i", X, covariance[1 : 1 + d, 1 : 1 + d], X)
        df = min(model._fits[0].df_residual, 1e10)
        reach = float(stdtrit(df, 0.5 + level / 2)) * np.sqrt(np.maximum(spread, 0.0))
        ax.fill_between(x, y - reach, y + reach, color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(x, y, color=BLUE, linewidth=1.6)
    ax.set_xlabel(shorten(column, 40), parse_math=False)
    ax.set_ylabel("effect on the linear predictor")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    short_ticks(ax)
    return ax


def encoding_of(model: AggregatedGLM, encoding: Encoding | None) -> Encoding:
    """Return how a formula became features, as given or as the model holds it."""
    found = getattr(model, "encoding_", None) if encoding is None else encoding
    if found is None:
        raise ParameterError(
            "encoding: the model does not hold its formula, got none; pass the Encoding of the fit"
        )
    return check_kind("encoding", found, Encoding, instead="that of the fit")


def curved_columns(encoding: Encoding) -> list[str]:
    """Return the numeric columns of a formula that have splines or polynomials."""
    found = []
    for k, (variable, known) in enumerate(
        zip(encoding.formula.variables, encoding.categories, strict=True)
    ):
        if known is None and any(_is_of(key, k) for key in encoding.state):
            found.append(variable.column)
    return found


def _is_of(transform: str, k: int) -> bool:
    """Tell whether a stateful transform is a spline or polynomial of variable ``k``."""
    name, _, inside = transform.partition("(")
    return name in ("bs", "cr", "ns", "cs", "cc", "poly") and inside.startswith(
        (f"v{k},", f"v{k})", f"v{k} ")
    )


def _bounds(encoding: Encoding, column: str) -> tuple[float, float] | None:
    """Return the range that a spline of the column was fitted over."""
    k = [variable.column for variable in encoding.formula.variables].index(column)
    for key, state in encoding.state.items():
        if _is_of(key, k) and {"lower_bound", "upper_bound"} <= set(state):
            return float(state["lower_bound"]), float(state["upper_bound"])
    return None


def _grid(encoding: Encoding, column: str, values: ArrayLike | None) -> FloatArray:
    if values is not None:
        return np.sort(as_finite(values, where="values", error=ParameterError))
    bounds = _bounds(encoding, column)
    if bounds is None:
        raise ParameterError(
            f"values: the fit does not know the range of {column!r}, got none; pass values of it, "
            "as numpy.linspace(20, 80)"
        )
    return np.linspace(*bounds, _POINTS)


def _encoded(encoding: Encoding, column: str, x: FloatArray) -> FloatArray:
    """Return the features of people who differ in one column only."""
    frame: dict[str, Any] = {}
    for variable, known in zip(encoding.formula.variables, encoding.categories, strict=True):
        name = variable.column
        if known is not None:
            frame[name] = np.repeat(known[0], len(x))
        else:
            bounds = _bounds(encoding, name)
            frame[name] = np.full(len(x), 1.0 if bounds is None else sum(bounds) / 2)
    frame[column] = x
    return encoding.encode(frame)
