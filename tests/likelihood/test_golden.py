"""Whole fits give what they gave; ``python -m tests.golden`` shows all that moved."""

from copy import deepcopy

import pytest

from tests.golden.cases import AS, ONE, SEVERAL, UNSETTLED
from tests.golden.figures import figures_of, moves, read

STORED = read()
ALL = STORED["one"] | STORED["several"]


def test_every_case_is_stored_once():
    assert STORED["one"].keys() == ONE.keys() - AS.keys()
    assert STORED["several"].keys() == SEVERAL.keys()
    assert not ONE.keys() & SEVERAL.keys()
    assert UNSETTLED.keys() <= ONE.keys() | SEVERAL.keys()


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_fits_are_those_stored(name):
    found = figures_of((ONE | SEVERAL)[name](None))
    moved = moves(ALL[AS.get(name, name)], found)
    assert not moved.any, moved


def test_moves_are_noticed():
    stored = ALL["gaussian_histogram"]
    assert not moves(stored, deepcopy(stored)).any
    for place, least in ((0, "coef"), (1, "error")):
        found = deepcopy(stored)
        found["terms"]["x1"][place] += 2e-6 * stored["terms"]["x1"][1]
        assert getattr(moves(stored, found), least) == pytest.approx(2e-6, rel=1e-4)
        assert moves(stored, found).any
    assert moves(stored, stored | {"trusted": False}).judged == {"trusted": (True, False)}
    assert moves(stored, stored | {"verdicts": ["estimated", "imprecise"]}).any
    renamed = stored | {"terms": {"x0": stored["terms"]["x0"]}}
    assert moves(stored, renamed).any
    rest = moves(stored, stored | {"block_sd": 0.1})
    assert not rest.any
    assert rest.rest == {"block_sd": (0.0, 0.1)}
