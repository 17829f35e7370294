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
from sklearn.utils.validation import check_is_fitted

from unbin import __version__
from unbin._checks import check_kind, check_path, check_texts
from unbin._io import not_a_file, write_texts
from unbin.classifier import AggregatedClassifier
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ModelFileError, UnbinError
from unbin.people.encoding import Encoding
from unbin.results.codec import decode
from unbin.results.saved_classifier import classifier_data, keeps_cells, restore_classifier
from unbin.results.saved_glm import KEYS as GLM_KEYS
from unbin.results.saved_glm import glm_data, keeps_all, restore_glm

Model = AggregatedGLM | AggregatedClassifier

FORMAT = "unbin model"
FORMAT_VERSION = 7
MAX_BYTES = 256 * 2**20
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "formulaic")
_SHARED = {
    "format", "format_version", "created", "versions", "inputs", "features", "n_features",
    "encoding",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of characters, which names of files and columns may hold and UTF-8 has not."""


@dataclass(frozen=True, slots=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    model : AggregatedGLM or AggregatedClassifier
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

    model: Model
    encoding: Encoding | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""


def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    inputs: dict[str, str] | None = None,
    public: bool | None = None,
) -> None:
    """Write a fitted model to a JSON file; imputed targets are personal and are left out.

    So are published counts where a report would mask some of them, or where people whose outcome is
    known were taken out of them: the loaded model predicts as before, but its ``published_`` is
    None. Cells of single blocks, which a classifier estimates, are kept only for public tables.

    Parameters
    ----------
    model : AggregatedGLM or AggregatedClassifier
    path : str or path
        Written whole or not at all.
    encoding : Encoding, optional
        How columns became X, so that new people can be encoded in the same way; that of a model
        from ``unbin.glm`` is saved in any case.
    inputs : dict, optional
        SHA-256 of the input files, by name.
    public : bool, optional
        Whether everybody has the table already: then its counts are kept. When left out, as the
        release says (``release.public``).

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> unbin.save(model, "model.json")
    >>> bool((unbin.load("model.json").coef_ == model.coef_).all())
    True
    """
    place = check_path("path", path)
    write_texts({place: model_text(model, encoding=encoding, inputs=inputs, public=public)})


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model that :func:`save` (or ``unbin fit``) wrote; it predicts as it did.

    Parameters
    ----------
    path : str or path

    Examples
    --------
    >>> import unbin
    >>> people = unbin.datasets.simulate(2000, 2, 40)
    >>> release = unbin.aggregate(people.y, people.blocks, bins=5)
    >>> model = unbin.AggregatedGLM().fit(people.X, release.align(people.blocks))
    >>> unbin.save(model, "model.json")
    >>> unbin.load("model.json").predict([[0.0, 1.0]]).round(1).tolist()
    [1.0]
    """
    return read_model(path).model


def model_text(
    model: Model,
    *,
    encoding: Encoding | None = None,
    inputs: dict[str, str] | None = None,
    public: bool | None = None,
) -> str:
    """Return the text of a model file; the parameters are those of :func:`save`."""
    if not isinstance(model, AggregatedClassifier):
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
        "features": None if names is None else [str(name) for name in names],
        "n_features": int(model.n_features_in_),
        "encoding": None if encoding is None else encoding.to_json(),
    }
    if isinstance(model, AggregatedGLM):
        data |= glm_data(model, public)
    else:
        data["classifier"] = classifier_data(model, public)
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in data.items()
    )
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def keeps_counts(model: Model, public: bool | None = None) -> bool:
    """Return whether a saved model holds all published counts of the fitted one."""
    check_is_fitted(model)
    if isinstance(model, AggregatedClassifier):
        return keeps_cells(model, public)
    return keeps_all(model, public)


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
    keys = _SHARED | ({"classifier"} if "classifier" in data else GLM_KEYS)
    if set(data) != keys:
        odd = ", ".join(sorted(set(data) ^ keys))
        raise ModelFileError(f"fields: must be those of a model, got a difference in {odd}")
    d = decode(int, data["n_features"], "n_features")
    model: Model
    if "classifier" in data:
        model = restore_classifier(data["classifier"], d)
    else:
        model = restore_glm(data, d)
    encoding = None if data["encoding"] is None else Encoding.from_json(data["encoding"])
    names = decode(tuple[str, ...] | None, data["features"], "features")
    if names is not None:
        if len(names) != d:
            raise ModelFileError(f"features: must be {d} names, got {len(names)}; save it again")
        model.feature_names_in_ = np.array(names, dtype=object)
        if isinstance(model, AggregatedClassifier) and model._binary is not None:
            model._binary.feature_names_in_ = model.feature_names_in_
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
