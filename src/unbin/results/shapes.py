"""Whether the parts of a saved model go together: shapes, sizes, signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbin._checks import LARGEST
from unbin._typing import FloatArray
from unbin.exceptions import ModelFileError
from unbin.fitting.published import Published

_LARGEST_FOUND = LARGEST**2
"""No fit finds more: a variance of the largest outcomes, their ratio to the smallest features."""


def require(array: FloatArray, shape: tuple[int, ...], name: str) -> None:
    """Raise unless an array is finite, of a shape, and of a size that a fit can find."""
    if array.shape != shape or not np.isfinite(array).all():
        raise ModelFileError(
            f"{name}: must be finite, of shape {shape}, got shape {array.shape}; save the model "
            "again"
        )
    if (np.abs(array) > _LARGEST_FOUND).any():
        raise ModelFileError(
            f"{name}: must be at most {_LARGEST_FOUND:g} in size, got {np.abs(array).max():g}; "
            "save the model again"
        )


def require_shape(array: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise unless an array has a shape."""
    if array.shape != shape:
        raise ModelFileError(
            f"{name}: must have shape {shape}, got {array.shape}; save the model again"
        )


def require_positive(array: NDArray[Any], name: str) -> None:
    """Raise where a number is negative."""
    if (array < 0).any():
        raise ModelFileError(
            f"{name}: must not be negative, got {array.min():g}; save the model again"
        )


def check_published(table: Published) -> None:
    """Raise unless published and expected counts go together."""
    n_blocks = len(table.blocks)
    shape = (n_blocks, table.lower.shape[-1] if table.lower.ndim else 0)
    for name in ("n", "misfit", "df", "residual"):
        require_shape(getattr(table, name), (n_blocks,), f"published.{name}")
    for name in ("count", "low", "high", "expected"):
        values = getattr(table, name)
        if values is not None:
            require_shape(values, shape, f"published.{name}")
    for name in ("lower", "upper"):
        ends = getattr(table, name)
        require_shape(ends, shape[1:] if table.lower.ndim == 1 else shape, f"published.{name}")
    require_positive(table.n, "published.n")
