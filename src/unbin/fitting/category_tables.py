"""A fit of categories as tables: coefficients, a summary, cells of blocks and of everybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unbin._checks import check_share
from unbin._typing import FloatArray
from unbin.categories.cells import interval
from unbin.exceptions import ParameterError
from unbin.fitting.categorical import CategoryModel, group_labels
from unbin.fitting.model import errors_text
from unbin.fitting.summary import Coefficients, Summary
from unbin.release.words import plural

_MOST_CELLS = 40
"""Cells of groups and categories that a summary shows."""


def tabulate_categories(
    model: CategoryModel, features: Sequence[str], level: float, *, exponentiate: bool = False
) -> dict[str, Any]:
    """Return the coefficients as columns, those of the first category first."""
    check_share("level", level)
    estimate = np.column_stack([model.intercept, model.coef])
    errors = np.sqrt(np.diag(model.covariance)).reshape(estimate.shape)
    names = ["intercept", *features]
    if not np.nan_to_num(errors[:, 0]).any():
        estimate, errors, names = estimate[:, 1:], errors[:, 1:], names[1:]
    k, size = estimate.shape
    terms = Coefficients(
        tuple(names) * k, estimate.ravel(), errors.ravel(), level, model.df_residual, exponentiate
    )
    verdicts = np.array(model.diagnostics.verdicts, dtype=object).reshape(k, -1)
    judged = np.full((k, size), "", dtype=object)
    judged[:, size - verdicts.shape[1] :] = verdicts
    category = np.repeat(np.array(model.classes, dtype=object), size)
    return {"category": list(category), **terms.columns(), "verdict": list(judged.ravel())}


def summarise_categories(model: CategoryModel, features: Sequence[str], level: float) -> Summary:
    """Return a printable summary."""
    columns = tabulate_categories(model, features, level)
    names = tuple(
        f"{category}: {term}"
        for category, term in zip(columns["category"], columns["term"], strict=True)
    )
    terms = Coefficients(names, columns["estimate"], columns["std_error"], level, model.df_residual)
    found, quality = model.diagnostics, model.diagnostics.goodness_of_fit
    facts = [
        ("Categories", ", ".join(model.classes)),
        ("People", f"{model.n_people:,}"),
        ("Blocks", f"{model.n_blocks:,}"),
        ("Covariance", errors_text(model.errors, model.by_clusters)),
        ("Log score", f"{model.log_score:.4f}"),
        ("Trusted", "yes" if found.trusted else "no"),
    ]
    if quality is not None and np.isfinite(quality.ratio):
        facts.append(("Q/df", f"{quality.ratio:.2f}"))
    if not model.factors and model.effect_sd.any():
        facts.append(("Block effects, sd", f"{model.effect_sd[0]:.2f}"))
    notes = [
        "Coefficients are of the log odds of a category against the geometric mean of all of "
        "them, and sum to 0 over the categories; a difference between two categories is a log odds "
        "ratio.",
        *found.reasons,
        *found.warnings,
    ]
    if model.factors:
        notes += _group_notes(model)
    title = "Multinomial logit" + " of published counts" * (model.n_blocks > 0)
    return Summary(title, tuple(facts), terms, tuple(notes))


def _group_notes(model: CategoryModel) -> list[str]:
    """Say how large effects are, and what contextual slopes would do to the cells."""
    labels = [" ".join(label) for label in group_labels(model.factors)]
    sds = zip(labels, model.effect_sd, strict=True)
    notes = [
        "Random effects per block and category have a standard deviation of "
        + ", ".join(f"{sd:.2f} ({label})" for label, sd in sds)
        + " on the logit scale."
    ]
    if not model.sensitivity:
        return notes
    notes.append(
        "Margins alone cannot tell whether people of a group choose otherwise where the group is "
        "large. Shares of each group if they do, by the scale z of such contextual slopes:"
    )
    people = next(iter(model.sensitivity.values())).sum(axis=1)
    cells = [(g, k) for g in np.flatnonzero(people > 0) for k in range(len(model.classes))]
    for g, k in cells[:_MOST_CELLS]:
        shares = ", ".join(
            f"{total[g, k] / people[g]:.1%} (z = {z:g})" for z, total in model.sensitivity.items()
        )
        notes.append(f"  {labels[g]}, {model.classes[k]}: {shares}")
    if len(cells) > _MOST_CELLS:
        notes.append(f"  … and {plural(len(cells) - _MOST_CELLS, 'more cell')}; see group_table()")
    return notes


# -- cells -----------------------------------------------------------------------------------------


def _margin(model: CategoryModel, by: Any) -> tuple[list[str], list[tuple[str, ...]], FloatArray]:
    """Return the features asked for, the labels of their cells, and which groups are in each."""
    known = [factor.name for factor in model.factors]
    asked = known if by is None else [by] if isinstance(by, str) else list(by)
    if not asked or not set(asked) <= set(known):
        raise ParameterError(
            f"by: must be features that effects follow, {', '.join(map(repr, known))}, got {by!r}; "
            "name one of them, or fit with random=[...]"
        )
    place = [known.index(name) for name in asked]
    wanted = [tuple(label[j] for j in place) for label in group_labels(model.factors)]
    labels = list(dict.fromkeys(wanted))
    adds = np.array([[label == each for each in wanted] for label in labels], dtype=float)
    return asked, labels, adds


def block_table(model: CategoryModel, by: Any, level: float) -> dict[str, Any]:
    """Return the cells of every block as columns: one row per block, group and category."""
    check_share("level", level)
    names, labels, adds = _margin(model, by)
    cells = model.cells
    assert cells is not None
    count, variance, people = (
        np.einsum("mg,bg...->bm...", adds, each)
        for each in (cells.count, cells.variance, cells.people)
    )
    least, most = (np.einsum("mg,bgk->bmk", adds, each) for each in (cells.least, cells.most))
    low, high = interval(count, variance, people[:, :, None], least, most, level)
    n_blocks, size, k = count.shape
    size_of = np.repeat(people, k, axis=1).ravel()
    columns = {"block": np.repeat(model.blocks, size * k)}
    for j, name in enumerate(names):
        each = np.array([label[j] for label in labels], dtype=object)
        columns[name] = np.tile(np.repeat(each, k), n_blocks)
    columns["category"] = np.tile(np.array(model.classes, dtype=object), n_blocks * size)
    return columns | _numbers(count, low, high, size_of)


def group_table(model: CategoryModel, by: Any, level: float) -> dict[str, Any]:
    """Return the cells of everybody as columns: one row per group and category."""
    check_share("level", level)
    names, labels, adds = _margin(model, by)
    cells = model.totals
    assert cells is not None
    count, variance, people, least, most = (
        adds @ each[0]
        for each in (cells.count, cells.variance, cells.people, cells.least, cells.most)
    )
    low, high = interval(count, variance, people[:, None], least, most, level)
    k = len(model.classes)
    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        columns[name] = np.repeat(np.array([label[j] for label in labels], dtype=object), k)
    columns["category"] = np.tile(np.array(model.classes, dtype=object), len(labels))
    columns |= _numbers(count, low, high, np.repeat(people, k))
    for z, total in model.sensitivity.items():
        share = (adds @ total).ravel() / np.maximum(np.repeat(people, k), 1e-300)
        columns[f"share_z_{z:g}"] = share
    return columns


def _numbers(
    count: FloatArray, low: FloatArray, high: FloatArray, people: FloatArray
) -> dict[str, Any]:
    """Return counts and shares with their intervals."""
    size = np.where(people > 0, people, np.nan)
    return {
        "people": people,
        "count": count.ravel(),
        "share": count.ravel() / size,
        "conf_low": low.ravel() / size,
        "conf_high": high.ravel() / size,
    }
