"""Models of numbers as JSON: what is kept of a fit, and whether its parts go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbin.estimator import AggregatedGLM
from unbin.exceptions import ModelFileError
from unbin.fitting.model import Fit
from unbin.fitting.published import BlockStatistics, smallest_shown
from unbin.likelihood.infer.choice import Selection
from unbin.likelihood.infer.diagnostics import told_by
from unbin.results.codec import decode, encode
from unbin.results.shapes import check_published, require, require_positive, require_shape

KEYS = {"parameters", "several", "holds_release", "has_offset", "fits"}
OF_THE_MACHINE = ("n_jobs", "engine", "client", "device", "dtype", "checkpoint")
"""Parameters that say where a model is fitted, which does not change what it is."""
_PERSONAL = ("imputed", "people")
"""Of a fit: values and rows of persons, which are not written."""


def glm_data(model: AggregatedGLM, public: bool | None) -> dict[str, Any]:
    """Return a fitted model as JSON can hold it."""
    return {
        "parameters": _parameters(model),
        "several": model._several,
        "holds_release": model._holds_release,
        "has_offset": model._has_offset,
        "fits": [encode(_to_keep(fit, public), leave_out=_PERSONAL) for fit in model._fits],
    }


def keeps_all(model: AggregatedGLM, public: bool | None) -> bool:
    """Return whether all published counts are kept."""
    return all(_to_keep(fit, public) is fit for fit in model._fits)


def restore_glm(data: dict[str, Any], d: int) -> AggregatedGLM:
    """Return the model of d features that :func:`glm_data` wrote, checked."""
    fits = [
        decode(Fit, item, f"fits[{k}]", given=dict.fromkeys(_PERSONAL))
        for k, item in enumerate(_some_fits(data["fits"]))
    ]
    for fit in fits:
        _check_fit(fit, d)
    model = _model(data["parameters"])
    several = decode(bool, data["several"], "several")
    if len(fits) != 1 and not several:
        raise ModelFileError(f"fits: must be one, got {len(fits)}; save the model again")
    model._assign(
        fits,
        several=several,
        release=decode(bool, data["holds_release"], "holds_release"),
        offset=decode(bool, data["has_offset"], "has_offset"),
    )
    model.n_features_in_ = d
    return model


def _to_keep(fit: Fit, public: bool | None) -> Fit:
    """Return a fit without its counts, if a report would mask some of them.

    Those less people whose outcome is known would tell their outcomes. Of several tables of the
    same people those of one would reveal what another one masks.
    """
    found = [fit.published, fit.means, fit.quantiles]
    found += [each for table in fit.tables for each in (table.published, table.means)]
    shown = (t is None or t.shown_whole(smallest_shown(t, public)) for t in found)
    return fit if all(shown) and not fit.less_known else fit.without_counts()


def _some_fits(value: Any) -> list[Any]:
    """Return a list that is not empty."""
    if not isinstance(value, list) or not value:
        raise ModelFileError("fits: must be a list with a fit, got none; save the model again")
    return value


def _check_fit(fit: Fit, d: int) -> None:
    """Raise unless the parts of a fit go together, with d features and finite estimates."""
    require(fit.coef, (d,), "coef")
    for name in ("intercept", "dispersion", "block_sd"):
        require(np.array(getattr(fit, name)), (), name)
    counts = ("n_iter", "n_people", "n_rows", "n_blocks", "n_observed")
    for name in ("dispersion", "block_sd", "alpha", *counts):
        require_positive(np.array(getattr(fit, name)), name)
    _check_shrunk(fit, d)
    if (fit.bins is None) == fit.family.free_shape:
        raise ModelFileError("bins: must go with an ordinal family, and no other")
    if fit.bins is None:
        require(fit.nuisance, (len(fit.family.nuisance_names),), "nuisance")
    else:
        k = len(fit.bins.value)
        require(fit.bins.value, (k,), "value")
        require(fit.bins.thresholds, (k - 1,), "thresholds")
        if fit.bins.lower.shape != (k,) or fit.bins.upper.shape != (k,):
            raise ModelFileError("bins: must have as many ends as values")
        inner = fit.bins.thresholds, fit.bins.upper[:-1]
        if not all((np.diff(values) >= 0).all() for values in inner):
            raise ModelFileError("bins: thresholds and edges must increase; save the model again")
    size = 1 + d + _check_context(fit, d)
    thresholds = 0 if fit.bins is None else len(fit.bins.thresholds)
    sizes = {"covariance": size, "threshold_covariance": size + thresholds}
    found = {name: getattr(fit, name) for name in sizes}
    if fit.shrunk is not None:
        sizes["shrunk.covariance"] = size + thresholds
        found["shrunk.covariance"] = fit.shrunk.covariance
    for name, matrix in found.items():
        if matrix is not None:
            require_shape(matrix, (sizes[name], sizes[name]), name)
            require_positive(np.diag(matrix), f"variances in {name}")
    if (fit.threshold_covariance is None) != (fit.bins is None or fit.covariance is None):
        raise ModelFileError("threshold_covariance: must go with an ordinal family, and no other")
    require_shape(fit.path, (fit.path.size,), "path")
    _check_diagnostics(fit, d)
    if fit.selection is not None:
        _check_selection(fit.selection)
    for table in (fit.published, *(each.published for each in fit.tables)):
        if table is not None:
            check_published(table)
    for means in (fit.means, *(each.means for each in fit.tables)):
        if means is not None:
            _check_blocks(means, "means", (len(means),), ("mean", "expected"))
    if fit.quantiles is not None:
        own = fit.quantiles
        shape = (len(own), own.value.shape[-1] if own.value.ndim else 0)
        _check_blocks(own, "quantiles", shape, ("value", "share", "expected"))
    for each in fit.tables:
        for name in ("n_people", "n_blocks", "block_sd"):
            require_positive(np.array(getattr(each, name)), f"tables.{name}")
    for own in (*fit.clusters, *(() if fit.by_clusters is None else (fit.by_clusters,))):
        for name in ("n_clusters", "sd"):
            require_positive(np.array(getattr(own, name)), f"clusters.{name}")


def _check_shrunk(fit: Fit, d: int) -> None:
    """Raise unless what predicts is as long as what was estimated."""
    if fit.shrunk is None:
        return
    require(fit.shrunk.coef, (d,), "shrunk.coef")
    require(np.array(fit.shrunk.intercept), (), "shrunk.intercept")
    require(fit.shrunk.nuisance, fit.nuisance.shape, "shrunk.nuisance")
    if (fit.shrunk.contextual_coef is None) != (fit.contextual_coef is None):
        raise ModelFileError("shrunk.contextual_coef: must go with contextual_coef")
    if fit.shrunk.contextual_coef is not None:
        require_shape(fit.shrunk.contextual_coef, (d,), "shrunk.contextual_coef")
    if (fit.shrunk.thresholds is None) != (fit.bins is None):
        raise ModelFileError("shrunk.thresholds: must go with an ordinal family, and no other")
    if fit.shrunk.thresholds is not None and fit.bins is not None:
        require(fit.shrunk.thresholds, fit.bins.thresholds.shape, "shrunk.thresholds")


def _check_diagnostics(fit: Fit, d: int) -> None:
    found = fit.diagnostics
    require_positive(np.array(found.block_sd), "diagnostics.block_sd")
    for name in (
        "efficiency",
        "precision",
        "shape_share",
        "location_coef",
        "location_standard_errors",
    ):
        values = getattr(found, name)
        if values is not None:
            require_shape(values, (d,), f"diagnostics.{name}")
    if found.influence is not None:
        n_blocks = len(found.influence.block)
        require_shape(found.influence.table, (n_blocks,), "diagnostics.influence.table")
        require_shape(found.influence.shift, (n_blocks, d), "diagnostics.influence.shift")
    if len(found.verdicts) not in (0, d):
        raise ModelFileError(
            f"diagnostics.verdicts: must be one of each of {d} coefficients, got "
            f"{len(found.verdicts)}; save the model again"
        )
    names = tuple(table.name for table in fit.tables)
    names = told_by(names, observed=fit.n_observed > 0) if names else names
    if found.tables != names:
        raise ModelFileError(
            f"diagnostics.tables: must be those of the fit, got {len(found.tables)} names for "
            f"{len(names)} tables; save the model again"
        )
    if names:
        require(np.array(found.information), (len(names), d), "diagnostics.information")


def _check_selection(selection: Selection) -> None:
    n = len(selection.family)
    require_shape(np.array(selection.contextual), (n,), "selection.contextual")
    for name in ("alpha", "score", "error"):
        require_shape(getattr(selection, name), (n,), f"selection.{name}")
    if not 0 <= selection.chosen < n:
        raise ModelFileError(
            f"selection.chosen: must be one of {n} candidates, got {selection.chosen}; save the "
            "model again"
        )


def _check_blocks(
    found: BlockStatistics, what: str, shape: tuple[int, ...], own: tuple[str, ...]
) -> None:
    """Raise unless statistics of blocks, ``own`` of them of a shape, go together."""
    for name in ("n", "misfit", "df", "residual"):
        require_shape(getattr(found, name), (len(found),), f"{what}.{name}")
    for name in own:
        require_shape(getattr(found, name), shape, f"{what}.{name}")
    require_positive(found.n, f"{what}.n")


def _check_context(fit: Fit, d: int) -> int:
    """Return how many contextual coefficients there are; raise unless their parts go together."""
    context, coef = fit.context, fit.contextual_coef
    if context is None and coef is None:
        return 0
    if context is None or coef is None:
        raise ModelFileError("context: must go with contextual coefficients")
    require(context.means, (len(context.blocks), d), "means")
    require(context.average, (d,), "average")
    if context.used.shape != (d,) or (context.blocks[1:] <= context.blocks[:-1]).any():
        raise ModelFileError("context: must have sorted blocks and one flag per feature")
    if coef.shape != (d,) or not np.isfinite(coef[context.used]).all():
        raise ModelFileError("contextual_coef: must be finite where a feature varies within blocks")
    return int(context.used.sum())


def _parameters(model: AggregatedGLM) -> dict[str, Any]:
    """Return the parameters as JSON can hold them; a random generator is not kept."""
    found = {name: v for name, v in model.get_params().items() if name not in OF_THE_MACHINE}
    if not isinstance(found["init"], str):
        found["init"] = np.asarray(found["init"], dtype=np.float64).tolist()
    if not isinstance(found["random_state"], int | np.integer):
        found["random_state"] = None
    plain = {name: encode(value) for name, value in found.items()}
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in plain.items()}


def _model(parameters: Any) -> AggregatedGLM:
    model = AggregatedGLM()
    if not isinstance(parameters, dict) or set(parameters) != set(_parameters(model)):
        raise ModelFileError("parameters: must be those of AggregatedGLM, got others")
    model.set_params(**parameters)
    try:
        model._check_parameters()
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelFileError(f"parameters: {error}") from None
    return model
