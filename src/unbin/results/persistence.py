"""Models as files: JSON that can be read by eye, checked when it is loaded, never run."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unbin import __version__
from unbin._checks import LARGEST, check_kind, check_path, check_texts
from unbin._io import not_a_file, write_texts
from unbin._typing import FloatArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ModelFileError, UnbinError
from unbin.fitting.model import Fit
from unbin.likelihood.choice import Selection
from unbin.likelihood.diagnostics import told_by
from unbin.likelihood.published import BlockStatistics, Published, smallest_shown
from unbin.people.encoding import Encoding
from unbin.results.codec import decode, encode

FORMAT = "unbin model"
FORMAT_VERSION = 6
MAX_BYTES = 256 * 2**20
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "formulaic")
_OF_THE_MACHINE = ("n_jobs", "engine", "client", "device", "dtype", "checkpoint")
"""Parameters that say where a model is fitted, which does not change what it is."""
_PERSONAL = ("imputed", "people")
"""Of a fit: values and rows of persons, which are not written."""
_KEYS = {
    "format", "format_version", "created", "versions", "inputs", "parameters", "features",
    "n_features", "several", "holds_release", "has_offset", "fits", "encoding",
}  # fmt: skip


_LARGEST_FOUND = LARGEST**2
"""No fit finds more: a variance of the largest outcomes, their ratio to the smallest features."""
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of characters, which names of files and columns may hold and UTF-8 has not."""


@dataclass(frozen=True, slots=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    model : AggregatedGLM
        Fitted; without imputed targets.
    encoding : Encoding or None
        How columns of people become its features.
    inputs : dict
        SHA-256 of the files it was fitted to, by name.
    versions : dict
        Of the software that saved it.
    created : str
        When, in UTC.
    """

    model: AggregatedGLM
    encoding: Encoding | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""


def save(
    model: AggregatedGLM,
    path: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    inputs: dict[str, str] | None = None,
    public: bool | None = None,
) -> None:
    """Write a fitted model to a JSON file; imputed targets are personal and are left out.

    So are published counts where a report would mask some of them, or where people whose outcome is
    known were taken out of them: the loaded model predicts as before, but its ``published_`` is
    None.

    Parameters
    ----------
    model : AggregatedGLM
    path : str or path
        Written whole or not at all.
    encoding : Encoding, optional
        How columns became X, so that new people can be encoded alike; that of a model of
        ``unbin.glm`` is saved in any case.
    inputs : dict, optional
        SHA-256 of the input files, by name.
    public : bool, optional
        Whether everybody has the table already: then its counts are kept. When left out, as the
        release says (``release.public``).
    """
    place = check_path("path", path)
    write_texts({place: model_text(model, encoding=encoding, inputs=inputs, public=public)})


def load(path: str | os.PathLike[str]) -> AggregatedGLM:
    """Read a model that :func:`save` (or ``unbin fit``) wrote; it predicts as it did.

    Parameters
    ----------
    path : str or path
    """
    return read_model(path).model


def model_text(
    model: AggregatedGLM,
    *,
    encoding: Encoding | None = None,
    inputs: dict[str, str] | None = None,
    public: bool | None = None,
) -> str:
    """Return the text of a model file; the parameters are those of :func:`save`."""
    check_kind("model", model, AggregatedGLM, instead="a fitted model")
    check_is_fitted(model)
    if encoding is not None:
        check_kind("encoding", encoding, Encoding, instead="what encoded the columns, or None")
    else:
        encoding = getattr(model, "encoding_", None)
    names = getattr(model, "feature_names_in_", None)
    data = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "inputs": {} if inputs is None else check_texts("inputs", inputs),
        "parameters": _parameters(model),
        "features": None if names is None else [str(name) for name in names],
        "n_features": int(model.n_features_in_),
        "several": model._several,
        "holds_release": model._holds_release,
        "has_offset": model._has_offset,
        "fits": [encode(_to_keep(fit, public), leave_out=_PERSONAL) for fit in model._fits],
        "encoding": None if encoding is None else encoding.to_json(),
    }
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in data.items()
    )
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def keeps_counts(model: AggregatedGLM, public: bool | None = None) -> bool:
    """Return whether a saved model holds all published counts of the fitted one."""
    check_is_fitted(model)
    return all(_to_keep(fit, public) is fit for fit in model._fits)


def _to_keep(fit: Fit, public: bool | None) -> Fit:
    """Return a fit without its counts, if a report would mask some of them.

    Those less people whose outcome is known would tell their outcomes. Of several tables of the
    same people those of one would reveal what another one masks.
    """
    found = [fit.published, fit.means, fit.quantiles]
    found += [each for table in fit.tables for each in (table.published, table.means)]
    shown = (t is None or t.shown_whole(smallest_shown(t, public)) for t in found)
    return fit if all(shown) and not fit.less_known else fit.without_counts()


def versions() -> dict[str, str]:
    """Return the versions of the software that results depend on."""
    found = {"unbin": __version__, "python": python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file with all that was saved beside the model."""
    place = check_path("path", path)
    data = _read_json(place)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFileError(
            f"{place.name}: must be a model that unbin saved, got other JSON; pass the model.json "
            "of 'unbin fit'"
        )
    if data.get("format_version") != FORMAT_VERSION:
        raise ModelFileError(
            f"{place.name}: must have format version {FORMAT_VERSION}, got "
            f"{data.get('format_version')!r}; load it with the version of unbin that saved it"
        )
    try:
        return _restore(data)
    except UnbinError as error:
        raise ModelFileError(f"{place.name}: {error}") from None


def _restore(data: dict[str, Any]) -> SavedModel:
    if set(data) != _KEYS:
        odd = ", ".join(sorted(set(data) ^ _KEYS))
        raise ModelFileError(f"fields: must be those of a model, got a difference in {odd}")
    fits = [
        decode(Fit, item, f"fits[{k}]", given=dict.fromkeys(_PERSONAL))
        for k, item in enumerate(_some_fits(data["fits"]))
    ]
    d = decode(int, data["n_features"], "n_features")
    for fit in fits:
        _check_fit(fit, d)
    model = _model(data["parameters"])
    several = decode(bool, data["several"], "several")
    if len(fits) != 1 and not several:
        raise ModelFileError(f"fits: must be one, got {len(fits)}; save the model again")
    model._assign(
        fits,
        several=several,
        release=decode(bool, data["holds_release"], "holds_release"),
        offset=decode(bool, data["has_offset"], "has_offset"),
    )
    model.n_features_in_ = d
    encoding = None if data["encoding"] is None else Encoding.from_json(data["encoding"])
    names = decode(tuple[str, ...] | None, data["features"], "features")
    if names is not None:
        if len(names) != d:
            raise ModelFileError(f"features: must be {d} names, got {len(names)}; save it again")
        model.feature_names_in_ = np.array(names, dtype=object)
    if encoding is not None and len(encoding.names) != d:
        raise ModelFileError(f"encoding: must give {d} columns, got {len(encoding.names)}")
    if encoding is not None:
        model.encoding_ = encoding
    return SavedModel(
        model,
        encoding,
        _texts(data["inputs"], "inputs"),
        _texts(data["versions"], "versions"),
        decode(str, data["created"], "created"),
    )


def _some_fits(value: Any) -> list[Any]:
    """Return a list that is not empty."""
    if not isinstance(value, list) or not value:
        raise ModelFileError("fits: must be a list with a fit, got none; save the model again")
    return value


def _check_fit(fit: Fit, d: int) -> None:
    """Raise unless the parts of a fit go together, with d features and finite estimates."""
    _require(fit.coef, (d,), "coef")
    for name in ("intercept", "dispersion", "block_sd", "level"):
        _require(np.array(getattr(fit, name)), (), name)
    counts = ("n_iter", "n_people", "n_rows", "n_blocks", "n_observed")
    for name in ("dispersion", "block_sd", "alpha", *counts):
        _require_positive(np.array(getattr(fit, name)), name)
    _check_shrunk(fit, d)
    if (fit.bins is None) == fit.family.free_shape:
        raise ModelFileError("bins: must go with an ordinal family, and no other")
    if fit.bins is None:
        _require(fit.nuisance, (len(fit.family.nuisance_names),), "nuisance")
    else:
        k = len(fit.bins.value)
        _require(fit.bins.value, (k,), "value")
        _require(fit.bins.thresholds, (k - 1,), "thresholds")
        if fit.bins.lower.shape != (k,) or fit.bins.upper.shape != (k,):
            raise ModelFileError("bins: must have as many ends as values")
        inner = fit.bins.thresholds, fit.bins.upper[:-1]
        if not all((np.diff(values) >= 0).all() for values in inner):
            raise ModelFileError("bins: thresholds and edges must increase; save the model again")
    size = 1 + d + _check_context(fit, d)
    thresholds = 0 if fit.bins is None else len(fit.bins.thresholds)
    sizes = {"covariance": size, "threshold_covariance": size + thresholds}
    found = {name: getattr(fit, name) for name in sizes}
    if fit.shrunk is not None:
        sizes["shrunk.covariance"] = size + thresholds
        found["shrunk.covariance"] = fit.shrunk.covariance
    for name, matrix in found.items():
        if matrix is not None:
            _require_shape(matrix, (sizes[name], sizes[name]), name)
            _require_positive(np.diag(matrix), f"variances in {name}")
    if (fit.threshold_covariance is None) != (fit.bins is None or fit.covariance is None):
        raise ModelFileError("threshold_covariance: must go with an ordinal family, and no other")
    _require_shape(fit.path, (fit.path.size,), "path")
    _check_diagnostics(fit, d)
    if fit.selection is not None:
        _check_selection(fit.selection)
    for table in (fit.published, *(each.published for each in fit.tables)):
        if table is not None:
            _check_published(table)
    for means in (fit.means, *(each.means for each in fit.tables)):
        if means is not None:
            _check_blocks(means, "means", (len(means),), ("mean", "expected"))
    if fit.quantiles is not None:
        own = fit.quantiles
        shape = (len(own), own.value.shape[-1] if own.value.ndim else 0)
        _check_blocks(own, "quantiles", shape, ("value", "share", "expected"))
    for each in fit.tables:
        for name in ("n_people", "n_blocks", "block_sd"):
            _require_positive(np.array(getattr(each, name)), f"tables.{name}")


def _check_shrunk(fit: Fit, d: int) -> None:
    """Raise unless what predicts is as long as what was estimated."""
    if fit.limits is not None:
        _require(fit.limits, (2,), "limits")
    if fit.shrunk is None:
        return
    _require(fit.shrunk.coef, (d,), "shrunk.coef")
    _require(np.array(fit.shrunk.intercept), (), "shrunk.intercept")
    _require(fit.shrunk.nuisance, fit.nuisance.shape, "shrunk.nuisance")
    if (fit.shrunk.contextual_coef is None) != (fit.contextual_coef is None):
        raise ModelFileError("shrunk.contextual_coef: must go with contextual_coef")
    if fit.shrunk.contextual_coef is not None:
        _require_shape(fit.shrunk.contextual_coef, (d,), "shrunk.contextual_coef")
    if (fit.shrunk.thresholds is None) != (fit.bins is None):
        raise ModelFileError("shrunk.thresholds: must go with an ordinal family, and no other")
    if fit.shrunk.thresholds is not None and fit.bins is not None:
        _require(fit.shrunk.thresholds, fit.bins.thresholds.shape, "shrunk.thresholds")


def _check_diagnostics(fit: Fit, d: int) -> None:
    found = fit.diagnostics
    _require_positive(np.array(found.block_sd), "diagnostics.block_sd")
    for name in (
        "efficiency",
        "precision",
        "shape_share",
        "location_coef",
        "location_standard_errors",
    ):
        values = getattr(found, name)
        if values is not None:
            _require_shape(values, (d,), f"diagnostics.{name}")
    if found.influence is not None:
        n_blocks = len(found.influence.block)
        _require_shape(found.influence.table, (n_blocks,), "diagnostics.influence.table")
        _require_shape(found.influence.shift, (n_blocks, d), "diagnostics.influence.shift")
    if len(found.verdicts) not in (0, d):
        raise ModelFileError(
            f"diagnostics.verdicts: must be one of each of {d} coefficients, got "
            f"{len(found.verdicts)}; save the model again"
        )
    names = tuple(table.name for table in fit.tables)
    names = told_by(names, observed=fit.n_observed > 0) if names else names
    if found.tables != names:
        raise ModelFileError(
            f"diagnostics.tables: must be those of the fit, got {len(found.tables)} names for "
            f"{len(names)} tables; save the model again"
        )
    if names:
        _require(np.array(found.information), (len(names), d), "diagnostics.information")


def _check_selection(selection: Selection) -> None:
    n = len(selection.family)
    _require_shape(np.array(selection.contextual), (n,), "selection.contextual")
    for name in ("alpha", "score", "error"):
        _require_shape(getattr(selection, name), (n,), f"selection.{name}")
    if not 0 <= selection.chosen < n:
        raise ModelFileError(
            f"selection.chosen: must be one of {n} candidates, got {selection.chosen}; save the "
            "model again"
        )


def _check_blocks(
    found: BlockStatistics, what: str, shape: tuple[int, ...], own: tuple[str, ...]
) -> None:
    """Raise unless statistics of blocks, ``own`` of them of a shape, go together."""
    for name in ("n", "misfit", "df", "residual"):
        _require_shape(getattr(found, name), (len(found),), f"{what}.{name}")
    for name in own:
        _require_shape(getattr(found, name), shape, f"{what}.{name}")
    _require_positive(found.n, f"{what}.n")


def _check_published(table: Published) -> None:
    n_blocks = len(table.blocks)
    shape = (n_blocks, table.lower.shape[-1] if table.lower.ndim else 0)
    for name in ("n", "misfit", "df", "residual"):
        _require_shape(getattr(table, name), (n_blocks,), f"published.{name}")
    for name in ("count", "low", "high", "expected"):
        values = getattr(table, name)
        if values is not None:
            _require_shape(values, shape, f"published.{name}")
    for name in ("lower", "upper"):
        ends = getattr(table, name)
        _require_shape(ends, shape[1:] if table.lower.ndim == 1 else shape, f"published.{name}")
    _require_positive(table.n, "published.n")


def _check_context(fit: Fit, d: int) -> int:
    """Return how many contextual coefficients there are; raise unless their parts go together."""
    context, coef = fit.context, fit.contextual_coef
    if context is None and coef is None:
        return 0
    if context is None or coef is None:
        raise ModelFileError("context: must go with contextual coefficients")
    _require(context.means, (len(context.blocks), d), "means")
    _require(context.average, (d,), "average")
    if context.used.shape != (d,) or (context.blocks[1:] <= context.blocks[:-1]).any():
        raise ModelFileError("context: must have sorted blocks and one flag per feature")
    if coef.shape != (d,) or not np.isfinite(coef[context.used]).all():
        raise ModelFileError("contextual_coef: must be finite where a feature varies within blocks")
    return int(context.used.sum())


def _require(array: FloatArray, shape: tuple[int, ...], name: str) -> None:
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


def _require_shape(array: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise ModelFileError(
            f"{name}: must have shape {shape}, got {array.shape}; save the model again"
        )


def _require_positive(array: NDArray[Any], name: str) -> None:
    if (array < 0).any():
        raise ModelFileError(
            f"{name}: must not be negative, got {array.min():g}; save the model again"
        )


def _parameters(model: AggregatedGLM) -> dict[str, Any]:
    """Return the parameters as JSON can hold them; a random generator is not kept."""
    found = {name: v for name, v in model.get_params().items() if name not in _OF_THE_MACHINE}
    if not isinstance(found["init"], str):
        found["init"] = np.asarray(found["init"], dtype=np.float64).tolist()
    if not isinstance(found["random_state"], int | np.integer):
        found["random_state"] = None
    plain = {name: encode(value) for name, value in found.items()}
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in plain.items()}


def _model(parameters: Any) -> AggregatedGLM:
    model = AggregatedGLM()
    if not isinstance(parameters, dict) or set(parameters) != set(_parameters(model)):
        raise ModelFileError("parameters: must be those of AggregatedGLM, got others")
    model.set_params(**parameters)
    try:
        model._check_parameters()
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelFileError(f"parameters: {error}") from None
    return model


def _texts(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ModelFileError(f"{where}: must be texts by name; save the model again")
    return value


def _read_json(place: Path) -> Any:
    try:
        odd = not_a_file(place)
        if odd is not None:
            raise ModelFileError(f"{place.name}: must be a file, got {odd}; check the path")
        if place.stat().st_size > MAX_BYTES:
            raise ModelFileError(
                f"{place.name}: must have at most {MAX_BYTES:,} bytes, got more; is it a model?"
            )
        text = place.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelFileError(
            f"{place.name}: cannot be opened, got {error.strerror}; check the path"
        ) from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{place.name}: must be JSON, got no text; check the file") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubles)
    except ModelFileError as error:
        raise ModelFileError(f"{place.name}: {error}") from None
    except (ValueError, RecursionError) as error:
        what = "too deep a nesting" if isinstance(error, RecursionError) else str(error)
        raise ModelFileError(
            f"{place.name}: must be whole JSON, got {what[:80]}; is the file truncated?"
        ) from None


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for k, name in enumerate(names) if name in names[:k])
        raise ModelFileError(
            f"every name must be there once, got {double[:60]!r} twice; save the model again"
        )
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"numbers must be finite, got {name}; save the model again")
