"""``unbin predict``: the mean outcome of new people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli import options
from unbin.cli.console import reported, say

if TYPE_CHECKING:
    from unbin.people.reading import People
    from unbin.results.persistence import Model, SavedModel

_DIGITS = 6
"""Significant digits of a prediction: more would claim a precision that no fit has."""
_NONE = "0"
"""What --offset says for nobody's."""


@reported
def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="model.json of 'unbin fit'.", show_default=False),
    ],
    people: options.PeopleArgument,
    block: options.BlockOption = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column of PEOPLE to repeat next to the predictions.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            help="Column of PEOPLE that is added to the linear predictor, as in the fit; 0 for "
            "none. A model that was fitted with an offset needs it."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write. Default: the terminal.")
    ] = None,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Predict the mean outcome of people, or how likely each category is.

    Takes a saved model and prints CSV, in the order of the people. For categories, the most
    likely one and the probability of each.

    Example: unbin predict results/model.json people.csv --output predictions.csv
    """
    from unbin._io import csv_text, write_texts
    from unbin.people.formulas import check_formulas
    from unbin.people.reading import read_people
    from unbin.release.join import distinct_names
    from unbin.results.persistence import read_model

    saved = read_model(model)
    encoding = saved.encoding
    if encoding is not None:
        check_formulas("model: its formula")
    ids = options.block_columns([] if block is None else [block])
    ids += [] if identifier is None else [identifier]
    known = _columns(saved)
    texts = [*ids, *_text_columns(saved)]
    shift = [] if offset in (None, _NONE) else [offset]
    rows = read_people(people, text=texts, columns=[*ids, *known, *shift])
    X = _features(saved, rows)
    blocks = None if block is None else options.block_ids(rows, block)
    if _has_context(saved.model) and blocks is None:
        say(
            "Warning: the model has contextual effects, and without --block everybody gets the "
            "average context",
            err=True,
        )
    columns: dict[str, Any] = {}
    if identifier is not None:
        columns[identifier] = rows.column(identifier)
    names = [*columns, *(found := _predictions(saved.model, X, blocks, _offset(rows, offset)))]
    values = [*columns.values(), *found.values()]
    text = csv_text(dict(zip(distinct_names(names), values, strict=True)))
    if output is None:
        say(text.removesuffix("\n"))
    else:
        write_texts({output: text})
        say(f"{len(rows):,} predictions written: {output}")


def _predictions(model: Model, X: Any, blocks: Any, offset: Any) -> dict[str, Any]:
    """Return the columns of predictions."""
    from unbin.classifier import AggregatedClassifier
    from unbin.exceptions import ParameterError

    if not isinstance(model, AggregatedClassifier):
        return {"prediction": _short(model.predict(X, blocks=blocks, offset=offset))}
    if offset is not None:
        raise ParameterError("--offset: is for outcomes that are numbers; leave it out")
    q = model.predict_proba(X, blocks=blocks)
    likely = {"prediction": model.classes_[q.argmax(axis=1)]}
    return likely | {f"p_{name}": _short(q[:, k]) for k, name in enumerate(model.classes_)}


def _short(values: Any) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _has_context(model: Model) -> bool:
    """Tell whether predictions depend on the block."""
    from unbin.classifier import AggregatedClassifier

    if isinstance(model, AggregatedClassifier):
        return model._binary is None and model._model.shift is not None
    return model.contextual_coef_ is not None


def _text_columns(saved: SavedModel) -> list[str]:
    """Return the columns of people that are categories."""
    if saved.encoding is not None:
        return sorted(saved.encoding.text_columns)
    coding = getattr(saved.model, "coding_", None)
    if coding is None:
        return []
    pairs = zip(coding.columns, coding.levels, strict=True)
    return [name for name, levels in pairs if levels is not None]


def _offset(rows: People, name: str | None) -> Any:
    """Return the offset of each row, a number for all of them, or None."""
    from unbin._frames import as_floats

    if name is None or name == _NONE:
        return None if name is None else 0.0
    return as_floats(rows.column(name), where=f"--offset {name}")


def _columns(saved: SavedModel) -> list[str]:
    """Return the columns of people that the model reads."""
    from unbin.exceptions import ModelFileError

    if saved.encoding is not None:
        return list(saved.encoding.formula.columns)
    coding = getattr(saved.model, "coding_", None)
    if coding is not None:
        return list(coding.columns)
    names = getattr(saved.model, "feature_names_in_", None)
    if names is None:
        raise ModelFileError(
            "model: must know the names of its features, got none; save it with encoding=..., or "
            "fit it to a frame"
        )
    return [str(name) for name in names]


def _features(saved: SavedModel, rows: People) -> Any:
    """Return the features as a frame with the names of the fit."""
    from unbin._frames import as_floats, to_frame
    from unbin.people.reading import with_numbers

    numbers = with_numbers(rows, set(_columns(saved)).difference(_text_columns(saved)))
    if hasattr(saved.model, "coding_") and saved.encoding is None:
        return to_frame({name: numbers[name] for name in _columns(saved)})
    if saved.encoding is None:
        columns = {name: as_floats(numbers[name], where=name) for name in _columns(saved)}
        return to_frame(columns)
    return saved.encoding.frame(saved.encoding.encode(numbers))
