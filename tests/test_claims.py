"""The claims of experiments/, on few seeds: bounds that a real defect would break.

The full figures are in experiments/README.md. Tests of real data are skipped where the environment
variable UNBIN_DATA does not name the folder that holds it.
"""

from pathlib import Path

import numpy as np
import pytest

import accuracy
import audit
import common
import ecological_bias
import identification
import imputation
import intervals
import ordinal_predictions
import prediction_intervals
import slopes
import unbin
import wald_size


@pytest.mark.parametrize(
    ("family", "level"), [("gaussian", 0.0), ("poisson", 2.0), ("binomial", 0)]
)
def test_likelihood_predicts_about_as_well_as_the_oracle(family, level):
    excess = 100 * (np.mean([accuracy.one_run(family, level, s) for s in range(4)], axis=0) - 1)
    assert excess[0] < 1.0
    assert 5 < excess[1] < 30


@pytest.mark.parametrize(
    ("family", "intercept", "bins", "limit"),
    [("gaussian", 0.0, 8, 0.05), ("poisson", 1.0, 6, 0.03)],
)
def test_slopes_from_histograms(family, intercept, bins, limit):
    squares = [slopes.from_histograms(family, intercept, bins, seed) for seed in range(10)]
    likelihood, matching, oracle = np.sqrt(np.mean(squares, axis=0))
    assert oracle < likelihood < limit
    assert matching > 2 * limit


def test_slopes_from_medians():
    errors = np.mean([slopes.from_quantiles([0.5], seed) for seed in range(10)], axis=0)
    assert errors[0] < 0.12


@pytest.mark.parametrize("family", list(intervals.BINS))
def test_intervals_cover(family):
    # 72 intervals each: 95 % of them within four standard errors
    for sd in (0.0, intervals.EFFECT_SD):
        covered = np.mean([intervals.covers(family, sd, seed) for seed in range(24)])
        assert covered > 0.85


@pytest.mark.parametrize("family", ["gaussian", "ordinal"])
def test_wald_tests_have_their_size(family):
    # 60 tests each: 5 % of them within four standard errors
    cells = [cell for cell in wald_size.CELLS if cell.family == family]
    found = [wald_size.p_values(cell, seed) for cell in cells for seed in range(30)]
    for name in wald_size.HYPOTHESES:
        assert np.mean([each[name] < 0.05 for each in found]) < 0.16


@pytest.mark.parametrize("cell", [c for c in prediction_intervals.CELLS if c.blocks == 30][1::2])
def test_intervals_for_outcomes_cover(cell):
    if cell.family == "poisson":
        pytest.xfail(
            "counts around 20 from 30 blocks with effects: 86 %, see experiments/README.md"
        )
    found = [prediction_intervals.measure(cell, seed) for seed in range(3)]
    cover = np.mean([each["cover"] for each in found])
    # an interval of few whole numbers cannot be as unlikely as 10 %
    whole = "binomial" in cell.family
    assert 0.87 < cover < (0.98 if cell.family == "small" else 0.95 if whole else 0.93)


@pytest.mark.parametrize(("family", "effects"), [("gaussian", True), ("ordinal", False)])
def test_regressions_of_imputed_outcomes_cover(family, effects):
    # 24 intervals each: .95 of them within four standard errors
    found = [imputation.one_run(imputation.Scene(family, effects), seed) for seed in range(12)]
    share = {name: np.mean([run[name] for run in found]) for name in found[0]}
    for how in imputation.ANALYSES:
        assert share[f"proper {how}"] > 0.77
        assert share[f"fixed {how}"] < (0.6 if effects else 0.9)


def test_ordinal_predictions_go_on_beyond_the_edges():
    found = ordinal_predictions.errors(ordinal_predictions.language(), 4, 5)
    assert found["one value per bin"] > 1.3
    assert found["between and beyond"] < 1.1
    assert found["ends known"] < 1.05


def test_contextual_effects_mend_the_slopes_and_the_test_sees_them():
    found = np.array([ecological_bias.one_run("gaussian", 300, 100, 1.0, s) for s in range(5)])
    mean = found.mean(axis=0)
    assert (mean[3:6] > 1.05).all()
    np.testing.assert_allclose(mean[6:9], 1.0, atol=0.15)
    assert mean[-1] == 1.0
    none = np.array([ecological_bias.one_run("ordinal", 600, 15, 0.0, s) for s in range(5)])
    np.testing.assert_allclose(none[:, 3:6].mean(axis=0), 1.0, atol=0.1)
    assert none[:, -1].mean() <= 0.4


def test_one_block_is_not_identified_and_twenty_are():
    X, y, blocks = identification.people(0)
    one = common.fit_release(X, y, np.full(len(y), "everybody"), 10)
    assert not one.diagnostics_.identified
    assert "a single block does not tell the coefficients" in one.diagnostics_.reason
    twenty = common.fit_release(X, y, blocks, 10)
    assert twenty.diagnostics_.identified
    np.testing.assert_allclose(twenty.coef_, identification.SLOPES, atol=0.1)


def test_medicare_counties_tell_as_much_as_people(real_data):
    import synpuf

    people = synpuf.load(real_data)
    found = synpuf.compare(people, 10, 1, family="ordinal")
    assert found["over_oracle"] < 1.0
    california = synpuf.only(people, synpuf.CALIFORNIA)
    found = synpuf.compare(california, 10, 5, family="ordinal", alpha="held-out")
    assert found["over_oracle"] < 1.15
    assert found["families"] == "ordinal"


def test_ordinal_is_chosen_for_medicare_amounts(real_data):
    import synpuf

    people = synpuf.load(real_data)
    some = synpuf.only(people, 10, 33)  # Florida and New York
    assert synpuf.compare(some, 5, 1, family="auto")["families"] == "ordinal"


def test_doctor_visits_are_overdispersed():
    pytest.importorskip("statsmodels")
    import randhie

    X, y = randhie.load()
    blocks = randhie.blocks_of("random", len(y))
    model = common.fit_release(X, y, blocks, randhie.BINS, "auto")
    assert model.family_ in ("negative-binomial", "ordinal")
    assert set(model.selection_.family) == {"poisson", "negative-binomial", "ordinal"}
    ratio = randhie.compare(X, y, blocks, "negative-binomial", 1)[0]
    assert ratio < 1.06


@pytest.fixture(scope="module")
def charges(real_data):
    """Return a fit to 6,000 patients, and its test error over that of the pooled mean."""
    import sparcs

    X, y, county = sparcs.load(real_data)
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:6000], rows[6000:]
    model = common.fit_release(
        X[train], y[train], county[train], sparcs.BINS, "ordinal", alpha="held-out"
    )
    pooled = np.mean((y[test] - y[train].mean()) ** 2)
    return model, common.mse(model, X[test], y[test]) / pooled


def test_hospital_charges_are_confounded_by_county(charges):
    model, ratio = charges
    assert not model.diagnostics_.trusted
    assert "ecological bias: block means of the features have effects" in str(model.diagnostics_)
    assert ratio < 1.5


def test_hospital_charges_are_predicted_no_worse_than_by_their_mean(charges):
    assert charges[1] < 1.01


@pytest.mark.parametrize("effect", audit.EFFECTS.values())
def test_audits_of_unrelated_features_find_nothing(effect):
    settings = {"n_permutations": 39, "attacks": ("matching", "likelihood")}
    row = audit.calibration([audit.unrelated(seed, effect, **settings) for seed in range(20)])
    for name in ("in_table", "held_out"):
        assert (
            row[f"{name}_exceeds_chance"] <= 0.25
        )  # 5 % expected; more has a chance of 1 in 4,000
        assert row[f"{name}_interval_misses_0"] <= 0.1
        assert row[f"{name}_largest_gain"] < 0.03


def test_tables_by_hospital_disclose_charges(real_data):
    import sparcs

    X, y, _ = sparcs.load(real_data)
    settings = {"attacks": ["ridge"], "families": "ordinal", "n_permutations": 19}
    found = unbin.audit(X, y, audit.hospitals(real_data), [5], random_state=0, **settings).tables[0]
    assert found.in_table.gain.low > 0.5
    assert found.held_out.gain.low > 0.5
    assert found.in_table.beyond_public > 0.2


def test_tables_by_precinct_disclose_parties(real_data):
    if not (Path(real_data) / "senc_nc_registration.csv").exists():
        pytest.skip("UNBIN_DATA holds no senc_nc_registration.csv")
    table = audit.voters(real_data, attacks="ridge", n_permutations=19).tables[0]
    assert table.gain == pytest.approx(0.052, abs=0.001)
    assert table.cells.cells_under == 0
    of = {each.attack: each.all for each in table.attacks if each.people == "in the table"}
    assert of["ridge, logit"].right == pytest.approx(0.631, abs=0.001)
    assert of["ridge, logit"].sure == pytest.approx(0.1, abs=0.01)
    assert of["block histogram"].right == pytest.approx(0.617, abs=0.001)
    assert of["block histogram"].sure == 0


@pytest.mark.filterwarnings("ignore::unbin.exceptions.IdentificationWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_incomes_do_not_collapse(real_data):
    """Amounts that are 0 or about 10,000, on a log scale: a gaussian that reads shapes is lost.

    It put its noise to 0 and predicted 27 times as badly as the oracle, the mean 1.35 times. The
    fit does not converge and says so; what the evidence ridge leaves of it predicts 1.30 times.
    """
    pd = pytest.importorskip("pandas")
    path = Path(real_data) / "eusilcA_households.csv.gz"
    if not path.exists():
        pytest.skip("UNBIN_DATA holds no eusilcA_households.csv.gz")
    table = pd.read_csv(path).query("eqIncome > 0")
    amounts = table.loc[:, "cash":"tax_adj"].to_numpy(float)
    X = np.column_stack([table["gender"] == "male", table["eqsize"]]).astype(float)
    X = np.column_stack([X, np.sign(amounts) * np.log1p(np.abs(amounts))])
    y, district = np.log(table["eqIncome"].to_numpy()), table["district"].to_numpy(str)
    oracle = np.mean((unbin.AggregatedGLM().fit(X, y).predict(X) - y) ** 2)
    target = unbin.aggregate(y, district, 8).align(district)
    for family in ("gaussian", "ordinal"):
        model = unbin.AggregatedGLM(family).fit(X, target)
        assert not model.diagnostics_.trusted
        assert np.mean((model.predict(X) - y) ** 2) < min(1.32 * oracle, y.var())
