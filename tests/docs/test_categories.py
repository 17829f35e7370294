"""What the page on categories says beside its examples, which test_pages.py runs."""

import re

from tests.helpers.documents import DOCS, read_examples

TEXT = (DOCS / "howto" / "categories.md").read_text(encoding="utf-8")


def test_votes_were_as_the_page_says():
    names = {}
    drawn, _, _ = read_examples(TEXT)[0].code.partition("\nvotes = ")
    exec(compile(drawn, "categories.md", "exec"), names)
    shares = [
        round(100 * (names["vote"][names["people"]["race"] == race] == party).mean())
        for race in ("black", "white")
        for party in ("dem", "none", "rep")
    ]
    told = re.search(r"In truth .*?\.\n", TEXT, re.S)[0]
    assert [int(found) for found in re.findall(r"\d+", told)] == shares
