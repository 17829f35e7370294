"""What was chosen, in a sentence."""

import numpy as np

from unbin.families import FAMILIES
from unbin.fitting.choice_words import choice_sentence, meaning
from unbin.likelihood.infer.choice import Selection


def selection(score, error, chosen=0, family=("gaussian", "gamma"), alpha=(0.0, 0.0)):
    return Selection(
        family, np.array(alpha), (False,) * len(family), np.array(score), np.array(error), chosen
    )


def test_the_winner_its_lead_and_its_meaning():
    assert choice_sentence(selection([-1.2, -1.25], [0.0, 0.01])) == (
        "Chosen on held-out blocks: gaussian, alpha 0; its log score per person is 0.05 above that "
        "of gamma (standard error 0.01). 2 candidates tried. For gaussian, a coefficient is a "
        "difference in the mean outcome per unit."
    )


def test_two_that_do_equally_well():
    text = choice_sentence(selection([-1.2, -1.201], [0.0, 0.01]))
    assert "0.001 above that of gamma (standard error 0.01), so the two do equally well." in text
    text = choice_sentence(selection([-1.201, -1.2], [0.01, 0.0]))
    assert (
        "0.001 below that of gamma (standard error 0.01), so the two do equally well, and" in text
    )


def test_ridges_of_one_family():
    found = selection([-1.2, -1.3], [0.0, 0.01], family=("poisson",) * 2, alpha=(0.1, 1.0))
    assert "alpha 0.1; its log score per person is 0.1 above that of poisson with alpha 1" in (
        choice_sentence(found)
    )
    alone = choice_sentence(selection([-1.2], [0.0], family=("ordinal",), alpha=(0.0,)))
    assert alone.startswith("Chosen on held-out blocks: ordinal, alpha 0. 1 candidate tried.")


def test_every_family_has_a_meaning():
    assert all(meaning(name) for name in FAMILIES)
