"""``unbin predict``: predictions of new people, and what is wrong with them."""

import numpy as np
import pandas as pd

import unbin
from tests.helpers.cli import run


def test_predict_prints_and_writes_csv(folder, tmp_path):
    (tmp_path / "new.csv").write_text("who,age,sex,los\n=cmd(),50,f,2\n007,60,m,3\n")
    model = unbin.load(folder / "out" / "model.json")
    frame = pd.DataFrame(
        {"age": [50.0, 60.0], "C(sex)[T.m]": [0.0, 1.0], "log(los)": np.log([2.0, 3.0])}
    )
    first, second = (float(f"{mean:.6g}") for mean in model.predict(frame))
    args = ("predict", folder / "out" / "model.json", tmp_path / "new.csv")
    result = run(*args)
    assert result.stdout == f"prediction\n{first!r}\n{second!r}\n"
    result = run(*args, "--id", "who", "--output", tmp_path / "p.csv")
    assert result.stdout == f"2 predictions written: {tmp_path / 'p.csv'}\n"
    assert (tmp_path / "p.csv").read_text() == (
        f"who,prediction\n'=cmd(),{first!r}\n007,{second!r}\n"
    )


def test_predict_names_what_is_wrong(folder, tmp_path):
    model = folder / "out" / "model.json"
    for text, message in [
        ("age,sex,los\n50,x,2\n", "Error: column 'sex', row 1: category 'x' was "
         "not in the fit, which knows 'f', 'm'; 1 such, leave those people out or fit again\n"),
        ("age,sex,los\n50,f,\n60,f,2\n", "Error: column 'los', row 1: must have a "
         "value, got 1 of 2 missing; leave those people out, or fill them\n"),
        ("age,sex,los\n50,f,NA\n60,f,2\n", "Error: column 'los', row 1: must have "
         "a value, got 1 of 2 missing; leave those people out, or fill them\n"),
        ("age,sex,los\n50,f,0\n", "Error: log(los), row 1: must be finite, got "
         "-inf; is a log or root of 0 or of a negative number taken?\n"),
        ("age,sex\n50,f\n", "Error: new.csv: must have the column 'los', got 'age', 'sex'; check "
         "its name\n"),
    ]:  # fmt: skip
        (tmp_path / "new.csv").write_text(text)
        result = run("predict", model, tmp_path / "new.csv")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", message)


def test_predict_with_a_model_saved_in_python(small):
    frame = pd.read_csv(small / "people.csv")
    unbin.save(unbin.AggregatedGLM().fit(frame[["x"]], frame["y"]), small / "m.json")
    result = run("predict", small / "m.json", small / "people.csv")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 8)
    unbin.save(unbin.AggregatedGLM().fit(frame[["x"]].to_numpy(), frame["y"]), small / "m.json")
    result = run("predict", small / "m.json", small / "people.csv")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: model: must know the names of its features, got none; save it with encoding=..., "
        "or fit it to a frame\n",
    )
    (small / "m.json").write_text("{}")
    result = run("predict", small / "m.json", small / "people.csv")
    assert result.stderr.startswith("Error: m.json: must be a model that unbin saved, got other")
