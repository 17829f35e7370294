"""Rows that stand for several people are audited as if they were repeated."""

import numpy as np
import pytest

import unbin
from unbin.disclosure import inputs
from unbin.exceptions import AlignmentError, DomainError

QUICK = {"attacks": "likelihood", "families": "poisson", "n_permutations": 9, "random_state": 0}


def _cells():
    """Return cells of a cross-table: features, a count, its county, and how many people."""
    rng = np.random.default_rng(7)
    X = rng.integers(0, 2, (400, 2)).astype(float)
    county = np.repeat([f"{c:02d}" for c in range(20)], 20)
    X[:, 0] = rng.random(400) < np.repeat(rng.uniform(0.1, 0.9, 20), 20)
    y = rng.poisson(np.exp(0.3 + X @ [0.8, -0.5]))
    return X, y, county, rng.integers(1, 6, 400)


@pytest.mark.parametrize("levels", [1, 2])
def test_whole_weights_are_repeated_rows(levels):
    X, y, county, w = _cells()
    blocks = {"county": county, "half": np.where(county < "10", "a", "b")}
    blocks = dict(list(blocks.items())[:levels])
    weighted = unbin.audit(X, y, blocks, bins=[3], weights=w, **QUICK)
    rows = np.repeat(np.arange(len(w)), w)
    repeated = {name: ids[rows] for name, ids in blocks.items()}
    people = unbin.audit(X[rows], y[rows], repeated, bins=[3], **QUICK)
    assert weighted.to_json() == people.to_json()
    assert weighted.n_people == w.sum()
    alone = unbin.audit(X, y, blocks, bins=[3], **QUICK)
    assert alone.to_json() != people.to_json()


def refused(error, weights):
    X, y, county, _ = _cells()
    with pytest.raises(error) as caught:
        unbin.audit(X, y, county, weights=weights)
    return str(caught.value)


def test_weights_that_are_no_people():
    ones = np.ones(400)
    assert refused(DomainError, np.r_[ones[:2], 1.5, ones[3:]]) == (
        "weights: must be whole numbers of people, each of whom is attacked, got 1.5 in row 2; "
        "round them, or audit the people themselves"
    )
    assert refused(DomainError, np.r_[0, ones[1:]]) == (
        "weights: a row must stand for a finite number of people above 0, got 0 in row 0; leave "
        "out rows that stand for nobody"
    )
    assert "got nan in row 0" in refused(DomainError, np.r_[np.nan, ones[1:]])
    assert "weights: must have one value per row" in refused(AlignmentError, ones[1:])


def test_more_people_than_can_be_attacked(monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_PEOPLE", 1000)
    assert refused(DomainError, np.full(400, 3)) == (
        "weights: must stand for at most 1,000 people, got 1,200; audit some of the blocks"
    )
