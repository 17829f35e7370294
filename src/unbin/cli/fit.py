"""``unbin fit``: fit a model and leave a record of it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbin.cli import categories, options, standing
from unbin.cli.console import INTERRUPTED, progress, reported, say
from unbin.cli.inputs import Data, hashes, parse_alpha, read, tie, title_of
from unbin.cli.interrupts import chose_early, was_interrupted, watched
from unbin.cli.reading import NOTHING, Reading, describe, open_releases, with_reading
from unbin.cli.records import check_report, command_line, write

if TYPE_CHECKING:
    from unbin.estimator import AggregatedGLM
    from unbin.people.encoding import Encoding
    from unbin.release import AggregatedTarget
    from unbin.release.join import JoinedTarget

_CONTEXTUAL: dict[str, bool | str] = {"no": False, "yes": True, "auto": "auto"}


@reported
@with_reading()
def fit(
    people: options.PeopleArgument,
    release: options.ReleasesArgument,
    formula: Annotated[
        str,
        typer.Option(
            help="Features: columns, C(x), C(x, 'reference'), cut(x, 18, 65), I(x**2), log, exp, "
            "sqrt, center, scale, bs, ns, poly, + : * - 1.",
            show_default=False,
        ),
    ] = "",
    block: options.BlocksOption = None,
    cluster: options.ClusterOption = None,
    weights: standing.WeightsOption = None,
    weighting: standing.WeightingOption = "frequency",
    observed: standing.ObservedOption = None,
    disjoint: standing.DisjointOption = False,
    offset: Annotated[
        str | None,
        typer.Option(help="Column of PEOPLE that is added to the linear predictor."),
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            help="People who lack a value that the formula needs: error; drop, with the tables "
            "scaled to those who are left; mean, with a column that marks them."
        ),
    ] = "error",
    family: Annotated[
        str | None,
        typer.Option(
            help="gaussian, poisson, binomial, gamma, negative-binomial, beta-binomial, ordinal, "
            "or auto: chosen on held-out blocks. Default: auto; gaussian for matching and logs; "
            "multinomial for categories.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        str,
        typer.Option(
            help="Ridge: a number; auto, the evidence ridge for predictions; needed, the same only "
            "where the table says little about slopes; held-out, chosen on held-out blocks."
        ),
    ] = "needed",
    contextual: Annotated[
        str,
        typer.Option(
            help="Block means of the features as further columns: no, yes, auto; with several "
            "tables over the blocks of the first, or of the one whose --block is given here. For "
            "categories, the scale of their slopes: 0.25, or auto with several tables."
        ),
    ] = "no",
    random: categories.RandomOption = None,
    robust: Annotated[
        bool | None,
        typer.Option(
            help="Slopes from the levels of blocks alone, not the shape of histograms. Default: "
            "where tests call for it; the summary says so.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="likelihood, or matching (the paper's).")
    ] = "likelihood",
    n_trials: Annotated[int, typer.Option(help="Trials of a binomial outcome.")] = 1,
    target_transform: Annotated[
        str | None,
        typer.Option(help="log: a positive outcome whose log is gaussian, such as cost."),
    ] = None,
    lower: Annotated[
        float | None,
        typer.Option(help="Smallest value the outcome can have, in an ordinal fit: 0 for a cost."),
    ] = None,
    upper: Annotated[
        float | None, typer.Option(help="Largest value the outcome can have, in an ordinal fit.")
    ] = None,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Rescale counts whose totals differ from PEOPLE, and tables to the first one.",
        ),
    ] = False,
    on_missing: options.OnMissingOption = "error",
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Threads; the result does not depend on it. Default: all.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File for the coefficients so far; a fit that finds it resumes there."),
    ] = None,
    reading: Reading = NOTHING,
    public: options.PublicOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for model.json, coefficients.csv and report.html."),
    ] = None,
    block_table: categories.BlockTableOption = None,
    write_imputed: Annotated[
        bool,
        typer.Option(
            "--write-imputed", help="Also write imputed.csv: a value per person. Handle with care."
        ),
    ] = False,
    debug: options.DebugOption = False,  # noqa: ARG001 - read by reported()
) -> None:
    """Fit a model to people and a published table, or several tables of the same people.

    With several tables, give a --block for each, in their order. With --on-missing drop, people
    without a block are outside that table. Rows that stand for several people need --weights;
    people whose outcome is known (--observed) are subtracted from the tables, and both are fitted
    together. For a table of categories (votes, causes of death) the classifier is fitted; --random
    names the groups whose cells are estimated.

    Example: unbin fit people.csv release.csv --block county --formula "age + C(sex) + log(los)"
    --family auto --alpha auto --output results

    Example: unbin fit people.csv county.csv ages.csv --block county --block age_group,sex
    --formula "age + C(sex)"

    Example: unbin fit survey.csv county.csv --block county --weights w --weighting survey
    --observed income --formula "age + C(sex)"

    Example: unbin fit voters.csv votes.csv --block precinct --formula "race + age" --random race
    --contextual 0.25 --output results --block-table cells.csv
    """
    from unbin._checks import check_choice, check_share
    from unbin.analysis import MISSING
    from unbin.estimator import AggregatedGLM
    from unbin.exceptions import ParameterError
    from unbin.people.formulas import check_formulas, parse_formula

    if not formula:
        raise _no_formula(people, block)
    check_formulas("--formula")
    check_choice("--missing", missing, MISSING)
    if write_imputed and output is None:
        raise ParameterError("--write-imputed: needs a folder to write to, got none; add --output")
    check_share("--level", level)
    # everybody is in a table of one block
    blocks = options.check_blocks(block, len(release)) if block or len(release) > 1 else []
    parsed = parse_formula(formula)
    who = standing.Standing(weights, weighting, observed, disjoint)
    who.check({"--block": options.block_columns(blocks), "--formula": list(parsed.columns)})
    check_report(output)
    with progress("reading"):
        tables = open_releases(release, reading, public=public)
    nominal = any(table.categories for table in tables)
    asked = categories.Asked(family, alpha, contextual, random, block_table, jobs)
    asked.check(
        categories=nominal,
        of_numbers={
            "--method": method != "likelihood",
            "--offset": offset is not None,
            "--robust": robust is not None,
            "--n-trials": n_trials != 1,
            "--target-transform": target_transform is not None,
            "--lower": lower is not None,
            "--upper": upper is not None,
            "--checkpoint": checkpoint is not None,
            "--write-imputed": write_imputed,
        },
    )
    if not nominal:
        model = AggregatedGLM(
            family or ("gaussian" if method == "matching" or target_transform else "auto"),
            method,
            alpha=parse_alpha(alpha),
            contextual=_contextual(contextual, blocks),
            robust="auto" if robust is None else robust,
            n_trials=n_trials,
            target_transform=target_transform,
            lower=lower,
            upper=upper,
            fit_intercept=parsed.intercept,
            random_state=seed,
            n_jobs=jobs,
            checkpoint=checkpoint,
        )
    with progress("reading"):
        others = [*who.columns, *([] if offset is None else [offset])]
        data = read(people, formula, blocks, others, missing, cluster or ())
        target = tie(tables, data, blocks, who, scale=scale, on_missing=on_missing)
    above = {name: data.rows.column(name) for name in cluster or ()} or None
    for line in [*describe(tables, release), *standing.describe(target)]:
        say(line, err=True)
    if nominal:
        categories.run(asked, data, target, release, level, output, above, public=bool(public))
        return
    _fit(model, data, target, offset, above)
    shown = _summary(model, data.encoding, level)
    if output is None:
        say(shown)
        _exit_if_interrupted(model)
        return
    inputs = hashes(data.rows, release)
    texts = _record(model, data.encoding, level, inputs)
    if write_imputed:
        texts["imputed.csv"] = _imputed(model, target)
    say(f"{shown}\n\n{write(output, texts)}")
    _say_what_is_left_out(model, public=bool(public))
    _exit_if_interrupted(model)


def _say_what_is_left_out(model: AggregatedGLM, *, public: bool) -> None:
    from unbin.results.persistence import keeps_counts

    if any(fit.less_known for fit in model._fits):
        say(
            "report.html and model.json hold no counts: those less the people whose outcome is "
            "known would tell their outcomes.",
            err=True,
        )
    elif not keeps_counts(model):
        which = "tables are" if model.tables_ else "table is"
        why = f"; if the {which} public, say --public"
        if public:
            why = ": hidden counts of a table were narrowed by the others"
        say(
            f"Small counts are masked in report.html, and model.json holds no counts{why}.",
            err=True,
        )


def _contextual(text: str, blocks: list[str]) -> bool | str:
    """Return the estimator's parameter; one of several tables is named as its ``--block`` is."""
    from unbin._checks import check_choice

    tables = blocks if len(blocks) > 1 else []
    found = check_choice("--contextual", text, (*_CONTEXTUAL, *tables))
    return _CONTEXTUAL.get(found, ", ".join(found.split(",")))


def _no_formula(people: str, block: list[str] | None) -> Exception:
    """Return the error that offers the columns of people as features."""
    from unbin.exceptions import ParameterError
    from unbin.people.formulas import quote
    from unbin.people.reading import names_of
    from unbin.release.readers.sheets import listed

    names = names_of(people)
    taken = options.block_columns(block or [])
    free = [name for name in names if name not in taken]
    example = " + ".join(map(quote, free[:2])) or "age"
    return ParameterError(
        f"--formula: must name the features, got none; the columns of people are "
        f"{listed(list(names))}, write for example --formula '{example}'"
    )


def _fit(
    model: AggregatedGLM,
    data: Data,
    target: AggregatedTarget | JoinedTarget,
    offset: str | None,
    clusters: dict[str, Any] | None,
) -> None:
    """Fit, with a sign of life, and say on stderr how it went."""
    from unbin._compiling import COMPILING, telling
    from unbin._frames import as_floats

    shift = None
    if offset is not None:
        shift = as_floats(data.rows.column(offset), where=f"--offset {offset}")
    started = perf_counter()
    with progress("fitting") as show, telling(lambda: show(COMPILING)), watched(show):
        model.fit(data.encoding.frame(data.X), target, offset=shift, cluster=clusters)
    model.encoding_ = data.encoding
    ended = "stopped after" if was_interrupted(model) else "fitted in"
    say(
        f"{ended} {perf_counter() - started:.1f} s, {model.n_iter_} iterations, objective "
        f"{model.objective_:.5g}",
        err=True,
    )


def _exit_if_interrupted(model: AggregatedGLM) -> None:
    if was_interrupted(model):
        what = "the fit did not converge; its last iterate was kept"
        if chose_early(model):
            what = "not all candidates were compared; the best so far was fitted"
        say(f"Interrupted: {what}.", err=True)
        raise typer.Exit(INTERRUPTED)


def _summary(model: AggregatedGLM, encoding: Encoding, level: float) -> str:
    """Return what the terminal shows; matching has no errors to show."""
    if model.method != "matching":
        return str(model.summary(level))
    width = max(len(name) for name in ("intercept", *encoding.names))
    values = zip(("intercept", *encoding.names), (model.intercept_, *model.coef_), strict=True)
    return "\n".join(
        [
            f"{'':<{width}} {'coef':>12}",
            *(f"{name:<{width}} {value:>12.4f}" for name, value in values),
            f"Status: {model.status_.value}",
            "Matching mistakes noise for signal and has no standard errors; see "
            "--method likelihood.",
        ]
    )


def _record(
    model: AggregatedGLM, encoding: Encoding, level: float, inputs: dict[str, str]
) -> dict[str, str]:
    """Return the files of a fit by name."""
    from unbin._io import csv_text
    from unbin.results.persistence import model_text
    from unbin.results.report import render_report

    return {
        "model.json": model_text(model, encoding=encoding, inputs=inputs),
        "coefficients.csv": csv_text(_coefficients(model, encoding, level)),
        "report.html": render_report(
            model,
            title=title_of(list(inputs)),
            command=command_line(),
            inputs=inputs,
            encoding=encoding,
        ),
    }


def _coefficients(model: AggregatedGLM, encoding: Encoding, level: float) -> dict[str, Any]:
    """Return the terms with their errors, intervals, efficiency and verdicts, as columns."""
    import numpy as np

    if model.method == "matching":
        terms = ["intercept", *encoding.names]
        return {"term": terms, "estimate": np.array([model.intercept_, *model.coef_])}
    table = model.tidy(level=level, backend="pandas")
    return {name: table[name].to_numpy() for name in table.columns}


def _imputed(model: AggregatedGLM, target: AggregatedTarget | JoinedTarget) -> str:
    """Return a value per person beside the block, or the blocks in all tables."""
    from unbin._io import csv_text
    from unbin.release.join import JoinedTarget, distinct_names

    tables = target.tables if isinstance(target, JoinedTarget) else (target,)
    named = target.names if isinstance(target, JoinedTarget) else ("block",)
    names = distinct_names([*named, "imputed"])
    columns = [*(table.blocks for table in tables), model.impute()]
    return csv_text(dict(zip(names, columns, strict=True)))
