"""The torch engine makes the sums of the local one, on the CPU here; skipped without torch."""

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import unbin
from unbin.datasets import simulate
from unbin.exceptions import (
    AggregatedTargetError,
    AlignmentError,
    DomainError,
    EngineError,
    ParameterError,
)
from unbin.families import get_family
from unbin.families.base import unweighted
from unbin.families.coordinates import Coordinates
from unbin.likelihood.data.problem import make_problem
from unbin.likelihood.infer.evidence import told_by_person
from unbin.likelihood.infer.heldout import count_sums
from unbin.likelihood.model.law import Law, Moves
from unbin.likelihood.model.moments import moment_sums
from unbin.likelihood.model.score import score_sums
from unbin.likelihood.solve.start import bin_value_sums, eta_sums, starting_point
from unbin.matching.bounds import rank_bounds
from unbin.matching.objective import matching_sums
from unbin.rows.design import extremes, gram_sums, lay_out, row_sums
from unbin.rows.engines import Blocks, Layout, Options
from unbin.rows.survey import Surveyed

torch = pytest.importorskip("torch", reason="the torch engine needs torch: pip install unbin[gpu]")
from unbin.rows.engines.torch import engine, layout, machine, streaming, tiles  # noqa: E402
from unbin.rows.engines.torch.bins import Bins  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
MACHINE = machine.open_machine("cpu", "float64")
SIZES = {
    "ragged": [1, 2, 700, 3, 40, 1100, 513, 9, 77],
    "small": [3, 1, 2, 5, 4] * 30,
    "equal": [64] * 12,
    "one": [300],
}
NUISANCE = {"gaussian": [-0.2], "gamma": [-0.5], "negative-binomial": [-0.3]}


def close(ours, theirs, rtol=1e-11):
    theirs = np.asarray(theirs)
    scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=1e-300)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


def rows_of(sizes, *, d=3, offset=False, fit_intercept=True, ranked=False, weights=False, seed=0):
    """Return the same rows here and on the device; some may stand for nobody."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(codes), d)) + 0.3 * rng.normal(size=(len(sizes), d))[codes]
    extra = 0.2 * rng.normal(size=len(codes)) if offset else None
    people = rng.integers(0, 4, len(codes)).astype(float) if weights else None
    design = lay_out(
        X, codes, len(sizes), offset=extra, fit_intercept=fit_intercept, weights=people
    )
    return design.rows, tiles.from_rows(design.rows, MACHINE, ranked)


def theta_of(rows, seed=1):
    return 0.4 * np.random.default_rng(seed).normal(size=rows.matrix.shape[1] + rows.fit_intercept)


def bins_of(family, n_blocks, *, own=False, seed=0):
    """Return bins, shared or of each block's own (some of them padding)."""
    rng = np.random.default_rng(seed)
    if family.domain.integer:
        high = family.domain.high
        edges = [0, 1, 2, 4] if np.isfinite(high) else [0, 1, 3, 6]
        lower = np.array([0.0, 1.0, *[edge + 1.0 for edge in edges[2:]]])
        upper = np.array([0.0, *map(float, edges[2:]), high])
        if own:
            lower, upper = np.tile(lower, (n_blocks, 1)), np.tile(upper, (n_blocks, 1))
            upper[::2, -2], upper[::2, -1] = high, -1.0  # the last two merged
            lower[::2, -1] = 0.0
        return lower, upper
    low = max(family.domain.low, -np.inf)
    cuts = np.array([0.3, 0.8, 0.8005, 1.7]) if low == 0 else np.array([-1.0, 0.0, 0.0004, 0.9])
    if own:
        cuts = cuts + 0.05 * rng.normal(size=(n_blocks, 1))
    ends = np.broadcast_to(low, (*cuts.shape[:-1], 1)), np.full((*cuts.shape[:-1], 1), np.inf)
    lower, upper = np.concatenate([ends[0], cuts], -1), np.concatenate([cuts, ends[1]], -1)
    if own:
        upper[::3, -2] = np.inf
        lower[::3, -1], upper[::3, -1] = np.inf, -np.inf
    return lower, upper


FAMILIES = ["gaussian", "poisson", "binomial", "gamma", "negative-binomial", "ordinal"]


def family_of(name):
    return get_family(name, 6)


def on_device(X, target, *, ranked=False):
    release = target.release
    options = Options(n_threads=1, ranked=ranked, device="cpu")
    return engine.TorchEngine(options).rows(
        X, Blocks(release.blocks, target.codes, release.n), None
    )


def law_of(family, rows, *, own=False, unit=None, variance=0.0):
    lower, upper = bins_of(family, len(rows.blocks), own=own)
    nuisance = np.array(NUISANCE.get(family.name, []))
    m = lower.shape[-1] - 1 if family.free_shape else len(nuisance)
    if family.free_shape:
        nuisance = np.sort(np.random.default_rng(5).normal(size=m))
    p = rows.matrix.shape[1] + rows.fit_intercept
    coordinates = Coordinates(p, m, family.free_shape, family.free_shape)
    if not rows.fit_intercept:
        coordinates = replace(coordinates, fixed_intercept=False)
    free = coordinates.join(theta_of(rows), nuisance)
    return Law(family, coordinates, lower, upper, unit, variance), free


# -- every sum against the local one ---------------------------------------------------------------


WEIGHED = pytest.mark.parametrize("weights", [False, True], ids=["people", "weights"])


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@WEIGHED
def test_sums_of_columns(sizes, fit_intercept, weights):
    here, there = rows_of(sizes, offset=fit_intercept, fit_intercept=fit_intercept, weights=weights)
    theta = theta_of(here)
    close(row_sums(there)[0], row_sums(here)[0])
    close(eta_sums(there, theta)[0], eta_sums(here, theta)[0])
    for ours, theirs in zip(extremes(there), extremes(here), strict=True):
        close(ours, theirs)
    for name in ("gaussian", "poisson", "binomial", "gamma", "negative-binomial"):
        family = family_of(name)
        for weight in (unweighted, family.mean_derivative):
            close(gram_sums(there, theta, weight), gram_sums(here, theta, weight))
        nuisance = np.array(NUISANCE.get(name, []))
        told = told_by_person(family, nuisance, here.eta(theta))
        close(told_by_person(family, nuisance, torch.as_tensor(here.eta(theta))).numpy(), told)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["shared", "own", "means", "effects"])
@WEIGHED
def test_moments_of_blocks(name, kind, weights):
    family = family_of(name)
    if family.free_shape and kind == "own":
        pytest.skip("thresholds are shared")
    here, there = rows_of(SIZES["ragged"], offset=kind == "own", weights=weights)
    variance = 0.05 if kind == "effects" else 0.0
    unit = 1.7 if kind == "means" else None
    law, free = law_of(family, here, own=kind == "own", unit=unit, variance=variance)
    for covariance in (True, False):
        ours, theirs = (moment_sums(rows, law, free, covariance) for rows in (there, here))
        for mine, other in zip(ours, theirs, strict=True):
            close(mine, other, rtol=1e-10)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_moments_of_blocks_of_any_size(sizes):
    here, there = rows_of(sizes, fit_intercept=False)
    law, free = law_of(get_family("gaussian"), here)
    ours, theirs = (moment_sums(rows, law, free, True) for rows in (there, here))
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)


def test_sums_of_tiles_do_not_depend_on_the_chunks(monkeypatch):
    here, there = rows_of([3000, 1, 20_000, 5, 6, 9000])
    law, free = law_of(get_family("gaussian"), here)
    whole = moment_sums(there, law, free, True)
    monkeypatch.setitem(machine._CELLS, "cpu", 1)
    for mine, other in zip(moment_sums(there, law, free, True), whole, strict=True):
        close(mine, other)
    monkeypatch.setitem(machine._CELLS, "cpu", 1 << 20)
    monkeypatch.setattr(tiles, "_DENSE", 0)
    for mine, other in zip(moment_sums(there, law, free, True), whole, strict=True):
        close(mine, other)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("own", [False, True])
@WEIGHED
def test_expected_counts_and_bin_values(name, own, weights):
    family = family_of(name)
    if family.free_shape and own:
        pytest.skip("thresholds are shared")
    here, there = rows_of(SIZES["ragged"], weights=weights)
    law, free = law_of(family, here, own=own)
    theta, nuisance = law.coordinates.split(free)
    args = (family, law.lower, law.upper, theta, nuisance)
    close(count_sums(there, *args)[0], count_sums(here, *args)[0])
    if not own:
        for mine, other in zip(
            bin_value_sums(there, *args, 7), bin_value_sums(here, *args, 7), strict=True
        ):
            close(mine, other, rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
@pytest.mark.parametrize("kind", ["counts", "noise", "means", "effects", "own bins"])
def test_scores_of_blocks(family, kind):
    if (family, kind) == ("ordinal", "means"):
        pytest.skip("thresholds have no means")
    X, blocks, release = sample("gaussian", n=4000, n_blocks=600, bins=5)
    if kind == "noise":
        release = replace(release, noise_sd=1.5)
    if kind == "means":
        means = np.random.default_rng(0).normal(size=len(release))
        means[::3] = np.nan
        release = replace(release, means=means)
    target = release.align(blocks)
    if kind == "own bins":
        if family == "ordinal":
            pytest.skip("thresholds are shared")
        table = release.histogram  # every block's edges are its own, but the open ones
        shift = np.repeat(0.01 * np.arange(len(release)), np.diff(table.start))
        moved = replace(table, lower=table.lower + shift, upper=table.upper + shift)
        target = replace(release, histogram=moved).align(blocks)
    here = lay_out(X, target.codes, len(target.release))
    there = on_device(X, target).design(Layout(fit_intercept=True))
    sums = []
    for design in (there, here):
        aligned = target.release
        problem = make_problem(design, [aligned], get_family(family))
        problem = replace(problem, block_variance=0.05 if kind == "effects" else 0.0)
        free = 0.9 * starting_point(problem)
        sums.append(score_sums(problem, free, np.full(len(free), 0.3)))
    several = {"border", "further", "beside", "known", "sampled"}
    for name in {field.name for field in fields(sums[0])} - {"mean", *several}:
        close(getattr(sums[0], name), getattr(sums[1], name), rtol=1e-9)
    (mean,), (other,) = (each.mean for each in sums)
    close(mean, other, rtol=1e-9)
    for name in several:
        assert not getattr(sums[0], name)
        assert not getattr(sums[1], name)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "binomial", "gamma", "ordinal"])
def test_probabilities_are_right_in_the_tails(name):
    family = family_of(name)
    eta = np.linspace(-12, 8, 81)
    law, free = law_of(family, rows_of([5])[0])
    nuisance = law.coordinates.split(free)[1]
    here = family.bins(eta, law.lower, law.upper, nuisance)
    bins = Bins(family, law.lower, law.upper, nuisance, MACHINE)
    there = bins.at(torch.as_tensor(eta)[None], torch.zeros(1, dtype=torch.int64))
    q = here.probability
    seen = q > 1e-290
    np.testing.assert_allclose(there.probability[:, 0].T.numpy()[seen], q[seen], rtol=1e-10)
    size = np.abs(here.d_eta)
    np.testing.assert_allclose(
        there.stack[1, :, 0].T.numpy()[seen], here.d_eta[seen], rtol=1e-9, atol=1e-9 * size.max()
    )


@pytest.mark.parametrize("name", ["gaussian", "poisson", "binomial"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_matching_sums(name, sizes):
    rng, family = np.random.default_rng(3), family_of(name)
    here, there = rows_of(sizes, offset=True, ranked=True)
    y = rng.normal(size=len(here)) if name == "gaussian" else rng.integers(0, 7, len(here)) * 1.0
    blocks = np.repeat([f"{b:03d}" for b in range(len(sizes))], sizes)
    release = unbin.aggregate(y, blocks, 4).align(blocks).release
    bounds = rank_bounds(release, family.domain)
    for seed in (0, 1):
        theta = theta_of(here, seed)
        ours, theirs = (matching_sums(rows, family, bounds, theta) for rows in (there, here))
        for mine, other in zip(ours, theirs, strict=True):
            close(mine, other)


def test_equal_means_rank_by_their_key():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 50)
    X = rng.integers(0, 3, size=(300, 3)).astype(float)
    X[0] = -0.0
    y = rng.normal(size=300)
    release = unbin.aggregate(y, codes.astype(str), 5).align(codes.astype(str)).release
    family = get_family("gaussian")
    bounds = rank_bounds(release, family.domain)
    for seed in (0, 7):
        here = lay_out(X, codes, 6, seed=seed)
        people = on_device(X, unbin.AggregatedTarget(release, codes), ranked=True)
        there = people.design(Layout(fit_intercept=True, seed=seed))
        for theta in (np.array([0.1, 0, 0, 0.0]), np.array([0.1, 0, 0.5, 0])):
            close(
                there.whole.total(matching_sums, family, bounds, theta)[1],
                here.whole.total(matching_sums, family, bounds, theta)[1],
            )


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_effects_are_those_of_the_blocks_of_a_part(family):
    here, _ = rows_of([5, 8, 3, 9])
    law, free = law_of(family_of(family), here, variance=0.2)
    rng, b = np.random.default_rng(0), 4
    effects = Moves(rng.normal(size=b), rng.uniform(0.1, 0.5, b))
    law = replace(law, effects=effects)
    part = here.take(2, 4, slice(int(here.start[2]), int(here.start[4])))
    found = moment_sums(tiles.from_rows(part, MACHINE), law, free, True)
    for ours, theirs in zip(found, moment_sums(part, law, free, True), strict=True):
        close(ours, theirs)


def test_eta_of_a_large_matrix_is_made_in_pieces(monkeypatch):
    _, there = rows_of(SIZES["ragged"], offset=True)
    theta = torch.linspace(-1, 1, 4, dtype=torch.float64)
    whole = there.eta(theta)
    monkeypatch.setattr(tiles, "_SHORT", 3 * there.tile * 4)
    close(there.eta(theta), whole)
    close(there.eta(theta, slice(1, 6)), whole[1:6])


def test_a_sum_that_overflows_is_no_infinite_value():
    huge = torch.full((4, 2), 1e308, dtype=torch.float64)
    engine.check_tensor(huge)
    with pytest.raises(DomainError, match="must be finite"):
        engine.check_tensor(torch.tensor([[1.0, float("inf")], [2.0, -float("inf")]]))


# -- whole fits ------------------------------------------------------------------------------------


def sample(family, n=6000, d=3, n_blocks=40, bins=6, seed=1):
    """Return X, block of each row and a release."""
    if family in ("gaussian", "poisson", "binomial"):
        sim = simulate(n, d, n_blocks, family=family, between=0.4, n_trials=6, random_state=seed)
        X, y, blocks = sim.X, sim.y, sim.blocks
    else:
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, n_blocks, n)
        X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_blocks, d))[codes]
        mean = np.exp(0.4 + X @ np.linspace(-0.3, 0.3, d))
        y = (
            rng.gamma(2, mean / 2)
            if family == "gamma"
            else rng.negative_binomial(2, 2 / (2 + mean))
        )
        blocks = np.array([f"{c:02d}" for c in codes])
    return X, blocks, unbin.aggregate(y, blocks, bins)


def fit(X, y, *args, on="torch", fit_to=None, **kwargs):
    extra = {"engine": "torch", "device": "cpu"} if on == "torch" else {}
    model = unbin.AggregatedGLM(*args, random_state=0, **extra, **kwargs)
    return model.fit(X, y, **(fit_to or {}))


def same(ours, theirs, rtol=1e-8):
    for name in ("coef_", "intercept_", "contextual_coef_", "objective_", "block_sd_"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (mine is None) == (other is None)
        if other is not None:
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(ours.nuisance_, theirs.nuisance_, rtol=rtol, atol=rtol)
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.status_ is theirs.status_
    assert str(ours.diagnostics_) == str(theirs.diagnostics_)
    if ours.method == "likelihood":
        np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=1e-6)
        np.testing.assert_allclose(*map(p_values, (ours, theirs)), rtol=1e-5, atol=1e-8)


def p_values(model):
    """Return those of all tests of the specification."""
    found = model.diagnostics_
    tests = [each for each in (found.shape, *found.extensions, found.context) if each is not None]
    return [each.p_value for each in tests]


@pytest.mark.parametrize(
    "family", ["gaussian", "poisson", "binomial", "gamma", "negative-binomial", "ordinal"]
)
def test_likelihood_fits_are_those_of_the_local_engine(family):
    X, blocks, release = sample("gaussian" if family == "ordinal" else family)
    target = release.align(blocks)
    same(*(fit(X, target, family, n_trials=6, on=on) for on in ("torch", "local")))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_matching_fits_are_those_of_the_local_engine(family):
    X, blocks, release = sample(family)
    target = release.align(blocks)
    args = (family, "matching")
    same(*(fit(X, target, *args, n_trials=6, on=on) for on in ("torch", "local")))


@pytest.mark.parametrize(
    "settings",
    [
        {"contextual": True},
        {"alpha": 0.1},
        {"fit_intercept": False},
        {"alpha": "held-out"},
        {"family": "ordinal", "fit_intercept": False},
        {"method": "matching", "fit_intercept": False, "alpha": 0.01},
        {"method": "matching", "n_init": 2},
    ],
    ids=str,
)
def test_settings(settings):
    X, blocks, release = sample("gaussian", n=3000, n_blocks=30)
    target = release.align(blocks)
    same(*(fit(X, target, **settings, on=on) for on in ("torch", "local")))


@pytest.mark.parametrize("method", ["likelihood", "matching"])
def test_an_offset(method):
    X, blocks, release = sample("poisson", n=3000)
    offset = 0.3 * np.random.default_rng(0).normal(size=len(X))
    args = {"fit_to": {"offset": offset}}
    target = release.align(blocks)
    same(*(fit(X, target, "poisson", method, **args, on=on) for on in ("torch", "local")))


def test_a_constant_column_tells_nothing():
    X, blocks, release = sample("gaussian", n=3000, n_blocks=30)
    X = np.column_stack([X, np.full(len(X), 2.3)])
    target = release.align(blocks)
    ours, theirs = (fit(X, target, on=on) for on in ("torch", "local"))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10, atol=1e-12)


def test_means_hidden_counts_and_noise():
    rng = np.random.default_rng(0)
    X, blocks, release = sample("gaussian", n=3000, n_blocks=30)
    means = replace(release, means=rng.normal(size=len(release)))
    noisy = replace(release, noise_sd=1.0)
    table = release.histogram
    low = np.where(table.count < 8, 0, table.count)
    high = np.where(table.count < 8, 8, table.count)
    hidden = replace(release, histogram=replace(table, count_low=low, count_high=high))
    for changed in (means, noisy, hidden):
        target = changed.align(blocks)
        same(*(fit(X, target, on=on) for on in ("torch", "local")))
    with pytest.raises(EngineError, match=r"matching cannot use suppressed .*engine='local'"):
        fit(X, hidden.align(blocks), method="matching")


def test_several_targets():
    X, blocks, release = sample("gaussian", n=2000)
    other = replace(release, histogram=replace(release.histogram))
    targets = [release.align(blocks), other.align(blocks)]
    ours, theirs = (fit(X, targets, on=on) for on in ("torch", "local"))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    assert ours.coef_.shape == (2, 3)


# -- tensors and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("ids", ["dense", "sparse", "text"])
def test_tensors_are_read_and_left_as_they_are(method, ids):
    X, blocks, _ = sample("gaussian", n=3000)
    numbers = np.unique(blocks, return_inverse=True)[1] * (10**9 if ids == "sparse" else 1)
    text = numbers.astype(str)
    release = unbin.aggregate(X @ np.ones(3) + np.random.default_rng(0).normal(size=3000), text, 5)
    there, codes = torch.as_tensor(X.copy()), torch.as_tensor(numbers)
    there.requires_grad_()
    block = text if ids == "text" else codes
    ours = fit(there, release, method=method, fit_to={"block": block, "features": ["a", "b", "c"]})
    same(ours, fit(X, release.align(text), method=method, on="local"))
    assert torch.equal(there, torch.as_tensor(X))
    assert torch.equal(codes, torch.as_tensor(numbers))
    assert list(ours.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(
        fit(there, release.align(text), method=method).coef_, ours.coef_, rtol=1e-12
    )
    with pytest.raises(AggregatedTargetError, match="on a device"):
        ours.impute()


def test_tensors_with_an_offset():
    X, blocks, release = sample("poisson")
    offset = torch.full((len(X),), 0.5, dtype=torch.float32)
    ours = fit(torch.as_tensor(X), release, "poisson", fit_to={"block": blocks, "offset": offset})
    theirs = fit(X, release.align(blocks), "poisson", on="local")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_ - 0.5, rtol=1e-8)


def test_an_offset_may_be_a_tensor_beside_an_array():
    X, blocks, release = sample("gaussian", n=1000, n_blocks=10)
    offset = 0.3 * np.random.default_rng(0).normal(size=len(X))
    target = release.align(blocks)
    array = fit(X, target, fit_to={"offset": offset})
    tensor = fit(X, target, fit_to={"offset": torch.as_tensor(offset)})
    close(tensor.coef_, array.coef_)


@pytest.mark.parametrize("room", ["plenty", "little"])
@pytest.mark.parametrize("method", ["likelihood", "matching"])
def test_parquet_files(tmp_path, monkeypatch, room, method):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, blocks, release = sample("gaussian", n=4000)
    order = np.argsort(blocks, kind="stable") if room == "little" else np.arange(len(X))
    names = ["a", "b", "c"]
    table = pa.table({**{c: X[order, j] for j, c in enumerate(names)}, "block": blocks[order]})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=1000)
    if room == "little":
        monkeypatch.setattr(machine.Machine, "free", lambda _: 1e5)
        monkeypatch.setattr("unbin.rows.sources._PART_BYTES", 1)
        monkeypatch.setattr("unbin.rows.sources._FEWEST_ROWS", 1000)
    to = {"block": "block", "features": names}
    path = tmp_path / "people.parquet"
    if room == "little" and method == "matching":
        with pytest.raises(EngineError, match=r"blocks in several; use engine='local'"):
            fit(path, release, method=method, fit_to=to)
        return
    ours = fit(path, release, method=method, fit_to=to)
    theirs = fit(X, release.align(blocks), method=method, on="local")
    same(ours, theirs)


@pytest.mark.parametrize("method", ["likelihood", "matching"])
@pytest.mark.parametrize("contextual", [True, False])
def test_arrays_too_large_for_the_device_travel_in_chunks(monkeypatch, method, contextual):
    if contextual and method == "matching":
        pytest.skip("contextual effects belong to likelihood")
    monkeypatch.setattr(machine.Machine, "free", lambda _: 1e5)
    monkeypatch.setattr(streaming, "READ_ROWS", 1000)
    monkeypatch.setattr("unbin._blocks._FEWEST", 500)
    monkeypatch.setattr("unbin._blocks._MOST", 500)
    X, blocks, release = sample("gaussian", n=20_000)
    offset = 0.1 * np.random.default_rng(0).normal(size=len(X))
    args = {"method": method, "contextual": contextual, "fit_to": {"offset": offset}}
    target = release.align(blocks)
    same(*(fit(X, target, **args, on=on) for on in ("torch", "local")))


@pytest.mark.parametrize("family", ["gaussian", "ordinal", "poisson", "gamma"])
def test_single_precision_is_close(family):
    X, blocks, release = sample("gaussian" if family == "ordinal" else family)
    target = release.align(blocks)
    ours = fit(X, target, family, dtype="float32")
    theirs = fit(X, target, family, on="local")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=1e-3)


def test_single_precision_matching_is_close():
    X, blocks, release = sample("poisson")
    target = release.align(blocks)
    ours = fit(X, target, "poisson", "matching", dtype="float32")
    theirs = fit(X, target, "poisson", "matching", on="local")
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_results_do_not_depend_on_the_number_of_threads():
    X, blocks, release = sample("gaussian", n=20_000, n_blocks=9000, bins=3)
    target = release.align(blocks)
    alone, shared = (fit(X, target, n_jobs=k) for k in (1, 3))
    np.testing.assert_array_equal(alone.coef_, shared.coef_)
    np.testing.assert_array_equal(alone.standard_errors_, shared.standard_errors_)


# -- several tables of the same people -------------------------------------------------------------


@pytest.fixture
def cut_twice():
    """Return features, and blocks of three partitions in the order of the first's names."""
    rng = np.random.default_rng(0)
    codes, *others = (rng.permutation(np.arange(5000) % n) for n in (30, 2, 7))
    names = np.array([f"c{b:02d}" for b in range(30)])
    blocks = Blocks(names, codes, np.bincount(codes), tuple(others))
    return rng.normal(size=(5000, 2)), blocks


def sums_of_others(rows):
    """Return the sums of the columns by block of the further partitions, here or on the device."""
    if hasattr(rows, "tile"):
        there = rows.people()[:, :, 0].numpy() > 0
        matrix = rows.matrix[:, :, 1:].numpy()[there]
        others = [codes.numpy()[there] for codes in rows.others]
    else:
        matrix, others = rows.matrix, rows.others
    return tuple(
        np.column_stack([np.bincount(codes, weights=x, minlength=7) for x in matrix.T])
        for codes in others
    )


@pytest.mark.parametrize("free", [1e12, 1e5], ids=["on the device", "in chunks"])
@pytest.mark.parametrize("ranked", [False, True])
def test_rows_on_the_device_know_their_blocks_in_further_partitions(
    monkeypatch, cut_twice, free, ranked
):
    monkeypatch.setattr(machine.Machine, "free", lambda _: free)
    monkeypatch.setattr(streaming, "READ_ROWS", 1000)
    monkeypatch.setattr("unbin._blocks._FEWEST", 500)
    monkeypatch.setattr("unbin._blocks._MOST", 500)
    X, blocks = cut_twice
    opened = engine.TorchEngine(Options(n_threads=1, ranked=ranked, device="cpu"))
    found = opened.rows(X, blocks, None).design(Layout(fit_intercept=True))
    here = lay_out(X, blocks.codes, 30, others=blocks.others)
    assert len(found.parts) > 1 or free > 1e6
    for ours, theirs in zip(found.total(sums_of_others), here.total(sums_of_others), strict=True):
        close(ours, theirs)


def test_people_who_were_read_know_them_too(cut_twice):
    X, blocks = cut_twice
    parts = streaming.parts_of(X, blocks, None)
    opened = engine.TorchEngine(Options(n_threads=1, device="cpu"))
    found = opened.people(Surveyed.of(parts)).design(Layout(fit_intercept=True))
    here = lay_out(X, blocks.codes, 30, others=blocks.others)
    for ours, theirs in zip(found.total(sums_of_others), here.total(sums_of_others), strict=True):
        close(ours, theirs)


def tables_of(family, *, effects=0.0, noise=0.0, n_groups=12):
    """Return features and three tables of the same people, each with bins of its own."""
    rng = np.random.default_rng(4)
    county = rng.permutation(np.repeat(np.arange(80), 25))
    X = rng.normal(size=(2000, 3)) + 0.5 * rng.normal(size=(80, 3))[county]
    group, sex = rng.integers(0, n_groups, 2000), (X[:, 1] > 0).astype(int)
    eta = X @ [0.5, 0.3, -0.4] + effects * rng.normal(size=80)[county]
    if family == "poisson":
        y, bins = rng.poisson(np.exp(eta)), [[-1, 0, 1, 2, 99], [-1, 0, 99], [-1, 1, 2, 99]]
    elif family == "binomial":
        y, bins = (rng.random(2000) < 1 / (1 + np.exp(-eta))).astype(int), [[-1, 0, 1]] * 3
    else:
        y = eta + rng.normal(size=2000)
        inner = [[-1, 0, 1], [-0.5, 0.5], [-1, 0.5, 1.5]]
        bins = [[-np.inf, *cuts, np.inf] for cuts in inner]
    targets = []
    for ids, edges in zip((county, group, sex), bins, strict=True):
        release = unbin.aggregate(y, ids, edges)
        table = release.histogram
        if noise:
            count = table.count + noise * rng.normal(size=len(table.count))
            table = replace(table, count=count)
        targets.append(replace(release, histogram=table, noise_sd=noise).align(ids))
    return X, unbin.join(*targets)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "ordinal"])
@pytest.mark.parametrize("kind", ["plain", "effects", "noise", "many groups"])
def test_several_tables_fit_as_they_do_here(family, kind):
    options = {
        "plain": {},
        "effects": {"effects": 0.6},
        "noise": {"noise": 2.0},
        "many groups": {"n_groups": 150, "effects": 0.6},
    }
    X, target = tables_of(family, **options[kind])
    here = unbin.AggregatedGLM(family, tol=1e-8).fit(X, target)
    there = fit(X, target, family, tol=1e-8)
    close(there.coef_, here.coef_, rtol=1e-8)
    close(there.standard_errors_, here.standard_errors_, rtol=1e-8)
    close([t.block_sd for t in there.tables_], [t.block_sd for t in here.tables_], rtol=1e-8)
    close(there.diagnostics_.information, here.diagnostics_.information, rtol=1e-8)
    assert here.block_sd_ > 0 or "effects" not in options[kind]


@pytest.mark.parametrize("statistics", ["means", "quantiles"])
def test_of_several_tables_the_device_takes_those_with_common_bins(statistics):
    X, target = tables_of("gaussian")
    names = np.unique(target.tables[2].blocks)
    if statistics == "means":
        frame = {"block": names, "mean": [0.0, 0.5], "n": target.tables[2].release.n}
        other = unbin.Release.from_means(frame, n="n")
    else:
        frame = {"block": names, "quantile": [0.5, 0.5], "value": [0.0, 0.4]}
        other = unbin.Release.from_quantiles(frame | {"n": target.tables[2].release.n}, n="n")
    joined = unbin.join(target.tables[0], other.align(target.tables[2].blocks))
    with pytest.raises(EngineError, match=r"of several tables none may have .*use engine='local'"):
        fit(X, joined)


# -- rows that stand for several people, and people whose outcome is known -------------------------


def weighed_tables(family="gaussian", *, n=900, several=True):
    """Return a frame of rows that stand for one to three people, and tables by its columns."""
    rng = np.random.default_rng(6)
    county = rng.permutation(np.arange(n) % 30)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + 0.5 * rng.normal(size=(30, 3))[county])
    frame.columns = ["a", "b", "c"]
    frame["county"], frame["w"] = [f"{c:02d}" for c in county], rng.integers(1, 4, n)
    frame["sex"] = np.where(frame["b"] > 0, "m", "f")
    eta = frame[["a", "b", "c"]].to_numpy() @ [0.5, 0.3, -0.4]
    row = np.repeat(np.arange(n), frame["w"])
    draw = {"poisson": lambda m: rng.poisson(np.exp(m)), "gaussian": lambda m: rng.normal(m)}
    own, y = (draw[family](m).astype(float) for m in (eta, eta[row]))
    asked = rng.random(n) < 0.15
    y = np.where(asked[row], own[row], y)
    frame["asked"] = np.where(asked, own, np.nan)
    bins = [-1, 0, 1, 2, 99] if family == "poisson" else 5
    keys = ["county", "sex"] if several else ["county"]
    return frame, {key: unbin.aggregate(y, frame[key].to_numpy()[row], bins) for key in keys}


def tie(frame, tables, *, known=True, disjoint=False, weighting="frequency"):
    """Return the tables of a weighed frame, tied to its rows."""
    how = {"weights": frame["w"], "weighting": weighting}
    targets = [table.align(frame[key], **how) for key, table in tables.items()]
    told = [unbin.observed(frame["asked"], disjoint=disjoint)] if known else []
    return unbin.join(*targets, *told)


SETTINGS = {"plain": {}, "contextual": {"contextual": True}, "auto": {"alpha": "held-out"}}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("several", [False, True], ids=["one table", "several"])
@pytest.mark.parametrize("known", [False, True], ids=["tables", "known"])
@pytest.mark.parametrize("free", [1e12, 1e5], ids=["on the device", "in chunks"])
def test_weights_and_known_outcomes_of_arrays(monkeypatch, settings, several, known, free):
    monkeypatch.setattr(machine.Machine, "free", lambda _: free)
    monkeypatch.setattr(streaming, "READ_ROWS", 200)
    monkeypatch.setattr("unbin._blocks._FEWEST", 100)
    monkeypatch.setattr("unbin._blocks._MOST", 100)
    frame, tables = weighed_tables(several=several)
    X, target = frame[["a", "b", "c"]].to_numpy(), tie(frame, tables, known=known)
    offset = {"offset": 0.1 * np.random.default_rng(0).normal(size=len(X))}
    ours, theirs = (
        fit(X, target, tol=1e-6, fit_to=offset, on=on, **settings) for on in ("torch", "local")
    )
    same(ours, theirs)
    if free > 1e6:
        there = fit(torch.tensor(X), target, tol=1e-6, fit_to=offset, **settings)
        np.testing.assert_allclose(there.coef_, ours.coef_, rtol=1e-12)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("free", [1e12, 1e5], ids=["on the device", "in parts"])
def test_weights_and_known_outcomes_in_files(tmp_path, monkeypatch, disjoint, free):
    monkeypatch.setattr(machine.Machine, "free", lambda _: free)
    monkeypatch.setattr("unbin.rows.sources._PART_BYTES", 1)
    monkeypatch.setattr("unbin.rows.sources._FEWEST_ROWS", 200)
    for family in ("gaussian", "poisson"):
        frame, tables = weighed_tables(family)
        frame.to_parquet(tmp_path / "people.parquet", row_group_size=150)
        to = {"features": ["a", "b", "c"], "weights": "w", "observed": "asked"}
        to |= {"disjoint": disjoint}
        path = tmp_path / "people.parquet"
        ours = fit(path, tables, family, tol=1e-6, fit_to=to)
        target = tie(frame, tables, disjoint=disjoint)
        theirs = fit(frame[["a", "b", "c"]], target, family, tol=1e-6, on="local")
        same(ours, theirs)


def test_weights_beside_tensors():
    frame, tables = weighed_tables(several=False)
    X = torch.tensor(frame[["a", "b", "c"]].to_numpy())
    block, table = frame["county"].to_numpy(), tables["county"]
    local = tie(frame, tables, known=False)
    theirs = fit(frame[["a", "b", "c"]], local, on="local", tol=1e-6)
    for weights in (torch.tensor(frame["w"].to_numpy()), frame["w"]):
        ours = fit(X, table, tol=1e-6, fit_to={"block": block, "weights": weights})
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
        np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=1e-8)


def test_what_weights_must_be():
    frame, tables = weighed_tables(several=False)
    X, table = torch.tensor(frame[["a", "b", "c"]].to_numpy()), tables["county"]
    block, w = frame["county"].to_numpy(), frame["w"].to_numpy().astype(float)
    for bad in (0.0, -1.0, np.nan, np.inf):
        odd = w.copy()
        odd[4] = bad
        for weights in (odd, torch.tensor(odd)):
            with pytest.raises(DomainError, match=r"weights: a row must stand .* in row 4"):
                fit(X, table, fit_to={"block": block, "weights": weights})
    with pytest.raises(AlignmentError, match=r"weights: must have one value per row"):
        fit(X, table, fit_to={"block": block, "weights": w[:-1]})
    with pytest.raises(AlignmentError, match="the rows of X stand for"):
        fit(X, table, fit_to={"block": block, "weights": 2 * w})
    with pytest.raises(ParameterError, match="observed: names a column"):
        fit(X, table, fit_to={"block": block, "observed": w})


def test_a_sample_and_weighed_matching_are_refused(tmp_path):
    frame, tables = weighed_tables(several=False)
    X, block = frame[["a", "b", "c"]], frame["county"].to_numpy()
    frame.to_parquet(tmp_path / "people.parquet")
    survey = {"weights": "w", "weighting": "survey"}
    beside = survey | {"weights": frame["w"], "block": block}
    for args, to in [
        ((X, tie(frame, tables, known=False, weighting="survey")), {}),
        ((tmp_path / "people.parquet", tables), survey | {"features": ["a", "b", "c"]}),
        ((torch.tensor(X.to_numpy()), tables["county"]), beside),
    ]:
        with pytest.raises(EngineError, match=r"got a sample .*use engine='local'"):
            fit(*args, fit_to=to)
    with pytest.raises(EngineError, match=r"matching ranks people one by one, .*engine='local'"):
        fit(X, tables["county"].align(block, weights=frame["w"]), method="matching")


# -- what cannot be done ---------------------------------------------------------------------------


def test_what_the_engine_refuses():
    X, blocks, release = sample("gaussian", n=1000, n_blocks=10)
    target = release.align(blocks)
    with pytest.raises(EngineError, match=r"got observed ones; use engine='local'"):
        fit(X, np.zeros(len(X)))
    with pytest.raises(EngineError, match=r"solver 'alternating' .*; use solver='lbfgs'"):
        fit(X, target, method="matching", solver="alternating")
    with pytest.raises(ParameterError, match="dtype: unknown, got 'float16'"):
        fit(X, target, dtype="float16")
    rng = np.random.default_rng(0)
    few = unbin.aggregate(rng.integers(0, 7, len(X)), blocks).align(blocks)
    with pytest.raises(EngineError, match=r"has no bins of family 'beta-binomial'"):
        fit(X, few, "beta-binomial", n_trials=6)
    many = unbin.aggregate(rng.integers(0, 2_000_000, len(X)), blocks, [0, 10**6, 2 * 10**6])
    with pytest.raises(EngineError, match=r"sums bins over their integers, got bins up to 1000001"):
        fit(X, many.align(blocks), "poisson")


def test_tabmat_is_refused():
    tabmat = pytest.importorskip("tabmat")
    X, blocks, release = sample("gaussian", n=500, n_blocks=10)
    with pytest.raises(EngineError, match=r"got a tabmat matrix; use engine='local'"):
        fit(tabmat.from_csc(scipy.sparse.csc_matrix(X)), release.align(blocks))


def test_order_statistics_are_refused():
    X, blocks, _ = sample("gaussian", n=1000, n_blocks=10)
    names = np.unique(blocks)
    table = {"block": names, "value": np.arange(10.0), "quantile": np.full(10, 0.5)}
    medians = unbin.Release.from_quantiles(
        table, block="block", value="value", quantile="quantile", n=None
    )
    with pytest.raises(EngineError, match=r"cannot use quantiles .*; use engine='local'"):
        fit(X, medians.align(blocks))


def test_what_tensors_must_be():
    X, blocks, release = sample("gaussian", n=1000, n_blocks=10)
    codes = torch.as_tensor(np.unique(blocks, return_inverse=True)[1])
    there = torch.as_tensor(X)
    release = unbin.aggregate(X[:, 0], codes.numpy().astype(str), 4)
    bad = there.clone()
    bad[3, 1] = torch.nan
    for args, error, match in [
        ((bad, codes), DomainError, "X: must be finite"),
        ((there[:, 0], codes), ParameterError, r"X: must be a tensor .*got shape \(1000,\)"),
        ((there, codes.double()), ParameterError, "block: must be a tensor of whole numbers"),
        ((there, codes[:-1]), AlignmentError, "block: 999 ids for 1000 rows"),
    ]:
        with pytest.raises(error, match=match):
            fit(args[0], release, fit_to={"block": args[1]})
    for offset, error in [(np.zeros(3), AlignmentError), (np.full(1000, np.inf), DomainError)]:
        with pytest.raises(error, match="offset: must"):
            fit(there, release, fit_to={"block": codes, "offset": offset})
    with pytest.raises(ParameterError, match="features: must name the 3 columns"):
        fit(there, release, fit_to={"block": codes, "features": ["a"]})


def test_too_little_memory_names_what_fits(monkeypatch):
    X, blocks, release = sample("gaussian", n=1000, n_blocks=10)
    monkeypatch.setattr(layout, "READ_ROWS", 1)
    monkeypatch.setattr(machine.Machine, "free", lambda _: 4e4)
    with pytest.raises(EngineError, match=r"1,000 people with 3 columns need .* people fit: pass"):
        fit(torch.as_tensor(X), release.align(blocks))


def test_no_such_device():
    X, blocks, release = sample("gaussian", n=500, n_blocks=5)
    target = release.align(blocks)
    if not torch.cuda.is_available():
        with pytest.raises(EngineError, match=r"no CUDA device; .*pass device='cpu'"):
            unbin.AggregatedGLM(engine="torch").fit(X, target)
    with pytest.raises(EngineError, match=r"'cuda:77' is not there, .*device='cpu'"):
        unbin.AggregatedGLM(engine="torch", device="cuda:77").fit(X, target)
    for name in ("abacus", 3.5):
        with pytest.raises(EngineError, match="device: must be a device torch knows"):
            unbin.AggregatedGLM(engine="torch", device=name).fit(X, target)


def test_without_torch_an_error_says_how_to_get_it():
    code = (
        "import importlib.util as u, sys; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
        "import numpy as np, unbin\n"
        "assert 'torch' not in sys.modules\n"
        "X = np.zeros((4, 1)); r = unbin.aggregate(np.arange(4.0), ['a', 'a', 'b', 'b'], 2)\n"
        "unbin.AggregatedGLM(engine='torch').fit(X, r.align(['a', 'a', 'b', 'b']))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "EngineError: engine 'torch': needs torch, got none; pip install unbin[gpu]" in (
        found.stderr.splitlines()[-1].replace("unbin.exceptions.", "")
    )
