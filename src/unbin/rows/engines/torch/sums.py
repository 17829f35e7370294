"""Sums over rows on a device: what ``Design`` is asked for, from products of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from unbin._typing import FloatArray
from unbin.families import Family
from unbin.rows.engines.torch import fused
from unbin.rows.engines.torch.bins import Bins
from unbin.rows.engines.torch.machine import Tensor, to_host, torch

if TYPE_CHECKING:
    from unbin.likelihood.model.law import Law
    from unbin.rows.engines.torch.tiles import TorchRows


def gram(rows: TorchRows, theta: FloatArray, weight: Callable[[Any], Any]) -> FloatArray:
    """See ``design.gram_sums``."""
    at, width = rows.theta(theta), rows.matrix.shape[2]
    if fused.sums_products(rows.machine, width):
        told = weight(rows.eta(at).double())
        total = fused.gram(rows, told if rows.weights is None else told * rows.weights)
    else:
        total = torch.zeros((width, width), dtype=torch.float64, device=rows.machine.device)
        for tiles in rows.batches(2 * width):
            part = rows.matrix[tiles]
            told = weight(rows.eta(at, tiles).double()).to(part.dtype)
            weighted = rows.weighed(tiles) * told[..., None]
            total += torch.bmm(part.transpose(1, 2), weighted).sum(dim=0, dtype=torch.float64)
    skip = 0 if rows.fit_intercept else 1
    return np.tril(to_host([total[skip:, skip:]])[0])


def by_column(rows: TorchRows) -> tuple[FloatArray]:
    """See ``design.row_sums``."""

    def sums(tiles: slice) -> Tensor:
        found = rows.weighed(tiles).sum(dim=1, dtype=torch.float64)
        if rows.offset is None:
            offset = torch.zeros_like(found[:, :1])
        else:
            weighed = rows.offset[tiles][..., None] * rows.people(tiles)
            offset = weighed.sum(dim=1, dtype=torch.float64)
        return torch.cat([found[:, 1:], offset], dim=1)

    if fused.sums_columns(rows.machine, rows.matrix.shape[2]):
        chunks = fused.chunks_of(rows)
        found = chunks.by_block(fused.powers(rows, rows.matrix, 1)[:, 0])
        offset = torch.zeros_like(found[:, :1])
        if rows.offset is not None:
            offset = chunks.by_block(fused.powers(rows, rows.offset[..., None], 1)[:, 0])
        return (to_host([torch.cat([found[:, 1:], offset], dim=1)])[0],)
    found = rows.by_block(sums, rows.matrix.shape[2])
    return (to_host([found])[0],)


def ends(rows: TorchRows) -> tuple[FloatArray, FloatArray]:
    """See ``design.extremes``."""
    low, high = [], []
    for tiles in rows.batches(2 * rows.matrix.shape[2]):
        columns, present = rows.matrix[tiles, :, 1:], rows.present(tiles) > 0
        low.append(torch.where(present, columns, torch.inf).amin(dim=(0, 1)))
        high.append(torch.where(present, columns, -torch.inf).amax(dim=(0, 1)))
    found = to_host([torch.stack(low).amin(dim=0), torch.stack(high).amax(dim=0)])
    return found[0], found[1]


def eta_moments(rows: TorchRows, theta: FloatArray) -> tuple[FloatArray]:
    """See ``start.eta_sums``."""
    at = rows.theta(theta)
    if fused.sums_columns(rows.machine, rows.matrix.shape[2]):
        found = fused.powers(rows, rows.eta(at)[..., None], 2)[:, :, 0]
        return (to_host([fused.chunks_of(rows).by_block(found)])[0],)

    def sums(tiles: slice) -> Tensor:
        eta = rows.eta(at, tiles)
        return over_people(rows, tiles, torch.stack([eta, eta * eta]))

    return (to_host([rows.by_block(sums, 4)])[0],)


def moments(
    rows: TorchRows, law: Law, free: FloatArray, covariance: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """See ``moments.moment_sums``."""
    found = to_host(moment_tensors(rows, law, free, covariance))
    return found[0], found[1], found[2]


def moment_tensors(
    rows: TorchRows, law: Law, free: FloatArray, covariance: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what ``moments.moment_sums`` does, left on the device."""
    d, k, size = rows.matrix.shape[2] - 1, law.n_bins, law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    m = law.coordinates.n_row_nuisance
    bins = Bins(law.family, *_edges(rows, law.lower, law.upper), nuisance, rows.machine)
    at = rows.theta(theta)
    form = fused.fused_law(rows, law, bins.law)
    if form is not None:
        total = fused.moments(rows, law, form, at)
        return laid_out(total if covariance else total[:, : -k * k], d, k, size, m, covariance)

    def sums(tiles: slice) -> Tensor:
        eta, blocks, part = rows.eta(at, tiles), rows.tile_block[tiles], rows.weighed(tiles)
        points = law.points(eta, rows.ids(blocks))
        models = [bins.at(each, blocks) for each in points]
        stack = law.average([model.stack for model in models])
        q = stack[0]
        # the first column of the rows is 1, times people: it gives the sums of what is not
        # multiplied by x
        by_x = times(stack.flatten(0, 1), part)
        found = [by_x[:, :k, 0], by_x[:, k : 2 * k].flatten(1)]
        found += [by_x[:, j * k : (j + 1) * k, 0] for j in range(2, 2 + m)]
        if law.unit is not None:
            mean = law.average([law.family.inverse_link(each) for each in points])
            slope = law.average([law.family.mean_derivative(each) for each in points])
            found.append(times(torch.stack([mean, slope]) / law.unit, part).flatten(1))
        if covariance:
            found.append(times(q * rows.people(tiles)[..., 0], q.permute(1, 2, 0)).flatten(1))
            if law.unit is not None:
                shares = [model.probability for model in models]
                each = [
                    _total_covariance(bins, law, at, blocks, share, mean)
                    for at, share in zip(points, shares, strict=True)
                ]
                found.append(over_people(rows, tiles, law.average(each)))
        return torch.cat([values.double() for values in found], dim=1)

    total = rows.by_block(sums, size + 1)
    return laid_out(total, d, k, size, m, covariance)


def checks(rows: TorchRows, law: Law, free: FloatArray) -> tuple[FloatArray, ...]:
    """See ``specification.check_sums``."""
    return to_host(check_tensors(rows, law, free))


def check_tensors(rows: TorchRows, law: Law, free: FloatArray) -> tuple[Tensor, ...]:
    """Return what ``specification.check_sums`` does, left on the device."""
    d, k, size = rows.matrix.shape[2] - 1, law.n_bins, law.n_statistics
    theta, nuisance = law.coordinates.split(free)
    scaled = law.coordinates.n_row_nuisance > 0
    bins = Bins(law.family, *_edges(rows, law.lower, law.upper), nuisance, rows.machine)
    at = rows.theta(theta)
    form = fused.fused_law(rows, law, bins.law)
    if form is not None:
        total = fused.moments(rows, law, form, at, checks=True)
        split = total.shape[1] - k * d * (1 + scaled)
        found = laid_out(total[:, :split], d, k, size, int(scaled), True)
        return *found, *_extended(total[:, split:], k, size, d, scaled)

    def sums(tiles: slice) -> Tensor:
        eta, blocks, part = rows.eta(at, tiles), rows.tile_block[tiles], rows.weighed(tiles)
        points = law.points(eta, rows.ids(blocks))
        stack = law.average([bins.at(each, blocks).stack for each in points])
        by_square, squares = stack[1], (part * rows.matrix[tiles])[..., 1:]
        if law.unit is not None:
            slope = law.average([law.family.mean_derivative(each) for each in points])
            by_square = torch.cat([by_square, slope[None] / law.unit])
        found = [times(by_square, squares).flatten(1)]
        if scaled:
            found.append(times(stack[2], part[..., 1:]).flatten(1))
        return torch.cat([values.double() for values in found], dim=1)

    total = rows.by_block(sums, size + 1)
    return *moment_tensors(rows, law, free, True), *_extended(total, k, size, d, scaled)


def _extended(total: Tensor, k: int, size: int, d: int, scaled: bool) -> tuple[Tensor, Tensor]:
    """Split the sums of blocks into those by squares, (b, L, d), and by what changes the scale."""
    scales = total.new_zeros((len(total), size, d if scaled else 0))
    if scaled:
        scales[:, :k] = total[:, size * d :].reshape(-1, k, d)
    return total[:, : size * d].reshape(-1, size, d), scales


def powers(rows: TorchRows) -> FloatArray:
    """See ``specification.power_sums``."""
    d = rows.matrix.shape[2] - 1
    if fused.sums_columns(rows.machine, d + 1):
        found = fused.powers(rows, rows.matrix, 4).sum(dim=0)
        people = found[0, :1].expand(d)  # the first column is 1
        return to_host([torch.cat([people[None], found[:, 1:]])])[0]
    total = torch.zeros((5, d), dtype=torch.float64, device=rows.machine.device)
    for tiles in rows.batches(2 * (d + 1)):
        x = rows.matrix[tiles, :, 1:].double()
        people = rows.people(tiles).double()
        for k in range(5):
            total[k] += (people * x**k).sum(dim=(0, 1))
    return to_host([total])[0]


def _total_covariance(
    bins: Bins, law: Law, eta: Tensor, blocks: Tensor, q: Tensor, mean: Tensor
) -> Tensor:
    """Return each row's covariances of its target with its bins and, last, itself.

    Deviations are those from ``mean``, which is averaged over the random block intercept.
    """
    family, unit = law.family, float(law.unit or 1.0)
    found = q.new_zeros((law.n_statistics, *eta.shape))
    if law.n_bins > 1:
        within = bins.means(eta, blocks) - mean
        found[:-1] = q * torch.where(q > 0, within, 0.0) / unit
    apart = family.inverse_link(eta) - mean
    found[-1] = (family.variance(eta, bins.nuisance) + apart**2) / unit**2
    return found


def laid_out(
    total: Tensor, d: int, k: int, size: int, m: int, covariance: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Split the sums of blocks into those ``moment_sums`` returns."""
    n_blocks, has_total = len(total), size > k
    widths = [k, k * (1 + d), *([k] * m), *([2 * (1 + d)] if has_total else [])]
    if covariance:
        widths += [k * k, *([size] if has_total else [])]
    q, by_x, *rest = torch.split(total, widths, dim=1)
    mean, cross = total.new_zeros((n_blocks, size)), total.new_zeros((n_blocks, size, size))
    slopes = total.new_zeros((n_blocks, size, 1 + d + m))
    mean[:, :k] = q
    slopes[:, :k, : 1 + d] = by_x.view(n_blocks, k, 1 + d)
    for j in range(m):
        slopes[:, :k, 1 + d + j] = rest[j]
    if has_total:
        mean[:, k] = rest[m][:, 0]
        slopes[:, k, : 1 + d] = rest[m][:, 1 + d :]
    if covariance:
        cross[:, :k, :k] = -rest[m + has_total].view(n_blocks, k, k)
        if has_total:
            cross[:, k] = rest[-1]
    return mean, slopes, cross


def expected(
    rows: TorchRows,
    family: Family,
    lower: FloatArray,
    upper: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
) -> tuple[FloatArray]:
    """See ``heldout.count_sums``."""
    at, bins = rows.theta(theta), Bins(family, *_edges(rows, lower, upper), nuisance, rows.machine)

    def sums(tiles: slice) -> Tensor:
        q = bins.at(rows.eta(at, tiles), rows.tile_block[tiles]).probability
        return over_people(rows, tiles, q)

    return (to_host([rows.by_block(sums, lower.shape[-1] + 1)])[0],)


def bin_values(
    rows: TorchRows,
    family: Family,
    lower: FloatArray,
    upper: FloatArray,
    theta: FloatArray,
    nuisance: FloatArray,
    step: int,
) -> tuple[FloatArray, FloatArray]:
    """See ``start.bin_value_sums``."""
    place = rows.slots(np.arange(-rows.place % step, len(rows), step))
    slots = torch.as_tensor(place, device=rows.machine.device)
    sample = rows.matrix.view(-1, rows.matrix.shape[2])[slots]
    eta = sample @ rows.theta(theta)
    if rows.offset is not None:
        eta += rows.offset.view(-1)[slots]
    bins = Bins(family, lower, upper, nuisance, rows.machine)
    eta, blocks = eta[None].double(), slots[:1] * 0
    q = bins.at(eta, blocks).probability
    if rows.weights is not None:
        q = q * rows.weights.view(-1)[slots]
    found = to_host([q.sum(dim=(1, 2)), (q * bins.means(eta, blocks)).sum(dim=(1, 2))])
    return found[0], found[1]


def times(values: Tensor, columns: Tensor) -> Tensor:
    """Multiply values (f, t, tile) with columns (t, tile, c) of the same tiles, (t, f, c)."""
    return torch.bmm(values.transpose(0, 1), columns)


def over_people(rows: TorchRows, tiles: slice, values: Tensor) -> Tensor:
    """Add up values (f, t, tile) over the people of each tile, (t, f)."""
    return times(values, rows.people(tiles))[:, :, 0]


def _edges(rows: TorchRows, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bin ends of the blocks that have rows here."""
    return (lower, upper) if lower.ndim == 1 else (lower[rows.blocks], upper[rows.blocks])


# -- sums by codes of rows -------------------------------------------------------------------------

_FEW = 64
"""Blocks up to which people are added up by a matrix product."""
_AT_ONCE = 1 << 18
"""Rows whose people are added up at a time."""


def sum_by(codes: Tensor, values: Tensor, n_blocks: int) -> Tensor:
    """Add up values (n, f) of people by their codes, in the same order every time; (B, f)."""
    codes, values = codes.reshape(-1), values.double()
    if n_blocks <= _FEW:
        belongs = torch.arange(n_blocks, device=values.device)[:, None] == codes
        return belongs.double() @ values
    ordered, order = torch.sort(codes, stable=True)
    lengths = torch.bincount(ordered, minlength=n_blocks)
    return torch.segment_reduce(values[order], "sum", lengths=lengths, unsafe=True)


def people_by(codes: Tensor, weights: Tensor, n_blocks: int) -> FloatArray:
    """Return the people (B,) that the rows of each block stand for."""
    total = torch.zeros((n_blocks, 1), dtype=torch.float64, device=weights.device)
    for low in range(0, len(weights), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        total += sum_by(codes[part], weights[part, None], n_blocks)
    return to_host([total])[0][:, 0]
