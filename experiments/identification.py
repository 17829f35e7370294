"""One block does not identify the slopes, and the fit says so; twenty blocks of the same people do.

    python experiments/identification.py

2,000 people with three normal features shifted in 20 places, gaussian targets of noise 1 in ten
bins. Their histogram is published once for everybody, and once per place.
"""

from __future__ import annotations

import numpy as np

import common

SLOPES = np.array([1.0, -0.5, 0.25])


def people(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, targets and places."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(20), 100)
    X = rng.normal(size=(2000, 3)) + rng.normal(size=(20, 3))[codes]
    return X, X @ SLOPES + rng.normal(size=2000), common.block_names(codes)


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 100)
    rows = []
    for name in ("1 block", "20 blocks"):
        models = []
        for seed in range(runs):
            X, y, blocks = people(seed)
            if name == "1 block":
                blocks = np.full(len(y), "everybody")
            models.append(common.fit_release(X, y, blocks, 10))
        errors = np.array([model.coef_ - SLOPES for model in models])
        print(f"{name}: {models[0].diagnostics_.reason}\n")
        rows.append(
            {
                "release": name,
                "runs": runs,
                "said_identified": float(np.mean([m.diagnostics_.identified for m in models])),
                "slope_rmse": float(np.sqrt(np.mean(errors**2))),
            }
        )
    common.report("identification", rows, store=runs >= 100)


if __name__ == "__main__":
    main()
