"""The likelihood of published statistics: moments, solvers, uncertainty and imputation."""

from unbin.likelihood.fit import fit_likelihood
from unbin.likelihood.results import LikelihoodFit

__all__ = ["LikelihoodFit", "fit_likelihood"]
