"""PyEI, for votes: the hierarchical multinomial-Dirichlet model, by Markov chain Monte Carlo."""

import numpy as np

from studies.registry import Method, VotesTask

DRAWS, CHAINS = 500, 2


def cells(task: VotesTask) -> tuple[np.ndarray, str]:
    """Return people times the posterior means of their shares."""
    task.margins_only()
    from pyei.r_by_c import RowByColumnEI

    total = task.people.sum(axis=1)
    model = RowByColumnEI(model_name="multinomial-dirichlet")
    model.fit(
        (task.people / total[:, None]).T,
        (task.counts / total[:, None]).T,
        total.astype(int),
        list(task.groups),
        list(task.categories),
        draws=DRAWS,
        tune=DRAWS,
        chains=CHAINS,
        cores=1,
        random_seed=0,
        progressbar=False,
    )
    shares = model.sim_trace.posterior["b"].to_numpy().mean(axis=(0, 1))
    return task.people[:, :, None] * shares, ""


METHOD = Method("PyEI", __doc__, 7, cells=cells, needs=("pyei",), seconds=600)
