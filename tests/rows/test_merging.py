"""Identical rows of a block, merged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unbin
from unbin.fitting import methods
from unbin.rows.design import lay_out, row_sums
from unbin.rows.merging import different_rows, merge_rows, merged_rows


def categories(rng, n, *levels):
    return np.column_stack([rng.integers(0, k, n) for k in levels]).astype(float)


def laid_out(seed=0, n=4_000, n_blocks=7, **further):
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.integers(0, n_blocks, n))
    X = categories(rng, n, 2, 3)
    return X, codes, lay_out(X, codes, n_blocks, **further)


def test_different_rows_are_those_of_a_sort():
    rng = np.random.default_rng(1)
    others = (rng.integers(0, 3, 4_000), rng.integers(0, 2, 4_000))
    offset = rng.integers(0, 2, 4_000).astype(float)
    X, codes, design = laid_out(others=others, offset=offset)
    first, place, start = different_rows(design.rows)
    order = design.order
    table = np.column_stack([codes, *others, offset, X])[order]
    found, count = np.unique(table, axis=0, return_counts=True)
    assert len(first) == len(found)
    np.testing.assert_array_equal(table[first][place], table)
    np.testing.assert_array_equal(np.sort(np.bincount(place)), np.sort(count))
    np.testing.assert_array_equal(np.repeat(np.arange(7), np.diff(start)), table[first, 0])


def test_rows_of_equal_key_are_compared_by_their_features():
    _, _, design = laid_out()
    collided = replace(design.rows, key=np.zeros_like(design.rows.key))
    first, place, _ = different_rows(collided)
    np.testing.assert_array_equal(design.rows.matrix[first][place], design.rows.matrix)


def test_sums_and_people_stay_the_same():
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 3.0, 4_000)
    _, _, design = laid_out(weights=weights)
    merged = merge_rows(design)
    assert merged.n_rows == 7 * 6
    np.testing.assert_allclose(merged.people, design.people, rtol=1e-12)
    both = [
        np.concatenate(list(each.by_block(row_sums, then=lambda _, sums: sums[0])))
        for each in (design, merged)
    ]
    np.testing.assert_allclose(both[1], both[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("levels", "pays"), [((2, 3), True), ((40, 60), False)])
def test_rows_are_merged_only_where_far_fewer_are_left(levels, pays):
    rng = np.random.default_rng(3)
    X, codes = categories(rng, 3_000, *levels), np.sort(rng.integers(0, 3, 3_000))
    design = lay_out(X, codes, 3)
    assert (merge_rows(design) is not design) == pays


def test_continuous_features_are_left_alone():
    rng = np.random.default_rng(4)
    design = lay_out(rng.normal(size=(3_000, 2)), np.sort(rng.integers(0, 3, 3_000)), 3)
    assert merge_rows(design) is design


def test_rows_of_a_sample_are_left_alone():
    _, _, design = laid_out(weights=np.full(4_000, 20.0), sampled=True)
    assert merge_rows(design) is design


@pytest.mark.parametrize("family", ["gaussian", "binomial", "ordinal"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_a_fit_to_merged_rows_is_the_fit_to_all(monkeypatch, family, several):
    rng = np.random.default_rng(5)
    county = np.repeat(np.arange(30), 60)
    X = categories(rng, 1_800, 2, 3) + rng.integers(0, 3, 30).repeat(60)[:, None] * [0, 1]
    eta = X @ [0.5, -0.3]
    y = eta + rng.logistic(size=1_800)
    if family == "binomial":
        y = (y > 0).astype(float)
    bins = [-0.5, 0.5, 1.5] if family == "binomial" else 4
    target = unbin.aggregate(y, county, bins).align(county)
    if several:
        target = unbin.join(target, unbin.aggregate(y, X[:, 0], bins).align(X[:, 0]))
    merged = unbin.AggregatedGLM(family).fit(X, target)
    monkeypatch.setattr(methods, "merge_rows", lambda design: design)
    plain = unbin.AggregatedGLM(family).fit(X, target)
    np.testing.assert_allclose(merged.coef_, plain.coef_, rtol=1e-10)
    np.testing.assert_allclose(merged.standard_errors_, plain.standard_errors_, rtol=1e-10)
    np.testing.assert_allclose(merged.impute(), plain.impute(), rtol=1e-8)


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
def test_people_in_files_are_merged_part_by_part(tmp_path, monkeypatch):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rng = np.random.default_rng(6)
    county = np.repeat(np.arange(30), 200).astype(str)
    X = categories(rng, 6_000, 2, 3)
    y = X @ [0.5, -0.3] + rng.normal(size=6_000)
    columns = {"county": county, "sex": X[:, 0], "group": X[:, 1]}
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=1_500)
    tables = {name: unbin.aggregate(y, columns[name], bins=4) for name in ("county", "sex")}
    how = {"features": ["sex", "group"]}
    merged = unbin.AggregatedGLM().fit(str(path), tables, **how)
    monkeypatch.setattr(methods, "merge_rows", lambda design: design)
    plain = unbin.AggregatedGLM().fit(str(path), tables, **how)
    np.testing.assert_allclose(merged.coef_, plain.coef_, rtol=1e-10)
    np.testing.assert_allclose(merged.standard_errors_, plain.standard_errors_, rtol=1e-10)


def test_merged_parts_are_smaller():
    _, _, design = laid_out(n=20_000, n_blocks=200)
    parts = replace(design, rows=None)
    merged = merge_rows(parts)
    assert sum(map(len, merged.parts.stream(merged_rows))) == 200 * 6
    assert merged.whole is merged.parts
