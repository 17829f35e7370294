"""What is wrong with built pages is found; `make docs` looks for it in those of the site."""

import runpy

import pytest

from tests.helpers.documents import DOCS

pytest.importorskip("sphinx")
find_faults = runpy.run_path(str(DOCS / "_ext" / "check_links.py"))["find_faults"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#there">b</a> <a href="#here">a</a> <a href="https://e.org">e</a>', ""),
        ('<img src="b.html" alt="">', ""),
        ('<a href="c.html">c</a>', "leads nowhere: c.html"),
        ('<a href="b.html#gone">b</a>', "leads nowhere: b.html#gone"),
        ('<img src="b.html">', "has no text in place of it: b.html"),
        (
            '<script src="https://e.org/x.js"></script>',
            "is fetched from outside: https://e.org/x.js",
        ),
        ('<link href="//e.org/x.css">', "is fetched from outside: //e.org/x.css"),
    ],
)
def test_faults_of_a_page(tmp_path, body, fault):
    (tmp_path / "a.html").write_text(f'<p id="here">{body}</p>', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there">b</p>', encoding="utf-8")
    assert [found for _, found in find_faults(tmp_path)] == [fault] * bool(fault)


def test_a_style_fetches_nothing(tmp_path):
    (tmp_path / "a.css").write_text("p { background: url(x.png) }", encoding="utf-8")
    assert not list(find_faults(tmp_path))
    (tmp_path / "a.css").write_text("p { background: url('//e.org/x.png') }", encoding="utf-8")
    assert [path.name for path, _ in find_faults(tmp_path)] == ["a.css"]
