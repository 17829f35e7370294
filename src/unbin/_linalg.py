"""Linear algebra that several rooms use, of arrays and of tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from unbin._typing import FloatArray

JITTER = 1e-6
"""Added to the variance of every statistic: a bin that can hold nobody then has no weight."""


def namespace(array: Any) -> Any:
    """Return the module whose functions work on an array: numpy, or torch for its tensors."""
    return np if isinstance(array, np.ndarray | np.generic) else sys.modules["torch"]


def like(array: Any, values: FloatArray) -> Any:
    """Return numbers as an array of the same kind, in the same place: a tensor beside tensors."""
    if isinstance(array, np.ndarray):
        return values
    return namespace(array).as_tensor(values, dtype=array.dtype, device=array.device)
