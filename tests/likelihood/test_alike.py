"""Blocks whose ids begin alike are alike, or are not."""

import numpy as np
import pytest

from unbin.likelihood.infer.alike import alike
from unbin.likelihood.thresholds import ALIKE_LEVEL

COUNTIES = np.array([f"{s:02d}{2 * c + 1:03d}" for s in range(1, 21) for c in range(10)])
NUTS = np.array([f"{s}{r}{d}" for s in ("AT", "BE", "DE", "FR", "NL") for r in range(1, 9)
                 for d in range(1, 6)])  # fmt: skip
SCHOOLS = np.array([f"District {d} | School {s}" for d in range(20) for s in range(10)])
PLACES = np.array([f"Town {t}, State {s}" for s in range(20) for t in range(10)])


def drawn(groups, sd, seed=0):
    rng = np.random.default_rng(seed)
    code = np.unique(groups, return_inverse=True)[1]
    return sd * rng.normal(size=code.max() + 1)[code] + rng.normal(size=len(groups))


@pytest.mark.parametrize(
    ("blocks", "groups", "how", "n"),
    [
        (COUNTIES, np.char.ljust(COUNTIES, 2).astype("U2"), ".str[:2]", 20),
        (NUTS, NUTS.astype("U3"), ".str[:3]", 40),
        (SCHOOLS, np.char.partition(SCHOOLS, " |")[:, 0], ".str.split(' | ').str[0]", 20),
        (PLACES, np.char.partition(PLACES, ", ")[:, 2], ".str.split(', ').str[-1]", 20),
    ],
)
def test_groups_with_something_in_common_are_found(blocks, groups, how, n):
    for seed in range(5):
        found = alike(blocks, drawn(groups, 1.0, seed))
        assert (found.how, found.n_groups) == (how, n)
        assert 0.2 < found.correlation < 0.8
        one, other = found.example
        assert one != other


@pytest.mark.parametrize("blocks", [COUNTIES, NUTS, SCHOOLS, PLACES])
def test_groups_without_are_not(blocks):
    rng = np.random.default_rng(1)
    found = [alike(blocks, rng.normal(size=len(blocks))) for _ in range(400)]
    assert sum(each is not None for each in found) <= 400 * 5 * ALIKE_LEVEL


def test_ids_without_structure_have_no_groups():
    rng = np.random.default_rng(2)
    names = np.array(["".join(rng.choice(list("abcdefgh"), rng.integers(3, 9))) for _ in range(90)])
    assert alike(names, rng.normal(size=90)) is None
    assert alike(np.zeros(0, dtype="U1"), np.zeros(0)) is None


def test_blocks_without_information_are_left_out():
    residual = drawn(COUNTIES.astype("U2"), 1.0)
    residual[::3] = 0.0
    assert alike(COUNTIES, residual).how == ".str[:2]"
