"""Checks of what ``fit`` and ``predict`` are given."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Sized
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unbin._frames import as_floats, column_names, refuse_huge
from unbin._typing import ArrayLike, FloatArray, IntArray, TextArray
from unbin._watching import Status
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    AlignmentWarning,
    DomainError,
    IdentificationWarning,
    ParameterError,
    ReleaseError,
    SpecificationWarning,
)
from unbin.families import Family
from unbin.fitting.model import Fit, TableFit
from unbin.likelihood.infer.diagnostics import Diagnostics
from unbin.people.encoding import Encoding
from unbin.release import Release
from unbin.release.consistency import disagreement
from unbin.release.join import JoinedTarget, Tables
from unbin.release.observed import ObservedTarget
from unbin.release.target import AggregatedTarget, is_release
from unbin.rows.sources import Columns
from unbin.rows.wide import check_wide

_MOST_LOG = 700.0
"""The exponential of anything much larger overflows."""


Target = AggregatedTarget | JoinedTarget


def as_targets(y: Any) -> list[Target] | None:
    """Return the aggregated targets of ``fit``, or None when y holds observed numbers.

    One table joined to no other, and to nobody known, is that table.
    """
    if isinstance(y, ObservedTarget) or (isinstance(y, JoinedTarget) and not y.tables):
        return None
    if isinstance(y, Target):
        return [_alone(y)]
    if isinstance(y, list | tuple) and any(isinstance(item, Target) for item in y):
        if not all(isinstance(item, Target) for item in y):
            raise AggregatedTargetError(
                "y: a list of targets must hold aggregated targets only, got other types too; "
                "align every release first"
            )
        return [_alone(item) for item in y]
    if is_release(y):
        raise AggregatedTargetError(
            "y: a release does not know the rows of X; pass release.align(blocks)"
        )
    return None


def encoded(X: Any, encoding: Encoding | None) -> Any:
    """Return the features of people in a frame of the columns that a formula reads."""
    names = None if encoding is None else column_names(X)
    if encoding is None or names is None or names == list(encoding.names):
        return X
    return encoding.frame(encoding.encode(X))


def those_known(y: Any) -> tuple[Any, IntArray | slice]:
    """Return outcomes that are known, and the rows whose they are: all of plain numbers."""
    known = y.observed if isinstance(y, JoinedTarget) else y
    if not isinstance(known, ObservedTarget):
        return y, slice(None)
    return known.values[known.rows], known.rows


def _alone(target: Target) -> Target:
    if not isinstance(target, JoinedTarget) or len(target.tables) != 1:
        return target
    known = target.observed is not None and target.observed.known.any()
    return target if known else target.tables[0]


def context_blocks(tables: Sequence[TableFit], target: Target) -> TextArray:
    """Return the block of each row in the table whose block means are the context of a fit.

    ``tables`` are those of the fit, whose first it is.
    """
    if isinstance(target, AggregatedTarget):
        return target.blocks
    name = tables[0].name if tables else ""
    return (target.table(name) if name in target.names else target.tables[0]).blocks


def tables_of(target: Target) -> tuple[AggregatedTarget, ...]:
    """Return the tables of a target, one or several."""
    return target.tables if isinstance(target, JoinedTarget) else (target,)


def check_rows(targets: Sequence[Target], n: int) -> None:
    """Raise unless targets were aligned with the n rows of X."""
    for target in targets:
        if len(target) != n:
            raise AlignmentError(
                f"y: {len(target)} rows were aligned with the release, X has {n}; pass the "
                "block of each row of X to align()"
            )


def warn_of_disagreement(tables: Tables, codes: Sequence[IntArray] | None = None) -> None:
    """Warn where tables of the same people contradict each other, naming the worst place."""
    said = disagreement(tables, codes)
    if said is not None:
        warnings.warn(
            f"fit: {said}; see target.check(), or unbin.join(..., scale=True)",
            AlignmentWarning,
            stacklevel=4,
        )


def check_observed(y: FloatArray, family: Family) -> None:
    """Raise unless observed targets are finite and inside the domain."""
    if not np.isfinite(y).all():
        raise DomainError("y: must be finite, got NaN or inf; drop those rows")
    refuse_huge(y, where="y")
    if not family.domain.contains(y):
        outside = y[~((y >= family.domain.low) & (y <= family.domain.high))][0]
        raise DomainError(
            f"y: the value {outside:g} lies outside the domain {family.domain} of family "
            f"{family.name!r}; choose another family"
        )


def refuse_sample_weight(weights: Any) -> None:
    """Raise where weights come beside an aggregated target."""
    if weights is not None:
        raise ParameterError(
            "sample_weight: is for observed targets, got aggregated ones; tell how many people "
            "each row stands for where rows are tied to the table: release.align(blocks, "
            "weights=...), or weights=... beside tables by column"
        )


def check_sample_weight(weights: Any, n: int) -> FloatArray:
    """Return how often each of n observed rows counts; some may not count at all."""
    values = as_floats(weights, where="sample_weight", error=DomainError)
    if values.shape != (n,):
        raise AlignmentError(
            f"sample_weight: must have one value per row of X, got {len(values)} for {n} rows; "
            "check it"
        )
    odd = ~(np.isfinite(values) & (values >= 0))
    if odd.any() or not values.any():
        got = f"{values[odd][0]:g} in row {int(np.argmax(odd))}" if odd.any() else "0 in every row"
        raise DomainError(
            f"sample_weight: must be finite, at least 0 and not zero in every row, got {got}; "
            "correct it"
        )
    refuse_huge(values, where="sample_weight")
    return values


def check_init(init: ArrayLike) -> FloatArray:
    """Return starting values as numbers."""
    try:
        return as_floats(init, where="init")
    except ReleaseError:
        raise ParameterError(
            f"init: must be 'block-means', 'random' or finite numbers, got {init!r}; pass the "
            "intercept, then the slopes"
        ) from None


def as_releases(y: Any) -> list[Release]:
    """Return the releases of ``fit`` to people in files or on a cluster."""
    found = list(y) if isinstance(y, list | tuple) else [y]
    if not found or not all(isinstance(item, Release) for item in found):
        raise AggregatedTargetError(
            f"y: must be a release when X is a file or a Dask collection, got {type(y).__name__}; "
            "pass the release itself, its blocks are joined by the column block=..."
        )
    return found


def as_columns(
    X: Any,
    block: Any,
    features: Sequence[str] | None,
    others: tuple[tuple[str, ...], ...] = (),
    *,
    offset: Any = None,
    weights: Any = None,
    weighting: str = "frequency",
    observed: Any = None,
    disjoint: bool = False,
    clusters: tuple[str, ...] = (),
) -> Columns:
    """Return the columns of a file or frame that ``fit`` was asked to read."""
    if block is None:
        raise ParameterError("block: must name the column of block ids, got None; pass block=...")
    named = isinstance(X, str | Path) or hasattr(X, "columns")
    if named:
        check_features(features)
        for what, name in (("offset", offset), ("weights", weights), ("observed", observed)):
            if name is not None and not isinstance(name, str):
                raise ParameterError(
                    f"{what}: must name a column of X, got {type(name).__name__}; pass its name"
                )
    elif features is not None and len(features) != X.shape[1]:
        raise ParameterError(
            f"features: must name the {X.shape[1]} columns of X, got {len(features)}; correct them"
        )
    return Columns(
        tuple(map(str, features or ())),
        block,
        offset,
        others,
        weights,
        weighting == "survey",
        observed,
        disjoint,
        clusters,
    )


def check_features(features: Any) -> None:
    """Raise unless features are listed."""
    if not isinstance(features, Sized) or isinstance(features, str) or len(features) == 0:
        raise ParameterError(
            f"features: must list the columns that are features, got {features!r}; pass "
            "features=[...]"
        )


def check_offset(
    offset: ArrayLike | None, n: int, family: Family | None = None
) -> FloatArray | None:
    """Return the offset of n rows as numbers, or None; raise if its log or logit link overflows."""
    if offset is None:
        return None
    values = as_floats(offset, where="offset", error=DomainError)
    if len(values) != n:
        raise AlignmentError(
            f"offset: must have one value per row of X, got {len(values)} for {n} rows; check it"
        )
    if not np.isfinite(values).all():
        raise DomainError("offset: must be finite, got NaN or inf; is an exposure 0?")
    refuse_huge(values, where="offset")
    size = float(np.abs(values).max(initial=0.0))
    if family is not None and np.isfinite(family.domain.low) and size > _MOST_LOG:
        raise DomainError(
            f"offset: must be at most {_MOST_LOG:g} in size beside the log or logit of family "
            f"{family.name!r}, got {size:g}; is it the exposure itself? pass its log"
        )
    return values


def new_offset(offset: ArrayLike | None, n: int, *, needed: bool) -> FloatArray | None:
    """Return the offset of n new people; a model that was fitted with one needs it."""
    if offset is None and needed:
        raise ParameterError(
            "offset: the model was fitted with one, got none; pass offset=... (--offset on the "
            "command line) with a value per row, or 0 for none"
        )
    if isinstance(offset, Real) and not isinstance(offset, bool | np.bool_):
        offset = np.full(n, float(offset))
    return check_offset(offset, n)


def warn_of(fit: Fit) -> None:
    """Warn if a fit is not to be trusted, and why, or if a fit or choice stopped early."""
    if fit.selection is not None and fit.selection.stopped:
        n = len(fit.selection.score)
        warnings.warn(
            f"fit: interrupted while candidates were compared on held-out blocks; the best of the "
            f"{n} scored by then is fitted: {fit.family.name}, alpha {fit.alpha:.3g}",
            ConvergenceWarning,
            stacklevel=3,
        )
    warn_of_verdict(fit.diagnostics, fit.status)


def warn_of_verdict(diagnostics: Diagnostics, status: Status) -> None:
    """Warn if coefficients are not estimable, a fit did not converge or is not to be trusted."""
    if not diagnostics.identified:
        warnings.warn(diagnostics.reason, IdentificationWarning, stacklevel=4)
    elif not status.converged:
        # why it did not may be among the other reasons, as a feature whose effect is curved
        said = " Also: " + "; ".join(diagnostics.reasons[1:]) if diagnostics.reasons[1:] else ""
        warnings.warn(status.value + said, ConvergenceWarning, stacklevel=4)
    elif not diagnostics.trusted:
        warnings.warn(diagnostics.reason, SpecificationWarning, stacklevel=4)


def feature_names(model: Any) -> list[str]:
    """Return the names of a fitted model's features: those of its frame, else x0 and so on."""
    plain = [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", plain)]


def check_columns(model: Any, X: Any) -> Any:
    """Return a tabmat matrix with the columns a model was fitted to."""
    checked = check_wide(X)
    if checked.shape[1] != model.n_features_in_:
        raise ParameterError(
            f"X: must have the {model.n_features_in_} columns of the fit, got {checked.shape[1]}; "
            "encode the categories in the same way"
        )
    return checked


def note_columns(model: Any, n_features: int, names: Any) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_`` of an estimator, as scikit-learn does."""
    model.n_features_in_ = n_features
    if names is not None:
        model.feature_names_in_ = names
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
