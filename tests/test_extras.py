"""What a plain install can do, and what is said where a package of an extra is missing."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import unbin
from tests.helpers.cli import run
from tests.helpers.processes import run_python
from unbin.exceptions import MissingPackageError
from unbin.people.encoding import Encoding

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PEOPLE = {"age": np.arange(8.0), "sex": ["f", "m"] * 4}

HIDE = """
import sys
class Hidden:  # an import system without some packages
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *further):
        hidden = name.split(".")[0] in {hidden!r}
        return None if hidden else self.finder.find_spec(name, *further)
sys.meta_path[:] = [Hidden(finder) for finder in sys.meta_path]
"""
PLAIN = """
import numpy as np, unbin
from unbin import *
county = np.repeat(np.arange(40), 25)
X = np.random.default_rng(0).normal(size=(1000, 2)) + 0.1 * (county % 7)[:, None]
release = unbin.aggregate(X @ [1.0, -0.5], county, bins=4)
model = unbin.AggregatedGLM(family="gaussian").fit(X, release.align(county))
model.summary(), model._repr_html_(), model.wald_test("x0")
path = {path!r}
unbin.save(model, path)
assert unbin.load(path).predict(X[:2]).tolist() == model.predict(X[:2]).tolist()
print(unbin.read_release({table!r}).n.sum(), hasattr(unbin.report, "write_report"))
"""


@pytest.fixture
def without(monkeypatch):
    """Return what makes a package absent."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


def needs(name, package, extra):
    return f"{name}: needs {package}, got none; pip install 'unbin[{extra}]'"


def test_a_plain_install_fits_reads_and_saves(tmp_path):
    hidden = {re.split(r"[>\[]", each)[0] for name in EXTRAS for each in EXTRAS[name]}
    hidden = {"calamine" if "calamine" in name else name for name in hidden}
    hidden = hidden.union({"pandas", "pyarrow", "distributed"}) - {"unbin", "psutil"}
    assert {"formulaic", "matplotlib", "polars"} < hidden
    table = str(ROOT / "tests" / "fixtures" / "wonder_ages.txt")
    code = PLAIN.format(path=str(tmp_path / "m.json"), table=table)
    assert run_python(HIDE.format(hidden=hidden) + code) == "2311 True"


def test_all_is_every_extra_for_users_on_one_machine():
    (found,) = EXTRAS["all"]
    assert set(found.removeprefix("unbin[").removesuffix("]").split(",")) == EXTRAS.keys() - {
        "all", "dask", "gpu", "dev", "docs"
    }  # fmt: skip
    assert EXTRAS["dev"][0] == "unbin[all,dask]"


def test_formulas_need_formulaic(without, study):
    encoding, _ = Encoding.build("age + sex", PEOPLE)
    without("formulaic")
    wanted = re.escape(needs("formula", "formulaic", "formulas"))
    with pytest.raises(MissingPackageError, match=wanted):
        Encoding.build("age", PEOPLE)
    again = Encoding.from_json(encoding.to_json())  # models are loaded without it
    with pytest.raises(MissingPackageError, match=wanted):
        again.encode(PEOPLE)
    with pytest.raises(MissingPackageError, match=wanted):
        unbin.glm("age", "absent.csv", {"county": "absent.csv"})  # before files are read
    text = f"{study.model.feature_names_in_[2]} = 1"
    with pytest.raises(MissingPackageError, match="wald_test, of a text: needs formulaic"):
        study.model.wald_test(text)
    assert study.model.wald_test(str(study.model.feature_names_in_[2])).df == 1


def test_pictures_need_matplotlib(without, study):
    without("matplotlib")
    assert "coefficients" in dir(unbin.plots)
    for name in unbin.plots.__all__:
        wanted = needs(f"unbin.plots.{name}", "matplotlib", "plots")
        with pytest.raises(MissingPackageError, match=re.escape(wanted)):
            getattr(unbin.plots, name)
    with pytest.raises(MissingPackageError, match=r"unbin\.plots\.release: needs matplotlib"):
        study.release.plot()


def test_reports_need_matplotlib(without, study, audited):
    without("matplotlib")
    wanted = re.escape(needs("report", "matplotlib", "plots"))
    with pytest.raises(MissingPackageError, match=wanted):
        unbin.report.render_report(study.model, title="Fit")
    with pytest.raises(MissingPackageError, match=wanted):
        unbin.report.render_audit(audited, title="Audit")


def test_plots_have_no_other_names():
    assert sorted(unbin.plots.__all__) == sorted(dir(unbin.plots))
    assert all(hasattr(unbin.plots, name) for name in unbin.plots.__all__)
    with pytest.raises(AttributeError, match=r"'unbin\.plots' has no attribute 'pie'"):
        unbin.plots.pie  # noqa: B018


COMMANDS = {  # the files are not there: nobody looked for them
    "fit": (
        ["absent.csv", "absent.csv", "--formula", "age"],
        ("formulaic", needs("--formula", "formulaic", "formulas")),
    ),
    "fit --output": (
        ["absent.csv", "absent.csv", "--formula", "age", "--output", "out"],
        ("matplotlib", needs("--output: report.html", "matplotlib", "plots")),
    ),
    "audit": (
        ["absent.csv", "--target", "y"],
        ("formulaic", needs("audit", "formulaic", "formulas")),
    ),
    "audit --output": (
        ["absent.csv", "--target", "y", "--output", "out"],
        ("matplotlib", needs("--output: report.html", "matplotlib", "plots")),
    ),
    "read --plot": (
        ["absent.csv", "--plot", "a.svg"],
        ("matplotlib", needs("--plot", "matplotlib", "plots")),
    ),
    "demo": ([], ("pandas", needs("demo", "pandas", "formulas,plots"))),
    "demo, its report": ([], ("matplotlib", needs("demo", "matplotlib", "formulas,plots"))),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_commands_say_it_before_they_read(case, without, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, (package, message) = COMMANDS[case]
    without(package)
    found = run(re.match(r"\w+", case)[0], *words)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == f"Error: {message}\n"


def test_predict_needs_what_the_model_needs(without, study, tmp_path):
    encoding, _ = Encoding.build("bs(age, df=4)", PEOPLE)
    unbin.save(study.model, tmp_path / "formula.json", encoding=encoding)
    unbin.save(study.model, tmp_path / "plain.json")
    without("formulaic")
    found = run("predict", tmp_path / "formula.json", "absent.csv")
    assert found.stderr == f"Error: {needs('model: its formula', 'formulaic', 'formulas')}\n"
    found = run("predict", tmp_path / "plain.json", "absent.csv")
    assert found.stderr.startswith("Error: absent.csv: ")
