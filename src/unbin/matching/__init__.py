"""The paper's estimator: rank bounds, the z-step (Lemma 3), the objective and its solvers.

References
----------
Bhowmik, A., Ghosh, J. and Koyejo, O. (2015). Generalized linear models for aggregated data.
*Proceedings of the 18th International Conference on Artificial Intelligence and Statistics
(AISTATS)*, 93-101.
"""
