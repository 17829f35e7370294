"""Pictures of a fit (matplotlib): draw on ``ax``, or on a new figure, and return the Axes.

No picture touches the state of ``matplotlib.pyplot``; ``ax.figure.savefig("fit.svg")`` writes one.
Names of features and blocks are shown as they are: "$x$" is no formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import MaxNLocator
from sklearn.utils.validation import check_is_fitted

from unbin._checks import check_choice, check_flag, check_kind, check_share, check_whole
from unbin._frames import as_finite, as_floats, refuse_masked
from unbin._typing import ArrayLike, BoolArray, FloatArray, IntArray
from unbin.estimator import AggregatedGLM
from unbin.exceptions import ParameterError
from unbin.fitting.inputs import feature_names
from unbin.likelihood.published import Published
from unbin.permutation import NAMES, PermutationTest
from unbin.results.release_plot import release as release
from unbin.results.tables import shares_by_table, tables_of

BLUE, ORANGE, GREY = "#2166ac", "#d95f02", "#767676"
_PALE = "#a6c4e0"
_OF_TABLES = (BLUE, "#e69f00", "#1b9e77", "#7b5ea7", "#56b4e9", "#a6761d", "#d7498a", "#bdbdbd")
"""A colour per table, the last for all others together."""
_LONGEST = 24
"""Characters of a name that a picture has room for."""
_ROOM = 28
"""Characters of tick labels that fit below a small panel."""
_WIDE = 50
"""From this ratio on an objective is drawn on a log scale."""
_MOST_BLOCKS = 12
_FIFTHS = np.linspace(0, 1, 6)


def coefficients(
    model: AggregatedGLM,
    oracle: AggregatedGLM | ArrayLike | None = None,
    *,
    level: float = 0.95,
    most: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coefficients with their intervals, beside the oracle's where it is known.

    Parameters
    ----------
    model : AggregatedGLM
    oracle : AggregatedGLM or (d,), optional
        The same model fitted to individual targets, or its coefficients.
    level : float
        Coverage of the intervals; matching has none.
    most : int
        Of more coefficients, the largest in units of their standard errors are drawn.
    """
    estimate, error = _estimates(model)
    chosen = _clearest(estimate, error, most)
    place: FloatArray = np.arange(len(chosen), dtype=np.float64)
    ax = _axes(ax, height=0.9 + 0.3 * len(chosen))
    ax.axvline(0, color=GREY, linewidth=0.8)
    check_share("level", level)
    shift, width = 0.0 if oracle is None else 0.14, _reach(model, level)
    _dots(ax, estimate[chosen], place - shift, width if width is None else width[chosen],
          BLUE, "o", "this fit")  # fmt: skip
    if oracle is not None:
        seen, width = _oracle(oracle, len(estimate), level)
        width = None if width is None else width[chosen]
        _dots(ax, seen[chosen], place + shift, width, ORANGE, "D", "oracle")
        _legend_above(ax)
    _name_rows(ax, model, chosen)
    text = "coefficient" if error is None else f"coefficient, with {100 * level:g} % interval"
    ax.set_xlabel(text)
    return ax


def information(model: AggregatedGLM, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw the share of each of several tables in the information on each coefficient.

    Of more than eight tables those that told least are drawn as one.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted to several tables of the same people.
    most : int
        As for :func:`coefficients`.
    """
    found = shares_by_table(_one(model))
    if found is None:
        raise ParameterError(
            "information: needs a fit to several tables of the same people, got a fit to one; see "
            "unbin.join"
        )
    names, share = found
    chosen = _clearest(*_estimates(model), most)
    part = np.nan_to_num(share[:, chosen])
    n_rows = -(-len(names) // 2)  # of the legend
    ax = _axes(ax, height=1.1 + 0.3 * len(chosen) + 0.22 * n_rows)
    left = np.cumsum(part, axis=0) - part
    bars = [
        ax.barh(np.arange(len(chosen)), width, 0.72, start, color=colour, edgecolor="white")
        for width, start, colour in zip(part, left, _OF_TABLES, strict=False)
    ]
    _name_rows(ax, model, chosen)
    ax.set_xlim(0, 1)
    ax.set_xticks(_FIFTHS, [f"{100 * end:.0f} %" for end in _FIFTHS])
    ax.set_xlabel("share in the information on the coefficient")
    keys = ax.legend(bars, [str(k) for k in range(len(bars))], loc="lower right",
                     bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=9)  # fmt: skip
    _name_keys(keys, names)
    return ax


def histogram(
    model: AggregatedGLM,
    block: str | None = None,
    *,
    table: str | None = None,
    fitted: bool = True,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the published histogram of a block, and the fitted one.

    A count that was suppressed or rounded has a line over the interval it lies in.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood to a release with counts.
    block : str, optional
        All blocks together when left out, which needs the same bins in each.
    table : str, optional
        One of the tables of a fit to several; the first when left out.
    fitted : bool
        Whether to mark what the fit expects.
    smallest : int
        Counts of fewer people are masked, with enough others that they cannot be worked out.
    """
    counts = published(model, table)
    if block is None:
        counts = counts.together()
    b = 0 if block is None else _place(counts, block)
    mask = _masked(counts, smallest)[b]
    ax = _axes(ax, width=3.2, height=2.4)
    _draw_block(ax, counts, b, mask, fitted=fitted)
    return ax


def histograms(
    model: AggregatedGLM,
    blocks: Iterable[str] | None = None,
    *,
    table: str | None = None,
    fitted: bool = True,
    smallest: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the published and fitted histograms of several blocks, one small panel each.

    Parameters
    ----------
    model : AggregatedGLM
        Fitted by likelihood to a release with counts.
    blocks : iterable of str, optional
        The twelve that fit worst, worst first, when left out.
    table, fitted, smallest
        As for :func:`histogram`.

    Returns
    -------
    Axes
        Its ``child_axes`` are the panels, in the order of ``blocks``.
    """
    counts = published(model, table)
    if blocks is not None and (isinstance(blocks, str) or not isinstance(blocks, Iterable)):
        blocks = [blocks]
    places = counts.worst_first()[:_MOST_BLOCKS]
    if blocks is not None:
        places = np.array([_place(counts, block) for block in blocks], dtype=np.int64)
    if len(places) == 0:
        raise ParameterError("blocks: names none, got an empty list; name some, or leave it out")
    columns = min(4, len(places))
    rows = -(-len(places) // columns)
    ax = _axes(ax, width=2.4 * columns, height=2.1 * rows)
    ax.set_axis_off()
    mask = _masked(counts, smallest)
    for k, b in enumerate(places):
        left, bottom = k % columns / columns, 1 - (k // columns + 1) / rows
        bounds = (left + 0.16 / columns, bottom + 0.2 / rows, 0.8 / columns, 0.62 / rows)
        _draw_block(ax.inset_axes(bounds), counts, int(b), mask[b], fitted=fitted)
    return ax


def recovered(z: ArrayLike, y: ArrayLike, edges: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the histogram of recovered targets beside that of the true ones (the paper's Fig. 6).

    Parameters
    ----------
    z : (n,)
        Recovered targets: means from ``predict``, or ``impute``.
    y : (m,)
        True targets.
    edges : (K + 1,)
        Increasing; -inf and inf are open. A bin holds its upper edge.
    """
    ends = as_floats(edges, where="edges")
    if ends.ndim != 1 or len(ends) < 2 or not (np.diff(ends) > 0).all():
        raise ParameterError(
            f"edges: must increase, at least two of them, got {ends.tolist()}; sort them"
        )
    ax = _axes(ax, height=3.0)
    place = np.arange(len(ends) - 1)
    for values, name, shift, colour in ((y, "true", -0.2, _PALE), (z, "recovered", 0.2, BLUE)):
        count = _count(as_finite(values, where=name), ends)
        ax.bar(place + shift, count, 0.4, color=colour, label=name)
    _edge_ticks(ax, ends[:-1], ends[1:], room=3 * _ROOM)
    ax.set_ylabel("people")
    _legend_above(ax)
    return ax


def objective_path(model: AggregatedGLM, *, ax: Axes | None = None) -> Axes:
    """Draw the progress of the solver.

    Matching and observed targets: the objective. Likelihood: the squared distance to the solution
    in standard errors.
    """
    path = np.asarray(_one(model).objective_path_, dtype=np.float64)
    likelihood = model.method_ == "likelihood"
    ax = _axes(ax, width=4.5, height=2.6)
    ax.plot(np.arange(len(path)), path, "o-", color=BLUE, markersize=4, linewidth=1.2)
    ax.set_xlabel("pass over the people" if likelihood else "iteration")
    ax.set_ylabel("squared distance to\nthe solution (SE)" if likelihood else "objective")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(path) == 0:
        ax.text(0.5, 0.5, "no path was kept", transform=ax.transAxes, ha="center")
    elif likelihood or path.max() > _WIDE * np.abs(path).min() > 0:
        ax.set_yscale("log")
    return ax


def permutation(test: PermutationTest, *, ax: Axes | None = None) -> Axes:
    """Draw what permutations give, and what was seen (the paper's Fig. 1)."""
    check_kind("test", test, PermutationTest, instead="what unbin.permutation_test returned")
    ax = _axes(ax, width=4.5, height=2.8)
    bins = int(np.clip(np.sqrt(len(test.null)), 5, 40))
    ax.hist(test.null, bins=bins, color=_PALE, label=f"{len(test.null):,} permutations")
    ax.axvline(test.statistic, color=ORANGE, linewidth=2, label=f"seen (p = {test.p_value:.3g})")
    ax.set_xlabel(NAMES[test.kind])
    ax.set_ylabel("permutations")
    _legend_above(ax)
    return ax


def errors_by_bins(
    bins: ArrayLike, errors: Mapping[str, ArrayLike], *, ax: Axes | None = None
) -> Axes:
    """Draw errors against the number of bins that were published (the paper's Figs. 2 to 5).

    Parameters
    ----------
    bins : (K,)
    errors : mapping of name to (K,) or (R, K)
        One line each; of R repeats the mean, with a band of two standard errors each way.
    """
    x = as_finite(bins, where="bins", error=ParameterError)
    if not isinstance(errors, Mapping):
        raise ParameterError(
            f"errors: must be a mapping, got {type(errors).__name__}; pass errors by name"
        )
    ax = _axes(ax, width=5.0, height=3.2)
    markers = "osD^vP"
    lines = []
    for k, (name, values) in enumerate(errors.items()):
        table = _errors(name, values, len(x))
        mean = table.mean(axis=0)
        lines += ax.plot(x, mean, marker=markers[k % len(markers)], markersize=5, linewidth=1.4)
        if len(table) > 1:
            reach = 2 * table.std(axis=0, ddof=1) / np.sqrt(len(table))
            ax.fill_between(x, mean - reach, mean + reach, alpha=0.2, linewidth=0)
    legend = ax.legend(lines, [str(k) for k in range(len(lines))], frameon=False)
    _name_keys(legend, errors, 40)
    ax.set_xlabel("bins published")
    ax.set_ylabel("error")
    ax.set_ylim(bottom=0)
    ax.set_xticks(x, [_amount(value) for value in x])
    return ax


def published(model: AggregatedGLM, table: str | None = None) -> Published:
    """Return the counts that a model was fitted to, or say why there are none.

    ``table`` is one of the tables of a fit to several, the first when left out.
    """
    found = _one(model).published_
    if table is not None:
        by_name = {each.name: each.published for each in tables_of(model)}
        if not by_name:
            raise ParameterError(
                f"table: the model was fitted to one table, got {table!r}; leave it out"
            )
        found = by_name[check_choice("table", table, tuple(by_name))]
    if not isinstance(found, Published):
        raise ParameterError(
            f"histograms: need a likelihood fit to published counts, got a fit by "
            f"{model.method_!r}; fit method='likelihood' to a release with a histogram, or "
            "save it with public=True, where a saved model has lost its counts"
        )
    return found


def shorten(name: str, longest: int = _LONGEST) -> str:
    """Return a name on one line, cut where it is too long for a picture."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


# -- what is drawn ---------------------------------------------------------------------------------


def _one(model: AggregatedGLM) -> AggregatedGLM:
    check_kind("model", model, AggregatedGLM, instead="a fitted model")
    check_is_fitted(model)
    if np.ndim(model.coef_) > 1:
        raise ParameterError("plots: need a model of one target, got several; fit them one by one")
    return model


def _estimates(model: AggregatedGLM) -> tuple[FloatArray, FloatArray | None]:
    """Return coefficients and, where the method has them, standard errors."""
    coef = np.asarray(_one(model).coef_)
    return coef, None if model.method_ == "matching" else model.standard_errors_


def _clearest(estimate: FloatArray, error: FloatArray | None, most: int) -> IntArray:
    """Return the places of the coefficients that are largest in units of their errors, sorted."""
    size = np.abs(estimate) if error is None else np.abs(estimate) / np.maximum(error, 1e-300)
    return np.sort(np.argsort(-size, kind="stable")[: check_whole("most", most, low=1)])


def _reach(model: AggregatedGLM, level: float) -> FloatArray | None:
    """Return how far intervals reach to either side, where the method has them."""
    if model.method_ == "matching":
        return None
    low, high = model.conf_int(level).T
    return np.asarray((high - low) / 2)


def _oracle(
    oracle: AggregatedGLM | ArrayLike, d: int, level: float
) -> tuple[FloatArray, FloatArray | None]:
    """Return coefficients, and how far their intervals reach."""
    if isinstance(oracle, AggregatedGLM):
        coef, reach = np.asarray(_one(oracle).coef_), _reach(oracle, level)
    else:
        coef, reach = as_finite(oracle, where="oracle", error=ParameterError), None
    if coef.shape != (d,):
        raise ParameterError(
            f"oracle: must have the {d} coefficients of the model, got shape {coef.shape}"
        )
    return coef, reach


def _masked(table: Published, smallest: int) -> BoolArray:
    return table.masked(check_whole("smallest", smallest, low=0))


def _errors(name: str, values: ArrayLike, n_bins: int) -> FloatArray:
    """Return errors as a table, a row per repeat."""
    try:
        table = np.atleast_2d(np.asarray(refuse_masked(values, where=name), dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        table = np.empty((0, 0))
    if table.shape[1:] != (n_bins,) or np.isinf(table).any():
        raise ParameterError(
            f"errors: {name!r} must hold one error for each of the {n_bins} bins, got "
            f"{type(values).__name__} of others; pass (bins,) or (repeats, bins)"
        )
    return table


def _place(table: Published, block: str) -> int:
    found = np.flatnonzero(table.blocks == str(block))
    if len(found) == 0:
        raise ParameterError(
            f"block: no counts were published for {str(block)!r}; name one of "
            f"{', '.join(repr(str(name)) for name in table.blocks[:3])}, …"
        )
    return int(found[0])


def _count(values: FloatArray, ends: FloatArray) -> IntArray:
    """Count values in (lower, upper]; the first bin holds its lower end too."""
    place = np.searchsorted(ends, values, side="left") - 1
    place[values == ends[0]] = 0
    inside = (place >= 0) & (place < len(ends) - 1)
    return np.bincount(place[inside], minlength=len(ends) - 1)


# -- how it is drawn -------------------------------------------------------------------------------


def _axes(ax: Axes | None, *, width: float = 6.4, height: float = 3.6) -> Axes:
    if ax is not None:
        check_kind("ax", ax, Axes, instead="axes of matplotlib, or None")
    else:
        ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _dots(
    ax: Axes,
    x: FloatArray,
    y: FloatArray,
    reach: FloatArray | None,
    colour: str,
    marker: str,
    label: str,
) -> None:
    ax.errorbar(x, y, xerr=reach, fmt=marker, color=colour, markersize=5, linewidth=1.6,
                label=label)  # fmt: skip


def _draw_block(ax: Axes, table: Published, b: int, mask: BoolArray, *, fitted: bool) -> None:
    """Draw bars for published counts, with intervals, hatches for masked and points for fitted."""
    check_flag("fitted", fitted)
    valid = table.valid()[b]
    shown = np.flatnonzero(valid & ~mask)
    masked = np.flatnonzero(valid & mask)
    count, expected = table.count[b], table.expected[b]
    ax.bar(shown, count[shown], 0.94, color=_PALE, label="published")
    top = max(count[shown].max(initial=0.0), fitted * expected[shown].max(initial=0.0), 1.0)
    ax.bar(masked, 0.12 * top, 0.94, color="none", edgecolor=GREY, hatch="////", linewidth=0,
           label="masked")  # fmt: skip
    low, high = (ends[b] for ends in table.interval())
    rough = shown[low[shown] < high[shown]]
    if len(rough):
        ax.vlines(rough, low[rough], high[rough], color=GREY, linewidth=1)
        top = max(top, high[rough].max())
    if fitted:
        ax.plot(shown, expected[shown], "o", color=BLUE, markersize=4.5, label="fitted")
    ax.set_ylim(0, 1.08 * top)
    (_whole_ticks if table.whole else _edge_ticks)(ax, *table.ends(b))
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    title = f"{shorten(str(table.blocks[b]), 20)} ({table.n[b]:,})"
    ax.set_title(title, fontsize=9, parse_math=False)


def _name_rows(ax: Axes, model: AggregatedGLM, chosen: IntArray) -> None:
    """Write the names of some coefficients beside their rows, the first on top."""
    names = feature_names(model)
    ax.set_yticks(np.arange(len(chosen)), [shorten(names[j]) for j in chosen], parse_math=False)
    ax.set_ylim(len(chosen) - 0.5, -0.5)


def _name_keys(legend: Legend, names: Iterable[str], longest: int = _LONGEST) -> None:
    """Write names into a legend as they are."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.update({"parse_math": False, "text": shorten(name, longest)})


def _legend_above(ax: Axes) -> None:
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def _edge_ticks(ax: Axes, lower: FloatArray, upper: FloatArray, room: int = _ROOM) -> None:
    """Name the finite edges between bars of equal width, as many as there is room for."""
    ends = np.concatenate([lower, upper[-1:]])
    finite = np.flatnonzero(np.isfinite(ends))
    _ticks(
        ax, np.asarray(finite - 0.5, dtype=np.float64), [_amount(end) for end in ends[finite]], room
    )
    ax.set_xlim(-0.6, len(lower) - 0.4)


def _whole_ticks(ax: Axes, lower: FloatArray, upper: FloatArray) -> None:
    """Name the whole numbers that each bar holds."""
    labels = [_whole(low, high) for low, high in zip(lower, upper, strict=True)]
    _ticks(ax, np.arange(len(lower)), labels, _ROOM)
    ax.set_xlim(-0.6, len(lower) - 0.4)


def _ticks(ax: Axes, place: FloatArray | IntArray, labels: list[str], room: int) -> None:
    step = max(1, -(-sum(len(label) + 1 for label in labels) // room))
    ax.set_xticks(place[::step], labels[::step])


def _whole(low: float, high: float) -> str:
    if low == high:
        return _amount(low)
    if np.isinf(high):
        return f"{_amount(low)}+"
    return f"≤{_amount(high)}" if np.isinf(low) else f"{_amount(low)}–{_amount(high)}"


def _amount(value: float) -> str:
    """Return a number as short as three digits allow: 0.25, 950, 12.5k."""
    for least, unit, name in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.3g}{name}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
