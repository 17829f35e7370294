"""The likelihood of published statistics: moments, solvers, uncertainty and imputation.

For counts and means it is a *quasi-likelihood*: nothing but their expectation m_b and covariance
S_b enters, and the estimate is the root of the quasi-score Σ D_bᵀ S_b⁻¹ (c_b - m_b), the optimal
estimating function that is linear in the published statistics.

References
----------
Wedderburn, R. W. M. (1974). Quasi-likelihood functions, generalized linear models, and the
Gauss-Newton method. *Biometrika*, 61, 439-447.

McCullagh, P. (1983). Quasi-likelihood functions. *Annals of Statistics*, 11, 59-67.

Godambe, V. P. and Heyde, C. C. (1987). Quasi-likelihood and optimal estimation. *International
Statistical Review*, 55, 231-244.
"""

from unbin.likelihood.fit import fit_likelihood
from unbin.likelihood.infer.estimate import LikelihoodFit

__all__ = ["LikelihoodFit", "fit_likelihood"]
