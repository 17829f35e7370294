"""Classifiers as JSON: what is kept of a fit of categories, and whether its parts go together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbin.categories.cells import Cells
from unbin.classifier import AggregatedClassifier
from unbin.exceptions import ModelFileError
from unbin.fitting.categorical import CategoryModel, group_labels
from unbin.fitting.levels import Levels
from unbin.fitting.published import smallest_shown
from unbin.results.codec import decode, encode
from unbin.results.saved_glm import KEYS as GLM_KEYS
from unbin.results.saved_glm import OF_THE_MACHINE, glm_data, keeps_all, restore_glm
from unbin.results.shapes import check_published, require, require_positive, require_shape

_KEYS = {"parameters", "classes", "coding", "model", "binary"}
_MOST_GROUPS = 100_000


def classifier_data(model: AggregatedClassifier, public: bool | None) -> dict[str, Any]:
    """Return a fitted classifier as JSON can hold it; of two categories the binomial model."""
    binary, coding = model._binary, getattr(model, "coding_", None)
    return {
        "parameters": _parameters(model),
        "classes": encode(model.classes_),
        "coding": None if coding is None else encode(coding),
        "model": None if binary is not None else encode(_to_keep(model._model, public)),
        "binary": None if binary is None else glm_data(binary, public),
    }


def keeps_cells(model: AggregatedClassifier, public: bool | None) -> bool:
    """Return whether a saved classifier holds all counts and cells of the fitted one."""
    if model._binary is not None:
        return keeps_all(model._binary, public)
    return _to_keep(model._model, public) is model._model


def _to_keep(model: CategoryModel, public: bool | None) -> CategoryModel:
    """Return a model without its counts, if a report would mask some of them, and without cells.

    Cells of blocks are close to what persons did where groups are small: of a table that is not
    public they are not kept.
    """
    counts = model.counts
    if counts is None:
        return model
    smallest = smallest_shown(counts, public)
    if counts.less_known or not counts.shown_whole(smallest):
        return model.without_counts()
    return model if smallest == 0 or model.cells is None else model.without_cells()


def _parameters(model: AggregatedClassifier) -> dict[str, Any]:
    found = {name: v for name, v in model.get_params().items() if name not in OF_THE_MACHINE}
    return {name: encode(value) for name, value in found.items()}


# -- reading ---------------------------------------------------------------------------------------


def restore_classifier(data: Any, d: int) -> AggregatedClassifier:
    """Return the classifier of d features that :func:`classifier_data` wrote, checked."""
    if not isinstance(data, dict) or set(data) != _KEYS:
        raise ModelFileError(
            f"classifier: must have the fields {', '.join(sorted(_KEYS))}; save the model again"
        )
    classifier, classes = _classifier(data["parameters"]), _classes(data["classes"])
    if (data["model"] is None) == (data["binary"] is None):
        raise ModelFileError("classifier: must have a model, or the binomial one; save it again")
    classifier.n_features_in_ = d
    if data["binary"] is None:
        model = decode(CategoryModel, data["model"], "model")
        _check_model(model, len(classes), d)
        classifier._binary = None
        classifier._assign(model, classes)
    else:
        if not isinstance(data["binary"], dict) or set(data["binary"]) != GLM_KEYS:
            raise ModelFileError("binary: must be a model of numbers; save the model again")
        if len(classes) != 2:
            raise ModelFileError(f"classes: must be 2, got {len(classes)}; save the model again")
        glm = restore_glm(data["binary"], d)
        if glm._several:
            raise ModelFileError("binary: must be of one target, got several; save it again")
        classifier._assign_binary(glm, classes)
    if data["coding"] is not None:
        classifier.coding_ = _coding(data["coding"], d)
    return classifier


def _classifier(parameters: Any) -> AggregatedClassifier:
    classifier = AggregatedClassifier()
    if not isinstance(parameters, dict) or set(parameters) != set(_parameters(classifier)):
        raise ModelFileError("parameters: must be those of AggregatedClassifier, got others")
    classifier.set_params(**parameters)
    try:
        classifier._check_parameters()
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelFileError(f"parameters: {error}") from None
    return classifier


def _classes(value: Any) -> NDArray[Any]:
    """Return the classes: at least two, all of them texts, whole numbers, numbers or flags."""
    kinds = {type(each) for each in value} if isinstance(value, list) else set()
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise ModelFileError("classes: must be texts or numbers, got others; save the model again")
    (kind,) = kinds
    found = np.array([decode(kind, each, "classes") for each in value])
    if len(found) < 2 or len(set(value)) < len(value):
        raise ModelFileError("classes: must be at least two, each once; save the model again")
    return found


def _coding(value: Any, d: int) -> Levels:
    coding: Levels = decode(Levels, value, "coding")
    if len(coding.columns) != len(coding.levels) or len(coding.names) != d:
        raise ModelFileError(f"coding: must give {d} columns, got others; save the model again")
    return coding


def _check_model(model: CategoryModel, k: int, d: int) -> None:
    """Raise unless the parts of a fit go together, with k categories and d features."""
    if len(model.classes) != k:
        raise ModelFileError(f"model.classes: must be {k}, got {len(model.classes)}; save it again")
    n_groups = _check_factors(model, d)
    require(model.coef, (k, d), "coef")
    require(model.intercept, (k,), "intercept")
    if len(model.predicting) != 2:
        raise ModelFileError("predicting: must be slopes and intercepts; save the model again")
    require(model.predicting[0], (k, d), "predicting")
    require(model.predicting[1], (k,), "predicting")
    size = k * (1 + d)
    require_shape(model.covariance, (size, size), "covariance")
    require_positive(np.diag(model.covariance), "variances in covariance")
    require(model.effect_sd, (n_groups,), "effect_sd")
    require_positive(model.effect_sd, "effect_sd")
    for name in ("n_iter", "n_people", "n_rows", "n_blocks", "alpha", "df_residual", "context_sd"):
        require_positive(np.array(getattr(model, name)), name)
    _check_judged(model, k * d)
    blocks = model.blocks
    require_shape(blocks, (len(blocks),), "blocks")
    if model.shift is not None:
        require(model.shift, (len(blocks), n_groups, k), "shift")
        if (blocks[1:] <= blocks[:-1]).any():
            raise ModelFileError("blocks: must be sorted; save the model again")
    if (model.totals is None) == bool(model.factors):
        raise ModelFileError("totals: must go with features that effects follow")
    for name, cells, n_blocks in (
        ("totals", model.totals, 1),
        ("cells", model.cells, len(blocks)),
    ):
        if cells is not None:
            _check_cells(cells, (n_blocks, n_groups, k), name)
    for total in model.sensitivity.values():
        require(total, (n_groups, k), "sensitivity")
    if model.counts is not None:
        check_published(model.counts)
        require_shape(model.counts.count, (len(model.counts), k), "counts.count")


def _check_factors(model: CategoryModel, d: int) -> int:
    """Return the number of groups; raise unless the features that effects follow are there."""
    n_groups = 1
    for factor in model.factors:
        n_groups *= len(factor.levels)
        require_shape(factor.columns, (len(factor.levels) - 1,), "factors.columns")
        inside = (factor.columns >= 0) & (factor.columns < d)
        if not inside.all() or not 1 <= n_groups <= _MOST_GROUPS:
            raise ModelFileError(
                f"factors: {factor.name!r} must have columns among {d} features, and levels; save "
                "the model again"
            )
    return len(group_labels(model.factors))


def _check_judged(model: CategoryModel, n_slopes: int) -> None:
    found = model.diagnostics
    require_positive(np.array(found.block_sd), "diagnostics.block_sd")
    if len(found.verdicts) not in (0, n_slopes):
        raise ModelFileError(
            f"diagnostics.verdicts: must be one of each of {n_slopes} slopes, got "
            f"{len(found.verdicts)}; save the model again"
        )
    if found.precision is not None:
        require_shape(found.precision, (n_slopes,), "diagnostics.precision")


def _check_cells(cells: Cells, shape: tuple[int, int, int], name: str) -> None:
    shapes = {"people": shape[:2], "total_variance": shape[1:]}
    for part in ("count", "variance", "least", "most", *shapes):
        require(getattr(cells, part), shapes.get(part, shape), f"{name}.{part}")
    for part in ("count", "variance", *shapes):
        require_positive(getattr(cells, part), f"{name}.{part}")
