"""``unbin predict``: the mean outcome of new people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli import options
from unbin.cli.console import reported, say

if TYPE_CHECKING:
    from unbin.people.reading import People
    from unbin.results.persistence import SavedModel

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
        str | None, typer.Option("--id", help="Column of PEOPLE to repeat beside the predictions.")
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
    """Predict the mean outcome of people.

    Takes a saved model and prints CSV, in the order of the people.

    Example: unbin predict results/model.json people.csv --output predictions.csv
    """
    from unbin._io import csv_text, write_texts
    from unbin.people.formulas import check_formulas
    from unbin.people.reading import read_people
    from unbin.results.persistence import read_model

    saved = read_model(model)
    encoding = saved.encoding
    if encoding is not None:
        check_formulas("model: its formula")
    ids = options.block_columns([] if block is None else [block])
    ids += [] if identifier is None else [identifier]
    known = _columns(saved)
    texts = ids if encoding is None else [*ids, *encoding.text_columns]
    shift = [] if offset in (None, _NONE) else [offset]
    rows = read_people(people, text=texts, columns=[*ids, *known, *shift])
    X = _features(saved, rows)
    blocks = None if block is None else options.block_ids(rows, block)
    if saved.model.contextual_coef_ is not None and blocks is None:
        say(
            "Warning: the model has contextual effects, and without --block everybody gets the "
            "average context",
            err=True,
        )
    columns: dict[str, Any] = {}
    if identifier is not None:
        columns[identifier] = rows.column(identifier)
    means = saved.model.predict(X, blocks=blocks, offset=_offset(rows, offset))
    columns["prediction"] = [float(f"{mean:.{_DIGITS}g}") for mean in means]
    text = csv_text(columns)
    if output is None:
        say(text.removesuffix("\n"))
    else:
        write_texts({output: text})
        say(f"{len(rows):,} predictions written: {output}")


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

    texts = () if saved.encoding is None else saved.encoding.text_columns
    numbers = with_numbers(rows, set(_columns(saved)).difference(texts))
    if saved.encoding is None:
        columns = {name: as_floats(numbers[name], where=name) for name in _columns(saved)}
        return to_frame(columns)
    return saved.encoding.frame(saved.encoding.encode(numbers))
