"""What was chosen on held-out blocks, by how much, and what it means, in sentences."""

from __future__ import annotations

import numpy as np

from unbin.likelihood.infer.choice import Selection
from unbin.release.words import plural

_MEANING = {
    "gaussian": "a coefficient is a difference in the mean outcome per unit",
    "poisson": "exp(coefficient) is a ratio of mean outcomes",
    "negative-binomial": "exp(coefficient) is a ratio of mean outcomes; counts spread more than "
    "Poisson's",
    "gamma": "exp(coefficient) is a ratio of mean outcomes; their spread grows with the mean",
    "binomial": "exp(coefficient) is an odds ratio",
    "beta-binomial": "exp(coefficient) is an odds ratio; outcomes spread more than the binomial's",
    "ordinal": "exp(coefficient) is the odds ratio of an outcome above any edge, whatever its "
    "distribution",
}


def meaning(family: str) -> str:
    """Return what a coefficient of a family is."""
    return _MEANING.get(family, "")


def choice_sentence(selection: Selection) -> str:
    """Return what won, by how much, and what it means.

    The runner-up is the best candidate of another family, else the second best.
    """
    k = selection.chosen
    best = selection.family[k]
    scored = np.isfinite(selection.score)
    others = np.array([name != best for name in selection.family]) & scored
    if not others.any():
        others = scored & (np.arange(len(scored)) != k)
    ridge = f"alpha {selection.alpha[k]:.3g}"
    context = ", contextual effects" if selection.contextual[k] else ""
    text = f"Chosen on held-out blocks: {best}, {ridge}{context}"
    if others.any():
        rival = int(np.argmax(np.where(others, selection.score, -np.inf)))
        gain = float(selection.score[k] - selection.score[rival])
        name = selection.family[rival]
        if name == best:
            name += f" with alpha {selection.alpha[rival]:.3g}"
        error = float(selection.error[rival] if gain >= 0 else selection.error[k])
        side = "above" if gain >= 0 else "below"
        text += (
            f"; its log score per person is {abs(gain):.2g} {side} that of {name} (standard error "
            f"{error:.2g})"
        )
        if abs(gain) <= 2 * error:
            text += ", so the two do equally well" + (", and it is simpler" if gain < 0 else "")
    text += f". {plural(len(selection.score), 'candidate')} tried."
    return text + (f" For {best}, {meaning(best)}." if meaning(best) else "")
