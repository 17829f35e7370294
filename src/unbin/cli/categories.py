"""``unbin fit`` of a table of categories: the classifier, and cells of groups and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli.console import progress, say
from unbin.cli.inputs import Data, hashes, parse_alpha, title_of
from unbin.cli.records import command_line, write

if TYPE_CHECKING:
    from unbin.classifier import AggregatedClassifier
    from unbin.release import AggregatedTarget
    from unbin.release.join import JoinedTarget

RandomOption = Annotated[
    list[str] | None,
    typer.Option(
        help="For categories: column of the formula whose levels are groups, with effects of their "
        "own in every block and estimated cells; repeat for a further column."
    ),
]
BlockTableOption = Annotated[
    Path | None,
    typer.Option(
        help="For categories, with --random: file for the people of every block by group and "
        "category, with intervals. Handle with care where groups are small."
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Options that categories have, or share with numbers."""

    family: str | None
    alpha: str
    contextual: str
    random: list[str] | None
    block_table: Path | None
    jobs: int | None

    def check(self, *, categories: bool, of_numbers: Mapping[str, bool]) -> None:
        """Raise where an option was given that the tables have no use for.

        Parameters
        ----------
        categories : bool
            Whether the tables hold categories.
        of_numbers : mapping of str to bool
            Options of numbers alone, and whether each was given.
        """
        from unbin._checks import check_choice
        from unbin.exceptions import ParameterError
        from unbin.families import MULTINOMIAL

        own = {"--random": self.random, "--block-table": self.block_table}
        if not categories:
            given = next((name for name, value in own.items() if value), None)
            if given is not None:
                raise ParameterError(
                    f"{given}: is for tables of categories, got numbers; leave it out"
                )
            return
        given = next((name for name, is_given in of_numbers.items() if is_given), None)
        if given is not None:
            raise ParameterError(
                f"{given}: is for outcomes that are numbers, got a table of categories; leave it "
                "out"
            )
        check_choice("--family", self.family or "auto", ("auto", MULTINOMIAL))
        if self.block_table is not None and not self.random:
            raise ParameterError(
                "--block-table: cells are of groups, got none; name them with --random"
            )
        self.model(fit_intercept=True)

    def model(self, *, fit_intercept: bool) -> AggregatedClassifier:
        """Return the classifier that was asked for, not fitted."""
        from unbin.classifier import AggregatedClassifier
        from unbin.exceptions import ParameterError

        if self.alpha == "held-out":
            raise ParameterError(
                "--alpha: held-out is for outcomes that are numbers, got a table of categories; "
                "use auto, needed or a number"
            )
        return AggregatedClassifier(
            parse_alpha(self.alpha),
            random=self.random or None,
            contextual=_scale(self.contextual),
            fit_intercept=fit_intercept,
            n_jobs=self.jobs,
        )


def _scale(text: str) -> float | str:
    """Return the scale of contextual slopes."""
    from unbin.exceptions import ParameterError

    if text in ("no", "auto"):
        return 0.0 if text == "no" else text
    try:
        return float(text)
    except ValueError:
        raise ParameterError(
            f"--contextual: of categories must be the scale of contextual slopes, no or auto, got "
            f"{text!r}; write for example 0.25"
        ) from None


def run(
    asked: Asked,
    data: Data,
    target: AggregatedTarget | JoinedTarget,
    releases: list[str],
    level: float,
    output: Path | None,
    clusters: dict[str, Any] | None,
    *,
    public: bool,
) -> None:
    """Fit the classifier, show it, and leave a record."""
    from unbin._io import csv_text, write_texts

    model = asked.model(fit_intercept=data.encoding.formula.intercept)
    _fit(model, data, target, clusters)
    parts = [str(model.summary(level))]
    if output is not None:
        parts.append(write(output, _record(model, level, hashes(data.rows, releases))))
    if asked.block_table is not None:
        cells = model.block_table(level=level, backend="pandas")
        write_texts({asked.block_table: csv_text(_columns(cells))})
        parts.append(f"cells of {model.n_blocks_:,} blocks written: {asked.block_table}")
    say("\n\n".join(parts))
    if output is not None:
        _say_what_is_left_out(model, public=public)


def _fit(
    model: AggregatedClassifier,
    data: Data,
    target: AggregatedTarget | JoinedTarget,
    clusters: dict[str, Any] | None,
) -> None:
    from unbin._compiling import COMPILING, telling
    from unbin.fitting.placement import Given

    started = perf_counter()
    with progress("fitting") as show, telling(lambda: show(COMPILING)):
        given = Given(cluster=clusters)
        model._fit(data.encoding.frame(data.X), target, given, data.encoding)
    say(f"fitted in {perf_counter() - started:.1f} s, {model.n_iter_} iterations", err=True)


def _record(model: AggregatedClassifier, level: float, inputs: dict[str, str]) -> dict[str, str]:
    """Return the files of a fit by name."""
    from unbin._io import csv_text
    from unbin.results.persistence import model_text
    from unbin.results.report import render_report

    texts = {
        "model.json": model_text(model, inputs=inputs),
        "coefficients.csv": csv_text(_columns(model.tidy(level=level, backend="pandas"))),
        "report.html": render_report(
            model, title=title_of(list(inputs)), command=command_line(), inputs=inputs
        ),
    }
    if model.random is not None:
        groups = model.group_table(level=level, backend="pandas")
        texts["groups.csv"] = csv_text(_columns(groups))
    return texts


def _columns(frame: Any) -> dict[str, Any]:
    return {name: frame[name].to_numpy() for name in frame.columns}


def _say_what_is_left_out(model: AggregatedClassifier, *, public: bool) -> None:
    from unbin.results.persistence import keeps_counts

    if keeps_counts(model):
        return
    left_out = "report.html and model.json hold no small counts, and no cells of single blocks"
    say(f"{left_out}{'' if public else '; if the table is public, say --public'}.", err=True)
