"""Residuals, expected means, quantiles and influence are those of brute force."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import unbin
from unbin import plots
from unbin.exceptions import ParameterError
from unbin.people.encoding import Encoding
from unbin.results.plots.blocks import levels_of


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(8)
    codes = np.repeat(np.arange(50), rng.integers(30, 90, 50))
    X = rng.normal(size=(len(codes), 2)) + 0.8 * rng.normal(size=(50, 2))[codes]
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["block"] = [f"b{k:02d}" for k in codes]
    frame["y"] = 1 + X @ [1.0, -0.5] + rng.normal(size=len(codes))
    return frame


def means_fit(people):
    table = people.groupby("block").y.agg(["mean", "size"]).reset_index()
    release = unbin.Release.from_means(table, block="block", mean="mean", n="size")
    return unbin.AggregatedGLM(alpha=0).fit(people[["a", "b"]], release.align(people.block))


def quantile_fit(people, quantiles):
    table = people.groupby("block").y.quantile(quantiles).reset_index()
    table.columns = ["block", "quantile", "value"]
    table["n"] = table.block.map(people.block.value_counts())
    release = unbin.Release.from_quantiles(
        table, block="block", quantile="quantile", value="value", n="n"
    )
    model = unbin.AggregatedGLM(alpha=0).fit(people[["a", "b"]], release.align(people.block))
    return model, table


def histogram_fit(people, bins=5):
    release = unbin.aggregate(people.y, people.block, bins=bins)
    return unbin.AggregatedGLM(alpha=0).fit(people[["a", "b"]], release.align(people.block))


def test_expected_means_are_those_of_the_people(people):
    model = means_fit(people)
    found = model._fits[0].means
    eta = model.intercept_ + people[["a", "b"]].to_numpy() @ model.coef_
    wanted = pd.Series(eta).groupby(people.block).mean()
    np.testing.assert_allclose(found.expected, wanted[list(found.blocks)], rtol=1e-6)
    np.testing.assert_allclose(found.mean, people.groupby("block").y.mean()[list(found.blocks)])


def test_the_residual_of_a_mean_is_its_z(people):
    model = means_fit(people)
    found = model._fits[0].means
    wanted = (found.mean - found.expected) * np.sqrt(found.n / model.dispersion_)
    np.testing.assert_allclose(found.residual, wanted, rtol=1e-5)


@pytest.mark.parametrize("quantiles", [[0.5], [0.25, 0.5, 0.75]])
def test_expected_shares_are_those_of_the_people(people, quantiles):
    model, table = quantile_fit(people, quantiles)
    found = model._fits[0].quantiles
    eta = model.intercept_ + people[["a", "b"]].to_numpy() @ model.coef_
    codes = pd.Categorical(people.block, categories=list(found.blocks)).codes
    below = norm.cdf((found.value[codes] - eta[:, None]) / np.sqrt(model.dispersion_))
    wanted = pd.DataFrame(below).groupby(codes).mean()
    np.testing.assert_allclose(found.expected, wanted, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.value.ravel(), table.value)


@pytest.mark.parametrize("kind", ["histogram", "means", "quantiles"])
def test_residuals_of_a_right_model_are_standard_normal(people, kind):
    model = {"histogram": histogram_fit, "means": means_fit}.get(
        kind, lambda people: quantile_fit(people, [0.25, 0.5, 0.75])[0]
    )(people)
    found = levels_of(model)
    assert len(found.residual) == 50
    assert 0.8 < found.residual.std() < 1.2
    assert abs(found.residual.mean()) < 0.3


def test_a_block_that_lies_high_has_a_high_residual(people):
    moved = people.assign(y=people.y + 1.5 * (people.block == "b07"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = histogram_fit(moved, bins=np.linspace(-6, 8, 12))
    found = levels_of(model)
    assert found.blocks[np.argmax(found.residual)] == "b07"
    at = np.argmax(found.observed - found.fitted)
    assert found.blocks[at] == "b07"


@pytest.mark.parametrize("fit", [means_fit, histogram_fit])
def test_influence_is_what_leaving_a_block_out_takes_away(people, fit):
    model = fit(people)
    found = model.diagnostics_.influence
    assert (np.diff(np.abs(found.shift).max(axis=1)) <= 1e-12).all()
    seen = []
    for k in (0, 5, 12):
        without = people[people.block != found.block[k]]
        if fit is histogram_fit:
            edges = model.published_.upper[:-1]
            other = histogram_fit(without, bins=[-np.inf, *edges, np.inf])
        else:
            other = fit(without)
        seen.append((model.coef_ - other.coef_) / model.standard_errors_)
    # to first order: the scale is fitted again too
    np.testing.assert_allclose(found.shift[[0, 5, 12]], seen, atol=0.12, rtol=0.2)


def test_influence_of_several_tables_names_them(joint):
    found = joint.diagnostics_.influence
    for table, block in zip(found.table, found.block, strict=True):
        assert block in joint.tables_[table].published.blocks
    ax = plots.influence(joint, most=5)
    assert len(ax.patches) == 5
    np.testing.assert_allclose(
        [bar.get_width() for bar in ax.patches],
        [row[np.abs(row).argmax()] for row in found.shift[:5]],
    )


def test_points_are_where_blocks_lie(people):
    model = histogram_fit(people)
    found = levels_of(model)
    ax = plots.residuals(model)
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), found.fitted)
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), found.residual)
    ax = plots.observed_expected(model)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.observed)
    np.testing.assert_allclose(np.corrcoef(found.observed, people.groupby("block").y.mean())[0, 1],
                               1, atol=0.02)  # fmt: skip
    for ax in (plots.residuals(model), plots.observed_expected(model)):
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def test_shares_are_drawn_beside_published_ones(people):
    model, _ = quantile_fit(people, [0.25, 0.75])
    ax = plots.observed_expected(model)
    lines = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "-"]
    np.testing.assert_allclose(lines, [25, 75], atol=2)
    np.testing.assert_allclose(
        ax.lines[1].get_ydata(), 100 * model._fits[0].quantiles.expected[:, 0]
    )


def test_what_is_not_kept_is_not_drawn(study):
    for draw in (plots.residuals, plots.observed_expected):
        with pytest.raises(ParameterError, match="blocks: need a likelihood fit that holds"):
            draw(study.matching)
    with pytest.raises(ParameterError, match="influence: needs a likelihood fit"):
        plots.influence(study.matching)


@pytest.mark.parametrize("kind", ["means", "quantiles"])
def test_saved_models_keep_what_may_be_kept(people, kind, tmp_path):
    model = means_fit(people) if kind == "means" else quantile_fit(people, [0.5])[0]
    unbin.save(model, tmp_path / "model.json")
    loaded = unbin.load(tmp_path / "model.json")
    np.testing.assert_allclose(levels_of(loaded).residual, levels_of(model).residual, rtol=1e-12)
    np.testing.assert_allclose(
        loaded.diagnostics_.influence.shift, model.diagnostics_.influence.shift
    )


def test_saved_models_lose_what_a_report_masks(people, tmp_path):
    few = people.groupby("block").head(9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = means_fit(few)
    unbin.save(model, tmp_path / "model.json")
    loaded = unbin.load(tmp_path / "model.json")
    assert loaded._fits[0].means is None
    assert loaded.diagnostics_.influence is None


# -- effects of columns ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curved():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(60), 80)
    age = np.clip(50 + 8 * rng.normal(size=60)[codes] + 8 * rng.normal(size=len(codes)), 20, 80)
    sex = np.where(rng.random(len(codes)) < 0.5, "f", "m")
    y = 0.002 * (age - 45) ** 2 + 0.3 * (sex == "m") + rng.normal(size=len(codes))
    people = pd.DataFrame({"age": age, "sex": sex})
    encoding, X = Encoding.build("bs(age, df=4) + C(sex)", people)
    X = pd.DataFrame(X, columns=list(encoding.names))
    blocks = codes.astype(str)
    model = unbin.AggregatedGLM(alpha=0).fit(X, unbin.aggregate(y, blocks, bins=6).align(blocks))
    return model, encoding, people


def test_a_curve_is_the_sum_of_its_terms(curved):
    model, encoding, people = curved
    ax = plots.effect(model, "age", encoding=encoding)
    x, y = ax.lines[-1].get_data()
    assert (x.min(), x.max()) == (people.age.min(), people.age.max())
    grid = pd.DataFrame({"age": x, "sex": "m"})
    middle = grid.assign(age=(x.min() + x.max()) / 2)
    wanted = (encoding.encode(grid) - encoding.encode(middle)) @ model.coef_
    np.testing.assert_allclose(y, wanted, atol=1e-10)
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() > y.max()
    truth = 0.002 * ((x - 45) ** 2 - (middle.age[0] - 45) ** 2)
    inner = (x > 35) & (x < 65)
    assert np.abs(y - truth)[inner].max() < 0.4
    assert ax.get_xlabel() == "age"


def test_a_band_is_that_of_the_covariance(curved):
    """At one point, against the error of that contrast."""
    model, encoding, _ = curved
    ax = plots.effect(model, "age", encoding=encoding, values=[40.0, 60.0], level=0.9)
    ends = ax.collections[0].get_paths()[0].vertices
    rows = encoding.encode(pd.DataFrame({"age": [40.0, 50.0], "sex": ["f", "f"]}))
    contrast = rows[0] - rows[1]
    cov = model._fits[0].covariance[1:, 1:]
    half = model.summary(0.9).coefficients.interval()[1, 1] - model.coef_[0]
    t = half / model.standard_errors_[0]
    wanted = contrast @ model.coef_ + np.array([-1, 1]) * t * np.sqrt(contrast @ cov @ contrast)
    found = np.sort(np.unique(np.round(ends[ends[:, 0] == 40.0, 1], 9)))
    np.testing.assert_allclose(found, np.round(wanted, 9), atol=1e-8)


def test_effects_say_what_they_need(curved, study):
    model, encoding, _ = curved
    with pytest.raises(ParameterError, match="encoding: the model does not hold its formula"):
        plots.effect(study.model, "age")
    with pytest.raises(ParameterError, match="column: must be a number in the formula, got 'sex'"):
        plots.effect(model, "sex", encoding=encoding)
    with pytest.raises(ParameterError, match="encoding: must give the 4 columns of the model"):
        plots.effect(study.model, "age", encoding=encoding)
    plain, _ = Encoding.build("age", pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(ParameterError, match="values: the fit does not know the range of 'age'"):
        plots.effect(model, "age", encoding=plain)
