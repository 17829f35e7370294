"""Fused kernels make the sums that plain torch makes.

On a CUDA machine they run there; elsewhere in Triton's interpreter (``TRITON_INTERPRET=1``, with
triton installed), or not at all.
"""

import os
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import unbin
from unbin.datasets import simulate
from unbin.families import get_family
from unbin.families.base import unweighted
from unbin.families.coordinates import Coordinates
from unbin.likelihood.infer.specification import check_sums, power_sums
from unbin.likelihood.model.law import Law, Moves
from unbin.likelihood.model.moments import moment_sums
from unbin.likelihood.solve.start import eta_sums
from unbin.rows.design import gram_sums, lay_out, row_sums
from unbin.rows.engines import Blocks, Layout, Options

torch = pytest.importorskip("torch", reason="the torch engine needs torch: pip install unbin[gpu]")
from unbin.rows.engines.torch import engine, fused, machine, tiles  # noqa: E402
from unbin.rows.engines.torch.bins import Bins  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
on_device = pytest.mark.skipif(
    DEVICE == "cpu" and not INTERPRETED,
    reason="needs a CUDA device, or triton and TRITON_INTERPRET=1",
)
SIZES = {"ragged": [1, 170, 3, 2100], "small": [3, 1, 2, 5, 4], "one": [300]}


@pytest.fixture
def kernels(monkeypatch):
    """Let kernels be used, in the interpreter where there is no CUDA device; or not."""

    def use(wanted):
        monkeypatch.setattr(machine.Machine, "has_kernels", property(lambda _: wanted))

    return use


def close(ours, theirs, rtol=1e-12):
    theirs = np.asarray(theirs)
    scale = np.abs(theirs).max(initial=1.0)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


def rows_of(sizes, *, d=3, offset=False, weights=False, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(codes), d)) + 0.3 * rng.normal(size=(len(sizes), d))[codes]
    extra = 0.2 * rng.normal(size=len(codes)) if offset else None
    people = rng.integers(0, 4, len(codes)).astype(float) if weights else None
    design = lay_out(X, codes, len(sizes), offset=extra, fit_intercept=True, weights=people)
    return tiles.from_rows(design.rows, machine.open_machine(DEVICE, dtype))


def law_of(name, rows, *, cuts=(-1.0, 0.0, 0.9), own=False, apart=False, unit=None, variance=0.0):
    family, b, rng = get_family(name, 6), len(rows.blocks), np.random.default_rng(3)
    lower, upper = np.r_[-np.inf, cuts], np.r_[cuts, np.inf]
    if own:  # bins of each block's own, the last of some empty
        shift = 0.05 * rng.normal(size=(b, 1))
        lower, upper = lower + shift, upper + shift
        upper[::3, -2] = np.inf
        lower[::3, -1], upper[::3, -1] = np.inf, -np.inf
    if apart:  # a gap between bins, and ends
        lower, upper = np.array([-2.0, -1.0, 0.5]), np.array([-1.1, 0.0, 2.0])
    k = lower.shape[-1]
    nuisance = np.sort(rng.normal(size=k - 1)) if family.free_shape else np.array([-0.2])
    p = rows.matrix.shape[2]
    coordinates = Coordinates(p, len(nuisance), family.free_shape, family.free_shape)
    free = coordinates.join(0.4 * rng.normal(size=p), nuisance)
    return Law(family, coordinates, lower, upper, unit, variance), free


# -- where they are used ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "takes"),
    [
        ({}, True),
        ({"device": "cpu"}, False),
        ({"capability": (7, 5)}, False),
        ({"hip": "6.2"}, False),
        ({"triton": (3, 5)}, False),
        ({"triton": (0,)}, False),
        ({"triton": (4, 0), "capability": (10, 0)}, True),
    ],
)
def test_which_machines_have_kernels(monkeypatch, changed, takes):
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda _: changed.get("capability", (9, 0))
    )
    monkeypatch.setattr(torch.version, "hip", changed.get("hip"))
    monkeypatch.setattr(machine, "triton_version", lambda: changed.get("triton", (3, 6)))
    device = SimpleNamespace(type=changed.get("device", "cuda"))
    assert machine.Machine(device, torch.float64).has_kernels is takes


@pytest.mark.parametrize(
    ("family", "changed", "takes"),
    [
        ("gaussian", {}, True),
        ("ordinal", {}, True),
        ("poisson", {}, False),  # no fused law
        ("gaussian", {"unit": 1.0}, False),  # means were published
        ("gaussian", {"bins": fused.MOST_BINS + 1}, False),
        ("gaussian", {"bins": fused.MOST_BINS}, True),
        ("gaussian", {"d": fused.MOST_COLUMNS}, False),
        ("gaussian", {"d": fused.MOST_COLUMNS - 1}, True),
        ("gaussian", {"d": 63, "bins": fused.MOST_BINS}, True),
        ("gaussian", {"d": 64, "bins": fused.MOST_BINS}, False),  # too many sums
    ],
)
def test_which_passes_are_fused(kernels, family, changed, takes):
    rows = rows_of([5, 7], d=changed.get("d", 3))
    if family == "poisson":
        lower, upper = np.array([0.0, 2.0]), np.array([1.0, np.inf])
        law = Law(get_family(family), Coordinates(4, 0), lower, upper, None, 0.0)
        nuisance = np.zeros(0)
    else:
        cuts = np.linspace(-2, 2, changed.get("bins", 4) - 1)
        law, free = law_of(family, rows, cuts=cuts, unit=changed.get("unit"))
        nuisance = law.coordinates.split(free)[1]
    bins = Bins(law.family, law.lower, law.upper, nuisance, rows.machine).law
    kernels(True)
    assert (fused.fused_law(rows, law, bins) is not None) is takes
    kernels(False)
    assert fused.fused_law(rows, law, bins) is None


def test_chunks_hold_every_row_once_and_no_padding():
    rows = rows_of(SIZES["ragged"])
    chunks = fused.chunks_of(rows)
    taken = np.concatenate(
        [np.arange(a, b) for a, b in zip(chunks.first.tolist(), chunks.last.tolist(), strict=True)]
    )
    present = rows.matrix[..., 0].reshape(-1).cpu().numpy()
    assert sorted(taken) == np.flatnonzero(present).tolist()
    block = rows.tile_block.cpu().numpy()[np.asarray(chunks.first.cpu()) // rows.tile]
    assert (block == chunks.block.cpu().numpy()).all()
    ones = torch.ones((len(chunks.first), 1), dtype=torch.float64, device=chunks.first.device)
    sizes = np.asarray(SIZES["ragged"])
    assert chunks.by_block(ones)[:, 0].tolist() == np.ceil(sizes / fused._CHUNK).tolist()


# -- what they make --------------------------------------------------------------------------------


LAWS = {
    "plain": {},
    "own bins": {"own": True},
    "bins apart": {"apart": True},
    "narrow bins": {"cuts": (-1.0, 0.0, 1e-9, 0.0004, 0.9)},
    "far bins": {"cuts": (-9.0, 0.0, 12.0, 30.0)},
    "many bins": {"cuts": tuple(np.linspace(-2, 2, 18))},
    "effects": {"variance": 0.3},
}


@on_device
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("weights", [False, True], ids=["people", "weights"])
@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
@pytest.mark.parametrize("how", LAWS.values(), ids=LAWS)
def test_moments_and_checks(kernels, family, how, weights, sizes):
    if family == "ordinal" and ("own" in how or "apart" in how):
        pytest.skip("an ordinal family has the same bins everywhere")
    rows = rows_of(sizes, weights=weights, offset=weights)
    law, free = law_of(family, rows, **how)
    kernels(False)
    plain = check_sums(rows, law, free)
    few = moment_sums(rows, law, free, False)
    kernels(True)
    found = check_sums(rows, law, free)
    assert len(found) == len(plain) == 5
    for ours, theirs in zip(found, plain, strict=True):
        close(ours, theirs)
    for covariance, expected in ((True, plain[:3]), (False, few)):
        for ours, theirs in zip(moment_sums(rows, law, free, covariance), expected, strict=True):
            close(ours, theirs)


@on_device
@pytest.mark.parametrize(("d", "n_bins"), [(1, 2), (40, 4), (100, 4), (40, 20)])
def test_many_columns_and_bins(kernels, d, n_bins):
    rows = rows_of([60, 35], d=d)
    law, free = law_of("gaussian", rows, cuts=np.linspace(-2, 2, n_bins - 1))
    theta = np.linspace(-0.1, 0.1, d + 1)
    kernels(False)
    plain = *check_sums(rows, law, free), gram_sums(rows, theta, unweighted)
    kernels(True)
    found = *check_sums(rows, law, free), gram_sums(rows, theta, unweighted)
    for ours, theirs in zip(found, plain, strict=True):
        close(ours, theirs)


@on_device
def test_rare_bins_are_right_in_relative_terms(kernels):
    rows = rows_of([300, 40])
    law, free = law_of("gaussian", rows, cuts=(-30.0, -20.0, 0.0, 1e-7, 25.0))
    kernels(False)
    plain = moment_sums(rows, law, free, True)
    kernels(True)
    found = moment_sums(rows, law, free, True)
    assert 0 < plain[0].min() < 1e-60
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-11)
    np.testing.assert_allclose(found[1], plain[1], rtol=1e-9)
    np.testing.assert_allclose(found[2], plain[2], rtol=1e-11)


@on_device
@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_effects_of_each_block(kernels, family):
    rows, rng = rows_of(SIZES["ragged"]), np.random.default_rng(0)
    law, free = law_of(family, rows, variance=0.2)
    b = len(rows.blocks)
    effects = Moves(0.3 * rng.normal(size=b), rng.uniform(0.1, 0.4, b))
    law = replace(law, effects=effects)
    kernels(False)
    plain = moment_sums(rows, law, free, True)
    kernels(True)
    for ours, theirs in zip(moment_sums(rows, law, free, True), plain, strict=True):
        close(ours, theirs)


@on_device
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("weights", [False, True], ids=["people", "weights"])
def test_sums_of_columns(kernels, weights, sizes):
    rows = rows_of(sizes, weights=weights, offset=weights, d=5)
    theta = np.linspace(-0.4, 0.5, 6)

    def made():
        return (
            row_sums(rows)[0], eta_sums(rows, theta)[0], power_sums(rows),
            gram_sums(rows, theta, unweighted), gram_sums(rows, theta, torch.exp),
        )  # fmt: skip

    kernels(False)
    plain = made()
    kernels(True)
    for ours, theirs in zip(made(), plain, strict=True):
        close(ours, theirs)


@on_device
@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_single_precision_rows_are_summed_in_double(kernels, family):
    single, double = rows_of([900, 50], dtype="float32"), rows_of([900, 50])
    law, free = law_of(family, double)
    kernels(True)
    for ours, theirs in zip(
        check_sums(single, law, free), check_sums(double, law, free), strict=True
    ):
        close(ours, theirs, rtol=1e-6)


@on_device
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("given", ["float64", "float32"])
def test_layout(kernels, dtype, given):
    rng = np.random.default_rng(0)
    X = 3 + rng.normal(size=(3000, 4)) * [1, 10, 1e-3, 0]
    codes = rng.integers(0, 9, len(X))
    codes[:9] = range(9)
    device = machine.open_machine(DEVICE, dtype)
    tensor = torch.as_tensor(X.astype(given), device=device.device)

    def laid_out():
        options = Options(n_threads=1, device=DEVICE, dtype=dtype)
        names, size = np.arange(9).astype(str), np.bincount(codes)
        blocks = Blocks(names, torch.as_tensor(codes, device=device.device), size)
        found = engine.TorchEngine(options).rows(tensor, blocks, None)
        return found.design(Layout(fit_intercept=True))

    kernels(False)
    plain = laid_out()
    kernels(True)
    found = laid_out()
    close(found.center, plain.center)
    close(found.scale, plain.scale)
    assert (found.varies == plain.varies).all()
    ours, theirs = (design.parts[0].matrix.cpu().numpy() for design in (found, plain))
    close(ours, theirs, rtol=1e-12 if dtype == "float64" else 1e-6)


@on_device
def test_columns_far_from_zero_are_measured_right(kernels):
    rng = np.random.default_rng(1)
    X = 1e6 + rng.normal(size=(5000, 3))
    X[0, 1] = 1e9  # the first row is an outlier
    mean, square = fused.spread(torch.as_tensor(X, device=DEVICE))
    np.testing.assert_allclose(mean.cpu(), X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(square.cpu(), ((X - X.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-9)


@on_device
@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_fits(kernels, family):
    people = simulate(2000, 2, 30, between=0.4, random_state=0)
    release = unbin.aggregate(people.y, people.blocks, 6)
    X = torch.as_tensor(people.X, device=DEVICE)
    found = []
    for wanted in (False, True, True):
        kernels(wanted)
        model = unbin.AggregatedGLM(family, engine="torch", device=DEVICE, random_state=0)
        found.append(model.fit(X, release, block=people.blocks))
    plain, ours, again = found
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-9)
    np.testing.assert_allclose(ours.standard_errors_, plain.standard_errors_, rtol=1e-8)
    assert (ours.coef_ == again.coef_).all()
