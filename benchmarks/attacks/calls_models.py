"""Malformed calls of the estimators: settings, fits, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

import unbin
from attacks.values import INF, NAN, ODD, Call, accepted, each, keywords, study, warned, without
from attacks.values import bad_ids as ids_like
from attacks.values import bad_matrices as matrices_like
from attacks.values import bad_vectors as vectors_like

SETTINGS: dict[str, list[Any]] = {
    "family": [*ODD, "Gaussian", "gaussian "],
    "contextual": ["x", None, NAN, 2, [], {}],
    "fit_intercept": ["x", None, NAN, 2, [], {}],
    "n_trials": ["x", None, NAN, 0, -3, 1.5, [], True],
    "target_transform": ["x", "sqrt", 0, [], {}, NAN],
    "alpha": ["x", NAN, INF, -1.0, [], {}, True, 1j, b"1"],
    "tol": ["x", None, NAN, INF, 0.0, -1.0, [], True, 1j],
    "max_iter": ["x", NAN, 0, -1, 1.5, [], True],
    "random_state": ["x", NAN, -1, 1.5, [], {}, 2**40],
    "n_jobs": ["x", NAN, 0, -7, 1.5, []],
    "engine": ["x", None, 1, []],
    "dtype": ["x", None, "float16", 1],
    "checkpoint": [3, "", [], NAN, "/nowhere/at/all", "/"],
}
OF_MATCHING: dict[str, list[Any]] = {
    "solver": [*ODD, "newton"],
    "init": [
        "x",
        NAN,
        [],
        [1.0],
        [1.0, NAN, 0.0],
        {},
        1j,
        np.ma.masked_array(np.ones(3), [0, 1, 0]),
    ],
    "n_init": ["x", None, NAN, 0, -1, 1.5, [], True],
}


def settings() -> Iterator[Call]:
    """Return settings that are refused when the model is fitted, and extreme ones that are not."""
    s = study()

    def fit(given: dict[str, Any]) -> Any:
        return unbin.AggregatedGLM(**{"n_jobs": 1, **given}).fit(s.X, s.target)

    group = "AggregatedGLM"
    yield accepted(group, lambda: fit({}))
    yield from each(group, "likelihood,", keywords(SETTINGS), fit)
    yield from each(group, "", keywords({"method": [*ODD, "mle"]}), fit)
    matching = {
        name: {"method": "matching", **given}
        for name, given in keywords({**SETTINGS, **OF_MATCHING}).items()
    }
    yield from each(group, "matching,", matching, fit)
    for method in ("likelihood", "matching"):
        extreme = {"alpha=1e308": {"alpha": 1e308, "method": method}}
        yield from each(group, f"{method},", extreme, fit, _has_no_slopes)
        extreme = {
            name: {"method": method, **given}
            for name, given in keywords({"tol": [1e308, 1e-308], "n_jobs": [10**6]}).items()
        }
        yield from each(group, f"{method},", extreme, fit, _is_finite)
    heavy = unbin.AggregatedGLM(alpha=1e308)
    yield Call(group, "observed, alpha=1e308", lambda: heavy.fit(s.X, s.y), _has_no_slopes)
    together = [
        {"famly": "gaussian"},
        {"family": "gamma", "target_transform": "log"},
        {"family": "gamma", "method": "matching"},
        {"family": "poisson"},  # of values below 0
        {"target_transform": "log"},
    ]
    yield from each(group, "", together, fit)
    yield Call(group, "set_params of another name", lambda: s.model.set_params(famly="x"))


def _is_finite(model: Any) -> bool:
    return bool(np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all())


def _has_no_slopes(model: Any) -> bool:
    return _is_finite(model) and bool(np.abs(model.coef_).max() < 1e-3)


def _is_not_identified(model: Any) -> bool:
    return _is_finite(model) and not model.diagnostics_.identified


def fits() -> Iterator[Call]:
    """Return fits to what is no table of people, no target and no offset."""
    s, glm = study(), unbin.AggregatedGLM
    X, y, target = s.X, s.y, s.target
    matching = glm(method="matching")
    yield from each("fit", "aggregated, X", matrices_like(X), lambda v: glm().fit(v, target))
    yield from each("fit", "observed, X", matrices_like(X), lambda v: glm().fit(v, y))
    yield from each("fit", "matching, X", matrices_like(X), lambda v: matching.fit(v, target))
    targets = vectors_like(y) | {
        "None": None,
        "a release": s.release,
        "a list of lists": [[target]],
        "a target and numbers": [target, y],
    }
    yield from each("fit", "y", targets, lambda v: glm().fit(X, v))
    for name, known in {"aggregated": target, "observed": y}.items():
        use = lambda v, known=known: glm().fit(X, known, offset=v)  # noqa: E731
        yield from each("fit", f"{name}, offset", vectors_like(y), use)
    counts = unbin.aggregate(np.rint(np.abs(y)), s.blocks, [-1, 0, 1, 2, INF]).align(s.blocks)
    models = {
        f"{family}, {method}": glm(family, method)
        for family in ("gaussian", "poisson")
        for method in ("likelihood", "matching")
    }
    far = np.full(len(y), 1e300)
    yield from each(
        "fit", "offset 1e300,", models, lambda m: m.fit(X, counts, offset=far), _is_finite
    )
    yield from each(
        "fit", "X times", [1e300, 1e-300], lambda c: glm().fit(c * X, target), _is_finite
    )
    together = [
        {"block": "county"},
        {"features": ["a"]},
        {"X": "nowhere/*.parquet", "y": s.release, "block": "b", "features": ["x"]},
        {"X": "nowhere.parquet", "y": s.release},
    ]
    yield from each("fit", "", together, lambda v: glm().fit(**{"X": X, "y": target, **v}))
    yield Call("fit", "dask of arrays", lambda: glm(engine="dask").fit(X, target))


def several_tables() -> Iterator[Call]:
    """Return fits to several tables, aligned or by their columns, that cannot be."""
    s, glm, group = study(), unbin.AggregatedGLM, "fit, several tables"
    county, sex = s.columns["county"], s.columns["sex"]
    yield accepted(group, lambda: glm(contextual="county").fit(s.X, s.joined))
    yield from each(group, "X", matrices_like(s.X), lambda v: glm().fit(v, s.joined))
    use = lambda v: glm().fit(s.X, s.joined, offset=v)  # noqa: E731
    yield from each(group, "offset", vectors_like(s.y), use)
    names = ["x", "", "State", 3, None, [], NAN, {}, ("county",)]
    use = lambda v: glm(contextual=v).fit(s.X, s.joined)  # noqa: E731
    yield from each(group, "contextual", names, use)
    yield from each(
        group, "of one, contextual", ["x", "sex"], lambda v: glm(contextual=v).fit(s.X, s.target)
    )

    def by_column(given: dict[str, Any]) -> Any:
        usual = {"X": s.people, "y": s.columns, "features": ["x", "z"]}
        return glm().fit(**{**usual, **given})

    yield accepted(group, lambda: by_column({}))
    tables: list[Any] = [
        {},
        {"county": None},
        {"county": s.y, "sex": sex},
        {"county": s.joined},
        {"county": county, "nowhere": sex},
        {"county": county, "x": sex},
        {"county": sex, "sex": county},
        {"county": county, "sex": county},
        {"county": county, 3: sex},
        {"county": county, (): sex},
        {"county": county, ("sex", "sex"): sex},
        {"county": county, ("county",): sex},
        {"county": county, ("sex", 3): sex},
        {None: county},
    ]
    yield from each(group, "y", tables, lambda v: by_column({"y": v}))
    odd: dict[str, list[Any]] = {
        "X": [s.X, None, "nowhere.parquet", s.people[:-1], s.people.iloc[:0], s.people[["x", "z"]]],
        "features": [None, [], "x", ["nowhere"], ["x", "x"], ["x", "sex"], 3],
        "offset": ["nowhere", "sex", [1.0]],
        "block": ["county", 3],
    }
    yield from each(group, "by columns,", keywords(odd), by_column)
    missing = s.people.assign(sex=np.where(s.people["x"] > 0, s.sex, None))
    yield Call(group, "by columns, ids missing that are counted", lambda: by_column({"X": missing}))


def poor_data() -> Iterator[Call]:
    """Return fits to data that say nothing, or too much: refused, or called not identified."""
    s, glm = study(), unbin.AggregatedGLM
    ones, said = np.ones((600, 2)), _is_not_identified
    both = {"aggregated": s.target, "observed": s.y}
    yield from each("fit", "all features constant,", both, lambda v: glm().fit(ones, v), said)
    separated = (s.X[:, 0] > 0).astype(float)
    logistic = glm("binomial")
    yield Call("fit", "observed, separated", lambda: logistic.fit(s.X[:, :1], separated), said)
    one = unbin.Release.from_values({"block": s.blocks, "value": np.ones(600)}).align(s.blocks)
    single = unbin.Release.from_values({"block": ["a"], "value": [1.0]}).align(["a"])
    families = ("gaussian", "poisson", "gamma", "ordinal", "negative-binomial")
    yield from each("fit", "constant outcome,", families, lambda f: glm(f).fit(s.X, one), said)
    yield from each("fit", "one person,", families, lambda f: glm(f).fit(s.X[:1], single), said)
    alone = np.arange(600).astype(str)
    medians = {"block": alone, "quantile": np.full(600, 0.5), "value": s.y}
    target = unbin.Release.from_quantiles(medians).align(alone)
    yield Call("fit", "medians of blocks of one", lambda: glm().fit(s.X, target), _is_finite)
    means = {"block": s.release.blocks, "mean": np.linspace(1e300, 2e300, 30)}
    huge = lambda: unbin.Release.from_means(means).align(s.blocks)  # noqa: E731
    yield Call("fit", "means of 1e300", lambda: glm().fit(s.X, huge()), _is_finite)
    again = glm("ordinal").fit(s.X, s.target)
    refit = lambda: again.set_params(family="gaussian").fit(s.X, s.target)  # noqa: E731
    stale = lambda m: not hasattr(m, "thresholds_") and not hasattr(m, "bin_edges_")  # noqa: E731
    yield Call("fit", "ordinal, then gaussian: no thresholds", refit, stale)


def predictions() -> Iterator[Call]:
    s = study()
    X = without(matrices_like(s.X), "too few rows", "too many rows")
    X |= {"with too many columns": np.column_stack([s.X, s.X])}
    yield accepted("predict", lambda: s.context.predict(s.X, blocks=s.blocks, offset=s.y))
    yield accepted("score", lambda: s.model.score(s.X, s.target) + s.model.score(s.X, s.y))
    yield from each("predict", "X", X, s.model.predict)
    yield from each("score", "X", X, lambda v: s.model.score(v, s.target))
    predict = s.context.predict
    yield from each("predict", "blocks", ids_like(s.blocks), lambda v: predict(s.X, blocks=v))
    offsets = without(vectors_like(s.y), "a number")  # the same for everybody
    yield from each("predict", "offset", offsets, lambda v: predict(s.X, offset=v))
    y = vectors_like(s.y) | {"None": None, "a release": s.release, "two": [s.target, s.target]}
    yield from each("score", "y", y, lambda v: s.model.score(s.X, v))
    new, five = np.full(600, "new"), np.full(600, 5)
    means = [{"new": [1.0]}, {"new": [1.0, NAN]}, {"new": "x"}, {"new": None}, [1.0], "x", 3]
    use = partial(predict, s.X, blocks=new)
    yield from each("predict", "block_means", means, lambda v: use(block_means=v))
    make = lambda: predict(s.X, blocks=five, block_means={5: [9.0, 9.0]})  # noqa: E731
    moved = lambda z: not np.allclose(z, predict(s.X, blocks=five))  # noqa: E731
    yield Call("predict", "block_means by whole numbers", make, moved)
    silent = lambda: warned(lambda: s.shifted.predict(s.X))  # noqa: E731
    yield Call("predict", "without the offset of the fit", silent, bool)
    yield Call("predict_proba", "of a gaussian", lambda: s.model.predict_proba(s.X))


def questions() -> Iterator[Call]:
    s = study()
    odd = [value for value in ODD if value is not None]
    yield accepted("impute", lambda: s.model.impute("draw", size=2, random_state=0))
    yield from each("impute", "kind", [*odd, "Mean", "draws"], s.model.impute)
    yield from each("impute", "size", [*odd, 0, True], lambda v: s.model.impute("draw", size=v))
    seeds = ["x", NAN, -1, 1.5, {}, object()]
    draw = partial(s.model.impute, "draw")
    yield from each("impute", "random_state", seeds, lambda v: draw(random_state=v))
    yield Call("impute", "draws of matching", lambda: s.matching.impute("draw"))
    yield Call("impute", "of observed targets", s.observed.impute)
    yield Call("impute", "draws of several", lambda: s.several.impute("draw"))
    new = unbin.AggregatedGLM()
    levels = ["x", None, NAN, INF, 0, 1, 2, 95, -0.5, [], True, 1j]
    for what in ("conf_int", "summary", "tidy", "marginal_effects"):
        ask = getattr(s.model, what)
        yield accepted(what, partial(ask, level=0.9))
        yield from each(what, "level", levels, lambda v, ask=ask: ask(level=v))
    yield from each("predict_interval", "level", levels, lambda v: s.model.predict_interval(s.X, v))
    yield from each("tidy", "exponentiate", [True, "x", 1, None], s.model.tidy)
    for what in ("tidy", "glance", "marginal_effects"):
        ask = getattr(s.model, what)
        yield from each(what, "backend", ["x", 3, [], NAN], lambda v, ask=ask: ask(backend=v))
    frames = ("tidy", "glance", "marginal_effects")
    for what in ("conf_int", "summary", "cov_params", *frames):
        yield Call(what, "of several targets", getattr(s.several, what))
    for what in ("conf_int", "summary", "cov_params", *frames, "impute"):
        yield Call(what, "of no fit", getattr(new, what))
    yield Call("predict", "of no fit", lambda: new.predict(s.X))
    yield Call("score", "of no fit", lambda: new.score(s.X, s.target))
    yield Call("conf_int", "of matching", s.matching.conf_int)
    yield Call("standard_errors_", "of matching", lambda: s.matching.standard_errors_)


def hypotheses() -> Iterator[Call]:
    s, group = study(), "wald_test"
    yield accepted(group, lambda: s.model.wald_test(["x0 = 1", "x0 = x1"]))
    texts = [
        "x9", "x0 = x9", "x0*x1", "x0/x1", "x0 = = 1", "x0 = 1 = 2", "x0**2", "(x0", "x0)", "x0,",
        "", " ", "=", "1 = 1", "x0 = nan", "x0 = inf", "x0 = 1e999", "x0 / 0", "{x0}", "`x0", "\0",
        "__import__('os')", "x0.real", "x0 + 'a'", "x0 x1", "1e400*x0",
        ["x0 = 1", "x0 = 2"], ["x0", 1],
    ]  # fmt: skip
    shapes = [
        np.ones(2),
        np.ones((1, 1, 3)),
        np.full(3, NAN),
        np.zeros(3),
        [[1, 2], [3]],
        {"x0": 1},
    ]
    yield from each(group, "", [*ODD, *texts, *shapes], s.model.wald_test)
    yield Call(group, "of matching", lambda: s.matching.wald_test("x0"))
    X = without(matrices_like(s.X), "too few rows", "too many rows")
    yield from each("predict_interval", "X", X, s.model.predict_interval)
    yield from each("marginal_effects", "X", {k: v for k, v in X.items() if v is not None},
                    s.model.marginal_effects)  # fmt: skip
    weights = vectors_like(s.y)
    effects = partial(s.model.marginal_effects, s.X)
    yield from each("marginal_effects", "weights", weights, lambda v: effects(weights=v))
    yield from each("predict", "return_std", ["x", 1, None, []],
                    lambda v: s.model.predict(s.X, return_std=v))  # fmt: skip


def regressors() -> Iterator[Call]:
    s, group = study(), "AggregatedRegressor"
    linear = LinearRegression()

    def fit(given: dict[str, Any], X: Any = s.X, y: Any = s.target) -> Any:
        return unbin.AggregatedRegressor(**{"estimator": linear, **given}).fit(X, y)

    choices: dict[str, list[Any]] = {
        "estimator": ["x", 3, LinearRegression, object(), [], NAN, None],
        "loss": ["x", None, 3],
        "max_iter": ["x", None, NAN, 0, 1.5, True],
        "tol": ["x", None, NAN, INF, -1, []],
        "init": ["x", None, 3, [], [1.0], np.full(600, NAN), {}],
        "cv": ["x", NAN, 0, 1, 1.5, 31, [], True],
        "random_state": ["x", NAN, -1, 1.5],
    }
    yield accepted(group, lambda: fit({}))
    yield from each(group, "", keywords(choices), fit)
    yield from each(group, "X", matrices_like(s.X), lambda v: fit({}, X=v))
    y = vectors_like(s.y) | {"None": None, "a release": s.release, "two": [s.target, s.target]}
    yield from each(group, "y", y, lambda v: fit({}, y=v))
    new = unbin.AggregatedRegressor(linear)
    yield Call(group, "predict of no fit", lambda: new.predict(s.X))
    yield Call(group, "score of no fit", lambda: new.score(s.X, s.y))
    yield Call(group, "impute of no fit", new.impute)


GROUPS = (
    settings, fits, several_tables, poor_data, predictions, questions, hypotheses, regressors,
)  # fmt: skip
