"""The paper's estimator: rank bounds, the lemma, the objective and its solvers."""
