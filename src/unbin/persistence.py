"""Models as files: JSON that can be read by eye, checked when it is loaded, never run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unbin import __version__
from unbin.codec import decode, encode
from unbin.encoding import Encoding
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ModelFileError, UnbinError
from unbin.fits import Fit
from unbin.outputs import write_texts

FORMAT = "unbin model"
FORMAT_VERSION = 1
MAX_BYTES = 256 * 2**20
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "formulaic")
_KEYS = {
    "format", "format_version", "created", "versions", "inputs", "parameters", "features",
    "n_features", "several", "holds_release", "fits", "encoding",
}  # fmt: skip


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
) -> None:
    """Write a fitted model to a JSON file; imputed targets are personal and are left out.

    Parameters
    ----------
    model : AggregatedGLM
    path : str or path
        Written whole or not at all.
    encoding : Encoding, optional
        How columns became X, so that new people can be encoded alike.
    inputs : dict, optional
        SHA-256 of the input files, by name.
    """
    write_texts({Path(path): model_text(model, encoding=encoding, inputs=inputs)})


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
) -> str:
    """Return the text of a model file."""
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    data = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "inputs": dict(inputs or {}),
        "parameters": _parameters(model),
        "features": None if names is None else [str(name) for name in names],
        "n_features": int(model.n_features_in_),
        "several": model._several,
        "holds_release": model._holds_release,
        "fits": [encode(fit, leave_out=("imputed",)) for fit in model._fits],
        "encoding": None if encoding is None else encoding.to_json(),
    }
    return json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


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
    place = Path(path)
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
        decode(Fit, item, f"fits[{k}]", given={"imputed": None})
        for k, item in enumerate(_some_fits(data["fits"]))
    ]
    d = decode(int, data["n_features"], "n_features")
    for fit in fits:
        _check_fit(fit, d)
    model = _model(data["parameters"])
    several = decode(bool, data["several"], "several")
    if len(fits) != 1 and not several:
        raise ModelFileError(f"fits: must be one, got {len(fits)}; save the model again")
    model._assign(fits, several=several)
    model._holds_release = decode(bool, data["holds_release"], "holds_release")
    model.n_features_in_ = d
    encoding = None if data["encoding"] is None else Encoding.from_json(data["encoding"])
    names = decode(tuple[str, ...] | None, data["features"], "features")
    if names is not None:
        if len(names) != d:
            raise ModelFileError(f"features: must be {d} names, got {len(names)}; save it again")
        model.feature_names_in_ = np.array(names, dtype=object)
    if encoding is not None and len(encoding.names) != d:
        raise ModelFileError(f"encoding: must give {d} columns, got {len(encoding.names)}")
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
    """Raise unless the parts of a fit have the shapes of d features, and finite estimates."""
    m = 0 if fit.bins is not None else len(fit.family.nuisance_names)
    shapes: list[tuple[str, Any, tuple[int, ...] | None]] = [
        ("coef", fit.coef, (d,)),
        ("intercept", np.array(fit.intercept), ()),
        ("dispersion", np.array(fit.dispersion), ()),
        ("block_sd", np.array(fit.block_sd), ()),
        ("nuisance", fit.nuisance, None if fit.bins is not None else (m,)),
    ]
    if (fit.bins is None) == fit.family.has_thresholds:
        raise ModelFileError("bins: must go with an ordinal family, and no other")
    if fit.bins is not None:
        k = len(fit.bins.value)
        shapes += [("thresholds", fit.bins.thresholds, (k - 1,)), ("value", fit.bins.value, (k,))]
        if fit.bins.lower.shape != (k,) or fit.bins.upper.shape != (k,):
            raise ModelFileError("bins: must have as many ends as values")
    used = 0
    if (fit.context is None) != (fit.contextual_coef is None):
        raise ModelFileError("context: must go with contextual coefficients")
    if fit.context is not None and fit.contextual_coef is not None:
        context, used = fit.context, int(fit.context.used.sum())
        shapes += [
            ("means", context.means, (len(context.blocks), d)),
            ("average", context.average, (d,)),
            ("contextual_coef", np.nan_to_num(fit.contextual_coef), (d,)),
        ]
        if context.used.shape != (d,) or (context.blocks[1:] <= context.blocks[:-1]).any():
            raise ModelFileError("context: must have sorted blocks and one flag per feature")
    for name, array, shape in shapes:
        if (shape is not None and array.shape != shape) or not np.isfinite(array).all():
            raise ModelFileError(
                f"{name}: must be finite, of shape {shape}, got shape {array.shape}; save the "
                "model again"
            )
    size = (1 + d + used, 1 + d + used)
    if fit.covariance is not None and fit.covariance.shape != size:
        raise ModelFileError(
            f"covariance: must have shape {size}, got {fit.covariance.shape}; save it again"
        )


def _parameters(model: AggregatedGLM) -> dict[str, Any]:
    """Return the parameters as JSON can hold them; a random generator is not kept."""
    found = dict(model.get_params())
    if not isinstance(found["init"], str):
        found["init"] = np.asarray(found["init"], dtype=np.float64).tolist()
    if not isinstance(found["random_state"], int | np.integer):
        found["random_state"] = None
    plain = {name: encode(value) for name, value in found.items()}
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in plain.items()}


def _model(parameters: Any) -> AggregatedGLM:
    model = AggregatedGLM()
    if not isinstance(parameters, dict) or set(parameters) != set(model.get_params()):
        raise ModelFileError("parameters: must be those of AggregatedGLM, got others")
    model.set_params(**parameters)
    model._check_parameters()
    return model


def _texts(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ModelFileError(f"{where}: must be texts by name; save the model again")
    return value


def _read_json(place: Path) -> Any:
    try:
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
        return json.loads(text, parse_constant=_refuse_constant)
    except ModelFileError as error:
        raise ModelFileError(f"{place.name}: {error}") from None
    except (ValueError, RecursionError) as error:
        what = "too deep a nesting" if isinstance(error, RecursionError) else str(error)
        raise ModelFileError(
            f"{place.name}: must be whole JSON, got {what[:80]}; is the file truncated?"
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"numbers must be finite, got {name}; save the model again")
