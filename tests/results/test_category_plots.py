"""The heat map shows the numbers of the table."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import unbin
from tests.helpers.precincts import PARTIES, RACES, published, voters
from unbin import plots
from unbin.exceptions import ParameterError

PEOPLE = voters()


@pytest.fixture(scope="module")
def model():
    return unbin.AggregatedClassifier(random=["race"]).fit(
        PEOPLE, {"precinct": published(PEOPLE)}, features=["race", "age"]
    )


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_shares_and_intervals_are_written_and_shaded(model):
    ax, found = plots.cells(model), model.group_table()
    ax.get_figure(root=True).canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(RACES)
    assert [label.get_text() for label in ax.get_xticklabels()] == list(PARTIES)
    rows = zip(found["share"], found["conf_low"], found["conf_high"], strict=True)
    expected = [
        text
        for share, low, high in rows
        for text in (f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}")
    ]
    assert texts(ax) == expected
    alphas = [each.get_alpha() for each in ax.patches if isinstance(each, Rectangle)][::2]
    np.testing.assert_allclose(alphas, found["share"] / 2)
    # narrower at a lower level
    assert texts(plots.cells(model, level=0.5))[1] != texts(ax)[1]


def test_the_largest_groups_and_no_small_ones(model):
    size = model.group_table().drop_duplicates("race").set_index("race")["people"]
    (name,) = [t.get_text() for t in plots.cells(model, most=1).get_yticklabels()]
    assert name == size.idxmax()
    few = plots.cells(model, smallest=int(size.min()) + 1)
    assert len(few.get_yticklabels()) == 2


def test_on_given_axes_with_names_as_they_are(model):
    people = PEOPLE.replace({"race": {"white": "$x_1$"}, "vote": {"dem": "$y$"}})
    odd = unbin.AggregatedClassifier(random=["race"]).fit(
        people, {"precinct": published(people)}, features=["race"]
    )
    given = Figure().add_subplot()
    ax = plots.cells(odd, "race", ax=given)
    assert ax is given
    ax.get_figure(root=True).canvas.draw()
    labels = [*ax.get_yticklabels(), *ax.get_xticklabels()]
    assert {"$x_1$", "$y$"} <= {label.get_text() for label in labels}
    assert not any(label.get_parse_math() for label in labels)


def test_what_it_needs(model):
    plain = unbin.AggregatedClassifier().fit(
        PEOPLE, {"precinct": published(PEOPLE)}, features=["race"]
    )
    with pytest.raises(ParameterError, match="cells: cells are estimated where effects follow"):
        plots.cells(plain)
    with pytest.raises(ParameterError, match="by: must be features that effects follow, 'race'"):
        plots.cells(model, by="age")
    with pytest.raises(ParameterError, match="model: must be of class AggregatedClassifier"):
        plots.cells(unbin.AggregatedGLM())
