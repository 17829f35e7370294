"""Categories of many levels through tabmat: the fits of the columns written out."""

import numpy as np
import pandas as pd
import pytest

import unbin
from tests.helpers.releases import quantile_release
from unbin import _linalg
from unbin.exceptions import EngineError, ParameterError
from unbin.families import get_family
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.specification import check_sums, power_sums
from unbin.likelihood.model.law import Law
from unbin.rows import wide
from unbin.rows.design import lay_out

tabmat = pytest.importorskip("tabmat", reason="needs unbin[fast]")
pytestmark = pytest.mark.filterwarnings("ignore:Input array is not contiguous")  # of tabmat's own


def make_people(*, n=3000, n_blocks=60, levels=12, seed=0, drop_first=True, family="gaussian"):
    rng = np.random.default_rng(seed)
    county = np.sort(rng.integers(0, n_blocks, n))[rng.permutation(n)]
    place = rng.dirichlet(np.ones(levels), n_blocks)
    zip_code = np.array([rng.choice(levels, p=place[c]) for c in county])
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n) + 0.5 * rng.normal(size=n_blocks)[county],
            "zip": pd.Categorical(zip_code.astype(str)),
            "rare": (rng.random(n) < 0.03).astype(float),
            "constant": 1.0,
        }
    )
    X = tabmat.from_pandas(frame, drop_first=drop_first, cat_threshold=2, sparse_threshold=0.1)
    effect = rng.normal(size=levels)
    eta = 0.5 * frame["age"].to_numpy() + 0.5 * effect[zip_code] + frame["rare"].to_numpy()
    y = rng.poisson(np.exp(0.5 * eta)) if family == "poisson" else eta + rng.normal(size=n)
    return X, y, county.astype(str)


def test_the_matrix_has_every_kind_of_column():
    X, _, _ = make_people()
    kinds = {type(part).__name__ for part in X.matrices}
    assert kinds == {"CategoricalMatrix", "DenseMatrix", "SparseMatrix"}


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.parametrize(
    ("method", "fit_intercept"), [("likelihood", True), ("likelihood", False), ("matching", True)]
)
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_fits_are_those_of_the_columns_written_out(method, family, fit_intercept):
    X, y, county = make_people(family=family)
    offset = 0.1 * np.random.default_rng(1).normal(size=len(y))
    target = unbin.aggregate(y, county, 6).align(county)
    settings = {
        "family": family,
        "method": method,
        "alpha": 0.1 if method == "matching" else 0.01,  # with less it has several minima
        "fit_intercept": fit_intercept,
        "random_state": 0,
        "tol": 1e-7,
    }
    dense = unbin.AggregatedGLM(**settings).fit(X.toarray(), target, offset=offset)
    model = unbin.AggregatedGLM(**settings).fit(X, target, offset=offset)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-6)
    assert model.intercept_ == pytest.approx(dense.intercept_, abs=1e-6)
    assert model.status_ is dense.status_
    predicted = (model.predict(X, offset=offset), dense.predict(X.toarray(), offset=offset))
    np.testing.assert_allclose(*predicted, atol=1e-5)
    assert list(model.feature_names_in_) == list(X.get_names("column"))
    if method == "likelihood":
        np.testing.assert_allclose(model.standard_errors_, dense.standard_errors_, rtol=1e-6)
        # the dense columns have no names
        named = model.diagnostics_.reason.replace("(constant)", "(x13)")
        assert named == dense.diagnostics_.reason


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_ordinal_fits_and_scores():
    X, y, county = make_people(drop_first=False)
    target = unbin.aggregate(y, county, 5).align(county)
    settings = {"family": "ordinal", "alpha": 0.01}
    dense = unbin.AggregatedGLM(**settings).fit(X.toarray(), target)
    model = unbin.AggregatedGLM(**settings).fit(X, target)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-7)
    assert model.score(X, target) == pytest.approx(dense.score(X.toarray(), target), abs=1e-9)


def test_sums_of_blocks_equal_numpy():
    X, _, county = make_people()
    codes = np.unique(county, return_inverse=True)[1]
    design = wide.lay_out_wide(X, codes, codes.max() + 1)
    written = X.toarray()
    scale = np.where(design.varies, design.scale, np.inf)
    standard = (written - design.center) / scale
    means = [standard[codes == b].mean(axis=0) for b in range(codes.max() + 1)]
    np.testing.assert_allclose(design.block_means[:, :-1], means, atol=1e-10)
    np.testing.assert_allclose(design.ranges, np.ptp(standard, axis=0), atol=1e-9)
    full = np.column_stack([np.ones(len(codes)), standard])
    theta = np.linspace(-0.1, 0.1, full.shape[1])
    expected = full.T @ (np.exp(full @ theta)[:, None] * full)
    np.testing.assert_allclose(design.gram(theta, np.exp), expected, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_sums_of_specification_tests_are_those_of_the_columns_written_out(kind):
    X, y, county = make_people(family=kind)
    codes, family = np.unique(county, return_inverse=True)[1], get_family(kind)
    weights = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    release = unbin.aggregate(np.repeat(y, weights.astype(int)), county.repeat(weights.astype(int)))
    release = release.align(county, weights=weights).release
    designs = (
        wide.lay_out_wide(X, codes, codes.max() + 1, weights=weights),
        lay_out(X.toarray(), codes, codes.max() + 1, weights=weights),
    )
    problems = [make_problem(design, [release], family) for design in designs]
    free = np.linspace(-0.2, 0.2, problems[0].coordinates.n_free)
    ours, theirs = (
        [
            *zip(
                *design.by_block(check_sums, Law.of(own, free), free, then=lambda _, sums: sums),
                strict=True,
            )
        ]
        for design, own in zip(designs, problems, strict=True)
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.concatenate(mine), np.concatenate(other), atol=1e-9)
    powers = [design.total(power_sums) for design in designs]
    np.testing.assert_allclose(*powers, rtol=1e-9, atol=1e-8)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_threads_change_nothing():
    X, y, county = make_people(n=40_000)
    target = unbin.aggregate(y, county, 5).align(county)
    one, two = (unbin.AggregatedGLM(alpha=0.01, n_jobs=k).fit(X, target) for k in (1, 3))
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_many_parameters_take_the_short_way(monkeypatch):
    monkeypatch.setattr(_linalg, "_MANY", 1)
    X, y, county = make_people()
    target = unbin.aggregate(y, county, 6).align(county)
    for method in ("likelihood", "matching"):
        settings = {"method": method, "alpha": 0.01, "random_state": 0, "tol": 1e-7}
        short = unbin.AggregatedGLM(**settings).fit(X, target)
        monkeypatch.setattr(_linalg, "_MANY", 10**6)
        whole = unbin.AggregatedGLM(**settings).fit(X, target)
        np.testing.assert_allclose(short.coef_, whole.coef_, atol=1e-6)
        monkeypatch.setattr(_linalg, "_MANY", 1)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_what_a_tabmat_matrix_cannot_do():
    X, y, county = make_people(n=600, n_blocks=10)
    target = unbin.aggregate(y, county, 4).align(county)
    with pytest.raises(ParameterError, match="contextual: needs an array"):
        unbin.AggregatedGLM(contextual=True).fit(X, target)
    release = quantile_release(y, county)
    with pytest.raises(EngineError, match="cannot be fitted to a tabmat matrix"):
        unbin.AggregatedGLM(alpha=1.0).fit(X, release.align(county))
    model = unbin.AggregatedGLM(alpha=1.0).fit(X, target)
    with pytest.raises(ParameterError, match="must have the 14 columns"):
        model.predict(tabmat.DenseMatrix(np.ones((3, 2))))
