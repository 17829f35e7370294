"""Rows with thousands of columns, most of them 0: categories of many levels, through tabmat.

tabmat holds a category as one number per row, and multiplies with its columns without expanding
them. Only sums over the rows of a block, which tabmat does not have, loop over the nonzero entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from unbin._blocks import segment_start, spans_of
from unbin._compiling import njit
from unbin._typing import FloatArray, IntArray
from unbin.exceptions import DomainError, EngineError, ParameterError
from unbin.rows.design import Design
from unbin.rows.parts import LocalParts
from unbin.rows.products import accumulate
from unbin.rows.rows import Rows

if TYPE_CHECKING:
    from unbin.likelihood.model.law import Law

_SUMS = 1 << 24
"""Numbers in the sums of a part's blocks, about: this limits its blocks."""
_BINS = 16
"""Statistics per block assumed when parts are cut."""


@dataclass(frozen=True, slots=True)
class WideRows(Rows):
    """Rows of some people whose matrix tabmat holds.

    ``matrix`` is empty.

    Attributes
    ----------
    columns : tabmat.SplitMatrix of shape (n, d)
        The columns as they are; in every product they are standardised, (x - center) / scale.
    center, scale : (d,)
        A scale of infinity makes a column 0.
    dense : (n, d1), column-major
    dense_columns : (d1,)
        Which columns these are.
    other : scipy.sparse.csr_array of shape (n, d)
        All columns that are not dense.
    """

    columns: Any = None
    center: FloatArray = None  # type: ignore[assignment]
    scale: FloatArray = None  # type: ignore[assignment]
    dense: FloatArray = None  # type: ignore[assignment]
    dense_columns: IntArray = None  # type: ignore[assignment]
    other: Any = None

    def eta(self, theta: FloatArray, rows: slice = slice(None)) -> FloatArray:
        slopes = theta[self.fit_intercept :] / self.scale
        eta = self.columns.matvec(slopes) + (self.offset - self.center @ slopes)
        if self.fit_intercept:
            eta += theta[0]
        return np.asarray(eta[rows])

    def gradient(self, residual: FloatArray, rows: slice = slice(None)) -> FloatArray:
        assert len(residual) == len(self)
        total = residual.sum()
        slopes = (self.columns.transpose_matvec(residual) - self.center * total) / self.scale
        return np.concatenate([[total], slopes]) if self.fit_intercept else slopes

    def tiles(self, size: int = 0) -> list[slice]:
        """Return all rows at once: a part is small, and its products do not go row by row."""
        return [slice(0, len(self))]

    # -- sums over rows, each instead of the kernel of its name (see ``rows.rows.kernel``) --------

    def gram_sums(
        self, theta: FloatArray, weight: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        w = np.asarray(self.weighed(weight(self.eta(theta))), dtype=np.float64)
        total = w.sum()
        sums = self.columns.transpose_matvec(w)
        gram = self.columns.sandwich(w)
        gram = gram - np.outer(self.center, sums) - np.outer(sums, self.center)
        gram += total * np.outer(self.center, self.center)
        gram /= np.outer(self.scale, self.scale)
        if not self.fit_intercept:
            return np.tril(gram)
        result = np.empty((len(gram) + 1, len(gram) + 1))
        result[0, 0], result[1:, 1:] = total, gram
        result[1:, 0] = (sums - total * self.center) / self.scale
        return np.tril(result)

    def row_sums(self) -> tuple[FloatArray]:
        _, products = self.block_products(np.ones((len(self), 1)))
        return (np.column_stack([products[:, 0], self.sums(self.offset)]),)

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        # columns that are not dense are mostly 0, so that 0 lies between their extremes
        low = np.asarray(self.other.min(axis=0).todense()).ravel().astype(np.float64)
        high = np.asarray(self.other.max(axis=0).todense()).ravel().astype(np.float64)
        if len(self.dense_columns):
            low[self.dense_columns] = self.dense.min(axis=0)
            high[self.dense_columns] = self.dense.max(axis=0)
        return (low - self.center) / self.scale, (high - self.center) / self.scale

    def moment_sums(
        self, law: Law, free: FloatArray, covariance: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        theta, nuisance = law.coordinates.split(free)
        n_blocks, size = len(self.blocks), law.n_statistics
        mean, cross = np.zeros((n_blocks, size)), np.zeros((n_blocks, size, size))
        bare = np.zeros((n_blocks, size, 1 + law.coordinates.n_row_nuisance))
        model = law.rows(self, slice(0, len(self)), theta, nuisance, covariance)
        accumulate(
            model.mean, model.d_eta, model.d_nuisance, model.extra, np.empty((0, len(self))),
            self.people(), 0, self.start, mean, bare, cross, covariance, law.n_bins,
        )  # fmt: skip
        _, products = self.block_products(model.d_eta)
        return mean, np.concatenate([bare[:, :, :1], products, bare[:, :, 1:]], axis=2), cross

    def check_sums(self, law: Law, free: FloatArray) -> tuple[FloatArray, ...]:
        theta, nuisance = law.coordinates.split(free)
        model = law.rows(self, slice(0, len(self)), theta, nuisance, False)
        squares = self._block_squares(model.d_eta)
        scales = squares[:, :, :0]
        if law.coordinates.n_row_nuisance:
            _, scales = self.block_products(model.d_nuisance[0])
        return *self.moment_sums(law, free, True), squares, scales

    def power_sums(self) -> FloatArray:
        # of a column that is not dense (x - c)^k is (-c)^k wherever x is 0
        weights, csr = self.weighed(np.ones(len(self))), self.other
        total, apart = np.zeros((5, len(self.center))), -self.center / self.scale
        each = np.repeat(weights, np.diff(csr.indptr))
        nonzero = (csr.data - self.center[csr.indices]) / self.scale[csr.indices]
        dense = self._dense_standardised()
        for k in range(5):
            changed = each * (nonzero**k - apart[csr.indices] ** k)
            total[k] = np.bincount(csr.indices, changed, len(apart)) + weights.sum() * apart**k
            total[k, self.dense_columns] = weights @ dense**k
        return total

    def _dense_standardised(self) -> FloatArray:
        own = self.dense_columns
        return np.asarray((self.dense - self.center[own]) / self.scale[own])

    def _block_squares(self, weight: FloatArray) -> FloatArray:
        """Return Σ w x² over the people of each block, x standardised, (b, K, d)."""
        total, csr = self.sums(weight), self.other
        apart = -self.center / self.scale
        squares = total[:, :, None] * apart**2
        nonzero = (csr.data - self.center[csr.indices]) / self.scale[csr.indices]
        changed = nonzero**2 - apart[csr.indices] ** 2
        weighed = np.ascontiguousarray(self.weighed(weight))
        _add_sparse(csr.indptr, csr.indices, changed, weighed, self.start, squares)
        for column, values in zip(self.dense_columns, self._dense_standardised().T, strict=True):
            squares[:, :, column] = self.sums(weight * values[:, None] ** 2)
        return squares

    def below_sums(self, *args: Any) -> Any:
        raise EngineError(
            "order statistics: cannot be fitted to a tabmat matrix; pass an array, or publish "
            "counts in bins"
        )

    def block_products(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Σ w and Σ w x over the people of each block, x standardised.

        (b, K) and (b, K, d) for w of (n, K).
        """
        b, size = len(self.blocks), weight.shape[1]
        total = self.sums(weight)
        products = np.zeros((b, size, len(self.center)))
        csr, weighed = self.other, np.ascontiguousarray(self.weighed(weight))
        _add_sparse(csr.indptr, csr.indices, csr.data, weighed, self.start, products)
        for column, values in zip(self.dense_columns, self.dense.T, strict=True):
            products[:, :, column] = self.sums(weight * values[:, None])
        products -= total[:, :, None] * self.center
        products /= self.scale
        return total, products


def check_wide(X: Any) -> Any:
    """Return a matrix of tabmat as a split matrix of finite numbers."""
    if find_spec("tabmat") is None:
        raise EngineError("X: needs tabmat, got none; pip install unbin[fast]")
    import tabmat

    if not isinstance(X, tabmat.MatrixBase) or X.ndim != 2 or X.shape[0] == 0:
        raise ParameterError(f"X: must be a tabmat matrix with rows, got {type(X).__name__}")
    found = X if isinstance(X, tabmat.SplitMatrix) else tabmat.SplitMatrix([X])
    if not np.isfinite(found.matvec(np.ones(found.shape[1]))).all():
        raise DomainError("X: must be finite, got NaN or inf; fill it in or drop the people")
    return found


def lay_out_wide(
    X: Any,
    codes: IntArray,
    n_blocks: int,
    *,
    offset: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    n_threads: int = 1,
    weights: FloatArray | None = None,
) -> Design:
    """Lay a tabmat matrix out block by block (see :func:`unbin.rows.design.lay_out`)."""
    n, d = X.shape
    start = segment_start(codes, n_blocks)
    order = np.argsort(codes, kind="stable")
    center, scale, varies = _scale(X, weights, fit_intercept)
    people = None if weights is None else weights[order]
    extra = np.zeros(n) if offset is None else offset[order]
    # equal rows have equal products, others different ones
    draw = np.random.default_rng(seed).standard_normal(d)
    key = np.ascontiguousarray(X.matvec(draw)).view(np.uint64)[order]
    most = max(_SUMS // (_BINS * max(d, 1)), 1)
    parts = []
    for span in spans_of(start):
        for first in range(span.first, span.last, most):
            last = min(first + most, span.last)
            rows = slice(int(start[first]), int(start[last]))
            parts.append(
                _part(
                    X[order[rows], :],
                    Rows(
                        np.empty((rows.stop - rows.start, 0)),
                        extra[rows],
                        key[rows],
                        np.arange(first, last),
                        start[first : last + 1] - start[first],
                        fit_intercept,
                        rows.start,
                        weights=None if people is None else people[rows],
                    ),
                    center,
                    np.where(varies, scale, np.inf),
                )
            )
    engine = LocalParts(parts, n_threads)
    return Design(
        parts=engine,
        whole=engine,
        start=start,
        center=center,
        scale=scale,
        varies=varies,
        fit_intercept=fit_intercept,
        has_offset=bool(extra.any()),
        order=order,
        weight=None if people is None else np.add.reduceat(people, start[:-1]),
    )


def _part(matrix: Any, bare: Rows, center: FloatArray, scale: FloatArray) -> WideRows:
    """Split the columns of some rows into dense ones and others."""
    n = len(bare)
    dense, columns, others, places = [np.empty((n, 0))], [], [], []
    for block, indices in zip(matrix.matrices, matrix.indices, strict=True):
        if type(block).__name__ == "DenseMatrix":
            dense.append(block.unpack())
            columns.append(indices)
        else:
            others.append(block.tocsr() if hasattr(block, "tocsr") else block.array_csr)
            places.append(indices)
    empty = sparse.csr_array((n, len(center)))
    if others:
        stacked = sparse.hstack(others, format="csr")
        place = np.concatenate(places)
        other = sparse.csr_array(
            (stacked.data, place[stacked.indices], stacked.indptr), empty.shape
        )
    else:
        other = empty
    return WideRows(
        bare.matrix,
        bare.offset,
        bare.key,
        bare.blocks,
        bare.start,
        bare.fit_intercept,
        bare.place,
        weights=bare.weights,
        columns=matrix,
        center=center,
        scale=scale,
        dense=np.asfortranarray(np.hstack(dense)),
        dense_columns=np.concatenate([np.zeros(0, np.int64), *columns]),
        other=other,
    )


def _scale(
    X: Any, weights: FloatArray | None, fit_intercept: bool
) -> tuple[FloatArray, FloatArray, Any]:
    """Return center, scale and which columns vary, as ``lay_out`` would have them."""
    n, d = X.shape
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    _, mean, sd = X.standardize(share, True, True)
    center = mean if fit_intercept else np.zeros(d)
    spread = sd if fit_intercept else np.sqrt(sd**2 + mean**2)
    varies = spread > 1e-12 * np.abs(center)
    return center, np.where(varies, spread, 1.0), varies


@njit(cache=True, nogil=True)
def _add_sparse(indptr, indices, data, weight, start, out):  # type: ignore[no-untyped-def]
    """Add the products of weights and sparse columns to the sums of their blocks."""
    for b in range(len(start) - 1):
        for i in range(start[b], start[b + 1]):
            for p in range(indptr[i], indptr[i + 1]):
                for k in range(weight.shape[1]):
                    out[b, k, indices[p]] += weight[i, k] * data[p]
