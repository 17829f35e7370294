"""What the walkthrough says beside its examples, which test_pages.py runs."""

import re
import warnings

import numpy as np
import pytest

from tests.helpers.documents import DOCS
from tests.helpers.slid import EDGES, earners, write_files
from unbin.people.encoding import Encoding

PAGE = DOCS / "howto" / "walkthrough.md"


def test_the_file_begins_as_shown(tmp_path):
    write_files(tmp_path)
    (first, *_) = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    text = (tmp_path / "wages_by_age.csv").read_text().replace('"', "")
    assert text.startswith(first)


def test_individual_data_say_what_the_page_quotes():
    ordered = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    people = earners()
    encoding, X = Encoding.build("ns(age, 3) + sex + education", people, missing="mean")
    bins = np.searchsorted(EDGES[1:-1], people["wages"], side="right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ordered.OrderedModel(bins, X, distr="logit").fit(method="bfgs", disp=0, maxiter=500)
    found = dict(zip(encoding.names, zip(fit.params, fit.bse, strict=False), strict=False))
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    (b, se), (male, male_se) = found["education"], found["sex[T.Male]"]
    assert f"gives {b:.3f} (standard error {se:.3f}) for a year of education" in text
    assert f"and {male:.3f} ({male_se:.3f}) for men" in text
