"""Array types used across the package."""

from __future__ import annotations

from typing import Any

import numpy as np

# spelled out: NDArray[...] is an alias that NumPy defines in other ways from version to version,
# and models are read by what their fields declare
FloatArray = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
IntArray = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
BoolArray = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
TextArray = np.ndarray[tuple[Any, ...], np.dtype[np.str_]]
ArrayLike = Any
"""What a user may pass where an array is read: list, array, or a column of a frame."""
KeyArray = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]
BinArray = np.ndarray[tuple[Any, ...], np.dtype[np.int32]]
"""Bins of rows, and blocks of rows in many partitions: there are many of them."""
Index = slice | IntArray
"""Which blocks, cells or units."""
