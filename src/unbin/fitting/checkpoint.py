"""Coefficients saved during a fit, so that the next one can resume from them.

A checkpoint holds coefficients and nothing about people. A digest of the release, the scale of the
columns, the settings and the number of coefficients identifies its fit; a checksum shows damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unbin._io import not_a_file, write_texts
from unbin._typing import FloatArray
from unbin._watching import Step, noting
from unbin.exceptions import CheckpointError
from unbin.release import Release

_FORMAT = 1


def fingerprint(
    tables: Sequence[Release], center: FloatArray, scale: FloatArray, settings: dict[str, Any]
) -> str:
    """Return a digest that changes with the data and the settings of a fit."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    numbers: list[Any] = []
    for release in tables:
        histogram, order = release.histogram, release.order_statistics
        numbers += [release.n, histogram.start, histogram.lower, histogram.upper, order.start]
        numbers += [*histogram.interval(), order.value, np.array([release.noise_sd])]
        numbers += [] if release.means is None else [release.means]
    # how the people are cut into parts changes the last digits of sums over them
    numbers += [np.round(center / scale, 6) + 0.0, np.round(np.log(scale), 6) + 0.0]
    for values in numbers:
        digest.update(np.ascontiguousarray(values).tobytes())
    for release in tables:
        digest.update("\0".join([*map(str, release.blocks), *release.categories]).encode())
    return digest.hexdigest()


@contextmanager
def checkpointed(path: str | Path, fit: str) -> Iterator[FloatArray | None]:
    """Save the coefficients of the fit made inside at ``path``; yield those found there.

    Parameters
    ----------
    path : str or Path
    fit : str
        The fingerprint of the fit.

    Yields
    ------
    (p,) or None
        Where to start; None where there is no checkpoint yet.
    """
    target = Path(path)
    start = _read(target, fit) if target.exists() else None

    def note(step: Step) -> None:
        if step.parameters is not None and np.isfinite(step.parameters).all():
            write_texts({target: _written(step, fit)})

    with noting(note):
        yield start


def discard(path: str | Path | None) -> None:
    """Remove a checkpoint whose fit is complete."""
    if path is not None:
        Path(path).unlink(missing_ok=True)


def _written(step: Step, fit: str) -> str:
    assert step.parameters is not None
    content = {
        "format": _FORMAT,
        "fit": _sized(fit, len(step.parameters)),
        "iteration": step.iteration,
        "parameters": [float(value).hex() for value in step.parameters],
    }
    return json.dumps({**content, "checksum": _checksum(content)}, indent=1)


def _read(path: Path, fit: str) -> FloatArray:
    odd = not_a_file(path)
    if odd is not None:
        raise CheckpointError(f"checkpoint {path}: must be a file, got {odd}; name another")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        checksum = found.pop("checksum")
        values = np.array([float.fromhex(value) for value in found["parameters"]])
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"checkpoint {path}: must be a file that a fit wrote, got {type(error).__name__}; "
            "delete it, or name another file"
        ) from None
    if checksum != _checksum(found) or found.get("format") != _FORMAT:
        raise CheckpointError(
            f"checkpoint {path}: is damaged, got another checksum than was written; delete it"
        )
    if found.get("fit") != _sized(fit, len(values)):
        raise CheckpointError(
            f"checkpoint {path}: is of another fit (other people, release or settings); delete "
            "it, or name another file"
        )
    if not np.isfinite(values).all():
        raise CheckpointError(
            f"checkpoint {path}: must hold finite coefficients, got NaN or inf; delete it"
        )
    return values


def _sized(fit: str, n_parameters: int) -> str:
    """Return the fingerprint of a fit with so many coefficients."""
    return hashlib.sha256(f"{fit} {n_parameters}".encode()).hexdigest()


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
