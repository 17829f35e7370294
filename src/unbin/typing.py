"""Array types used across the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
TextArray = NDArray[np.str_]
ArrayLike = Any
"""What a user may pass where an array is read: list, array, or a column of a frame."""
KeyArray = NDArray[np.uint64]
