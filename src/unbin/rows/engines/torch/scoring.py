"""Blocks scored on the device: ``likelihood.model.score`` with all blocks at a time.

Only scores come back: with many blocks, their moments would be most of the transfer, and whitening
them most of the host's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unbin._linalg import JITTER, long_product
from unbin._typing import BoolArray, FloatArray
from unbin.rows.engines.torch.machine import Tensor, to_host, torch
from unbin.rows.engines.torch.sums import check_tensors, moment_tensors

if TYPE_CHECKING:
    from unbin.likelihood.model.law import Law
    from unbin.likelihood.model.score import Evidence
    from unbin.rows.engines.torch.tiles import TorchRows


def score(
    rows: TorchRows,
    law: Law,
    free: FloatArray,
    weigh: Callable[[slice, Any], tuple[Evidence, Tensor]],
    used: BoolArray,
) -> tuple[Any, FloatArray, FloatArray]:
    """See ``likelihood.model.score.score_rows``; counts are known, rows are no sample."""
    blocks, p = rows.span, len(free)
    found, mean = weigh(blocks, moment_tensors(rows, law, free, True))
    right = torch.cat(
        [found.derivative, found.shift[:, :, None], found.residual[:, :, None]], dim=2
    )
    df = whiten(found.covariance, right, torch.as_tensor(used[blocks], device=right.device))
    white, residual = right[:, :, :-1], right[:, :, -1]
    both = (residual[:, None] @ white)[:, 0]
    along = (white[:, :, -1][:, None] @ white)[:, 0]
    flat = white[:, :, :-1].reshape(-1, p)
    each = [(residual**2).sum(dim=1), df, both[:, -1], along[:, -1]]
    tensors = [long_product(flat, flat), both[:, :-1], along[:, :-1], torch.stack(each)]
    information, *rest, spread, expected = to_host([*tensors, found.spread, mean])
    return (information, *rest), spread, expected


def check(
    rows: TorchRows,
    law: Law,
    free: FloatArray,
    check: Callable[[slice, Any], tuple[Any, ...]],
    extended: bool,
) -> tuple[Any, ...]:
    """See ``likelihood.infer.specification.check_rows``; what is of blocks stays on the device."""
    sums: tuple[Tensor, ...] = (
        check_tensors(rows, law, free) if extended else moment_tensors(rows, law, free, True)
    )
    return check(rows.span, sums)


def whiten(covariance: Tensor, right: Tensor, used: Tensor) -> Tensor:
    """Multiply ``right`` by the inverse Cholesky factor of each block, in place; return df.

    Both are changed. Statistics that are not ``used`` become zeros.
    """
    size = covariance.shape[1]
    covariance *= used[:, :, None] & used[:, None, :]
    right *= used[:, :, None]
    covariance.diagonal(dim1=1, dim2=2).add_(JITTER)
    df = torch.zeros_like(right[:, 0, 0])
    for k in range(size):
        pivot = covariance[:, k, k].clamp(min=JITTER)
        df += 1.0 - JITTER / pivot
        inverse = torch.rsqrt(pivot)[:, None]
        right[:, k] *= inverse
        if k + 1 < size:
            below = covariance[:, k + 1 :, k] * inverse
            right[:, k + 1 :].addcmul_(below[:, :, None], right[:, k : k + 1], value=-1)
            covariance[:, k + 1 :, k + 1 :].addcmul_(below[:, :, None], below[:, None], value=-1)
    return df
