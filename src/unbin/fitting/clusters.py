"""Larger blocks that blocks lie in, as counties in states, by which errors and effects are.

Blocks that lie in one cluster may have something in common that is not among the features. What
tables publish of them is then correlated, and errors by block are too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unbin._frames import as_text, column_names
from unbin._typing import IntArray
from unbin.exceptions import AlignmentError, ParameterError
from unbin.fitting.by_column import check_named, column_in
from unbin.fitting.model import Clusters
from unbin.release import Release

_CROSSES = 0.5
"""Share of a table's blocks in several clusters from which on it crosses them as a whole."""


def as_names(X: Any, cluster: Any) -> tuple[str, ...]:
    """Return the columns of files, or of a frame on a cluster, that hold clusters."""
    names = [cluster] if isinstance(cluster, str) else cluster
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"cluster: must name a column of X, or several, got {type(cluster).__name__}; pass its "
            "name"
        )
    if column_names(X) is None and not isinstance(X, str) and not hasattr(X, "__fspath__"):
        raise ParameterError(
            "cluster: names a column of files and frames, got an array; pass a Dask frame"
        )
    for name in names:
        check_named(X, "cluster", name)
    _refuse_twice(names)
    return tuple(names)


def clusters_in(X: Any, cluster: Any) -> dict[str, Any]:
    """Return the clusters of the rows of a frame, by what they are called."""
    names = list(cluster) if isinstance(cluster, list | tuple) else [cluster]
    if not names or not all(isinstance(name, str) for name in names):
        return named(cluster)
    _refuse_twice(names)
    return {name: column_in(X, "cluster", name)[0] for name in names}


def named(cluster: Any) -> dict[str, Any]:
    """Return ids of clusters, one per row, by what they are called."""
    if isinstance(cluster, Mapping):
        return {str(name): ids for name, ids in cluster.items()}
    if isinstance(cluster, str):
        raise ParameterError(
            f"cluster: names a column of files, and of frames beside tables by column, got "
            f"{cluster!r} beside rows that are tied to a table already; pass the ids, one per row"
        )
    columns = column_names(cluster)
    if columns is not None:
        return {str(name): cluster[name] for name in columns}
    if getattr(cluster, "ndim", 1) == 2:
        return {f"cluster {j + 1}": ids for j, ids in enumerate(np.asarray(cluster).T)}
    name = getattr(cluster, "name", None)
    return {name if isinstance(name, str) and name else "cluster": cluster}


def coded(clusters: Mapping[str, Any], n: int) -> tuple[tuple[Clusters, ...], tuple[IntArray, ...]]:
    """Return clusters, and that of each of n rows in each partition."""
    found, codes = [], []
    for name, ids in clusters.items():
        values = ids.cpu().numpy() if hasattr(ids, "cpu") else ids
        text = as_text(values, where="cluster" if name == "cluster" else f"cluster {name!r}")
        if len(text) != n:
            raise AlignmentError(
                f"cluster: must have one id per row of X, got {len(text):,} for {n:,} rows; check "
                "it"
            )
        own, code = np.unique(text, return_inverse=True)
        found.append(Clusters(name, own))
        codes.append(code)
    return tuple(found), tuple(codes)


def check_nested(
    names: Sequence[str],
    releases: Sequence[Release],
    codes: IntArray,
    clusters: Sequence[Clusters],
    cluster: IntArray,
    *,
    whole: bool = False,
) -> None:
    """Raise unless each block of a table lies in one cluster, or the table crosses them all.

    ``codes`` (T, C) and ``cluster`` (S, C) are the blocks and clusters of crossed cells; ``whole``:
    no table may cross them.
    """
    for each, own in zip(clusters, cluster, strict=True):
        if len(each.ids) < 2:
            raise AlignmentError(
                f"cluster: {each.name!r} must have several values, got {str(each.ids[0])!r} for "
                "everybody; leave it out"
            )
        for name, release, code in zip(names, releases, codes, strict=True):
            said = release.has_statistics()[code]
            pairs = np.unique(np.stack([code[said], own[said]]), axis=1)
            held = np.bincount(pairs[0], minlength=len(release))
            split = np.flatnonzero(held > 1)
            crosses = len(split) > _CROSSES * np.count_nonzero(held)
            if not len(split) or (crosses and not whole):
                continue
            first = pairs[1][pairs[0] == split[0]][:2]
            a, b = map(str, each.ids[first])
            raise AlignmentError(
                f"cluster: each block{f' of table {name!r}' if name else ''} must lie in one "
                f"{each.name}, got {str(release.blocks[split[0]])!r} in {a!r} and {b!r} "
                f"({len(split):,} of {np.count_nonzero(held):,} blocks lie in several); correct "
                "the ids, or choose larger clusters"
            )


def _refuse_twice(names: Sequence[str]) -> None:
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise ParameterError(f"cluster: must differ, got {twice[0]!r} twice; name it once")
