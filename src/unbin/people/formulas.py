"""Formulas, parsed against a whitelist: nothing in them is ever run as code.

::

    formula     := ["~"] sum
    sum         := ["-"] product (("+" | "-") product)*       "-" only before 1
    product     := interaction ("*" interaction)*
    interaction := atom (":" atom)*
    atom        := column | category | call | "(" sum ")" | 0 | 1
    category    := "C(" column ["," reference] ")" | "cut(" column "," edges ")"
    reference   := 'text' | "Treatment(" 'text' ")"
    call        := function "(" expression ["," options] ")"
    function    := I | log | exp | sqrt | center | scale | bs | ns | cr | poly
    expression  := numbers, columns and calls with + - * / ** and parentheses

A column is a name, or any text between backticks. What comes out is written afresh, with ``v0``,
``v1``, … in the place of columns, so that no text of the user reaches what evaluates it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from unbin._checks import check_package
from unbin.exceptions import FormulaError

T = TypeVar("T")
MAX_LENGTH = 10_000
MAX_TERMS = 500
MAX_DEPTH = 20
_MAX_OPTION = 50
_MAX_POWER = 10
_MATHEMATICS = ("log", "exp", "sqrt", "center", "scale")
_OPTIONS = {"bs": ("df", "degree"), "ns": ("df",), "cr": ("df",), "poly": ("degree",)}
_USUAL = {"bs": ("degree", 3), "ns": ("df", 4), "cr": ("df", 4), "poly": ("degree", 1)}
_NATURAL = ("ns", "cr")
"""Natural cubic splines, linear beyond the range of the fit."""
FUNCTIONS = ("C", "I", "cut", *_MATHEMATICS, *_OPTIONS)
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`[^`\n]+`)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<mark>\*\*|[-+*/:(),=~\[\]])"
    r"|(?P<end>$)"
    r"|(?P<bad>.))",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A column as a formula uses it: by its values, or as categories (``C``).

    ``reference`` is the category that others are compared with; empty for the first.
    """

    column: str
    categorical: bool
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was found harmless.

    Attributes
    ----------
    text : str
        As it was written.
    terms : str
        Written afresh, the k-th variable as ``v{k}``, the intercept left out.
    variables : tuple of Variable
    intercept : bool
        False after ``- 1`` or ``+ 0``.
    """

    text: str
    terms: str
    variables: tuple[Variable, ...]
    intercept: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once."""
        return tuple(dict.fromkeys(variable.column for variable in self.variables))

    @property
    def categorical_columns(self) -> frozenset[str]:
        """The columns that are inside ``C()``."""
        return frozenset(v.column for v in self.variables if v.categorical)


def check_formulas(name: str = "formula") -> None:
    """Raise if what evaluates formulas is not installed; parsing one needs nothing."""
    check_package(name, "formulaic", "formulas")


def parse_formula(text: str) -> Formula:
    """Return a formula, or say where it is not one.

    Parameters
    ----------
    text : str
        Right-hand side only, for example ``"age + C(sex) * log(los) + `length of stay`"``.
    """
    if not isinstance(text, str):
        raise FormulaError(f"formula: must be text, got {type(text).__name__}; pass 'age'")
    if len(text) > MAX_LENGTH:
        raise FormulaError(
            f"formula: must have at most {MAX_LENGTH:,} characters, got {len(text):,}; shorten it"
        )
    return _Parser(text, _tokens(text)).formula()


def quote(column: str) -> str:
    """Return a column as it stands in a formula: odd names between backticks."""
    return column if re.fullmatch(r"[^\W\d]\w*", column) else f"`{column}`"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    place = 0
    while not found or found[-1].kind != "end":
        match = _TOKEN.match(text, place)
        assert match is not None
        assert match.lastgroup is not None
        token = _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        if token.kind == "bad":
            _refuse(token, "is not part of formulas; use columns, + - : * and functions")
        found.append(token)
        place = match.end()
    return found


def _refuse(token: _Token, what: str) -> NoReturn:
    got = "the end" if token.kind == "end" else repr(token.text)
    raise FormulaError(f"formula, position {token.place + 1}: got {got}, which {what}")


@dataclass(slots=True)
class _Parser:
    """Recursive descent; every method returns the text written afresh."""

    text: str
    tokens: list[_Token]
    at: int = 0
    depth: int = 0
    intercept: bool = True
    variables: list[Variable] = field(default_factory=list)

    def formula(self) -> Formula:
        if self._next_is("~"):
            self.at += 1
        terms, _ = self._sum(top=True)
        if self._next.text == "~":
            _refuse(self._next, "has no place here: the outcome is the release; leave it out")
        if self._next.kind != "end":
            hint = "write powers as I(x**2)" if self._next_is("**") else "put + - : or * between"
            _refuse(self._next, f"does not belong there; {hint} terms")
        if not terms:
            raise FormulaError("formula: must name a column, got none; write for example 'age'")
        return Formula(self.text, terms, tuple(self.variables), self.intercept)

    # -- terms -----------------------------------------------------------------------------------

    def _sum(self, *, top: bool = False) -> tuple[str, int]:
        terms, count = [], 0
        sign = self._take("-") if top and self._next_is("-") else None
        while True:
            if top and self._next.text in ("0", "1"):
                self.intercept = (self._take().text == "1") == (sign is None or sign.text == "+")
            elif sign is not None and sign.text == "-":
                _refuse(self._next, "cannot be taken away; only - 1 can, which is the intercept")
            else:
                term, size = self._product()
                terms.append(term)
                count = self._limit(count + size)
            if not (self._next_is("+") or self._next_is("-")):
                return " + ".join(terms), count
            sign = self._take()

    def _product(self) -> tuple[str, int]:
        return self._joined("*", self._interaction, lambda a, b: a + b + a * b)

    def _interaction(self) -> tuple[str, int]:
        return self._joined(":", self._atom, lambda a, b: a * b)

    def _joined(
        self, mark: str, part: Callable[[], tuple[str, int]], size: Callable[[int, int], int]
    ) -> tuple[str, int]:
        text, count = part()
        while self._next_is(mark):
            self.at += 1
            right, n = part()
            text += f"{mark}{right}"
            count = self._limit(size(count, n))
        return text, count

    def _atom(self) -> tuple[str, int]:
        token = self._take()
        if token.text == "(":
            return self._nested(lambda: self._closed(self._sum()))
        if token.kind == "name" and self._next_is("("):
            call = self._call(token, within=False)
            if not re.search(r"v[0-9]", call):
                _refuse(token, "is called on numbers alone; name a column")
            return call, 1
        if token.kind == "number":
            _refuse(token, "is no term; numbers go inside functions, or are 0 or 1 for intercepts")
        return self._column(token), 1

    def _closed(self, found: tuple[str, int]) -> tuple[str, int]:
        self._take(")")
        return f"({found[0]})", found[1]

    # -- inside functions ------------------------------------------------------------------------

    def _call(self, token: _Token, *, within: bool) -> str:
        name = token.text
        if name not in FUNCTIONS:
            _refuse(token, f"is no function of formulas; use one of {', '.join(FUNCTIONS)}")
        if within and (name in ("C", "cut") or name in _OPTIONS):
            _refuse(token, "gives several columns; use it outside of other functions")
        self._take("(")
        if name == "C":
            column = self._take()
            inside = self._column(column, categorical=True, reference=self._reference())
        else:
            inside = self._nested(self._expression)
        if name == "cut":
            inside += self._edges()
        elif name in _OPTIONS:
            inside += self._options(name)
        self._take(")")
        return f"cr({inside}, constraints='center')" if name in _NATURAL else f"{name}({inside})"

    def _reference(self) -> str:
        """Read ``, "low"`` or ``, Treatment("low")``; numbers name a category as well."""
        if not self._next_is(","):
            return ""
        self.at += 1
        named = self._next.text == "Treatment"
        if named:
            self.at += 1
            self._take("(")
            if self._next.text == "reference":
                self.at += 1
                self._take("=")
        token = self._take()
        if token.kind not in ("text", "number"):
            _refuse(token, "stands where a category should; write C(x, 'low')")
        if named:
            self._take(")")
        return token.text[1:-1] if token.kind == "text" else token.text

    def _edges(self) -> str:
        """Read ``, 18, 65`` or ``, [18, 65]``: where cut() divides, in order."""
        edges: list[float] = []
        self._take(",")
        listed = self._next_is("[")
        self.at += listed
        while True:
            sign = -1.0 if self._next_is("-") else 1.0
            self.at += sign < 0
            token = self._take()
            if token.kind != "number" or not abs(float(token.text)) < float("inf"):
                _refuse(token, "stands where an edge should; write cut(age, 18, 65)")
            edges.append(sign * float(token.text))
            if len(edges) > 1 and edges[-1] <= edges[-2]:
                _refuse(token, "must be above the edge before it")
            if not self._next_is(","):
                break
            self.at += 1
        if listed:
            self._take("]")
        if len(edges) > _MAX_OPTION:
            _refuse(self._next, f"comes after more than {_MAX_OPTION} edges; use fewer")
        return f", ({', '.join(map(repr, edges))},)"

    def _options(self, name: str) -> str:
        """Read ``, 3`` or ``, df=5, degree=2``; without any the usual one is written."""
        found: dict[str, int] = {}
        allowed = _OPTIONS[name]
        while self._next_is(","):
            self.at += 1
            key = allowed[0]
            if self._next.kind == "name" or found:
                token = self._take()
                if token.text not in allowed or token.text in found:
                    _refuse(token, f"is no option of {name}, or is there twice; use {allowed}")
                key = token.text
                self._take("=")
            value = self._take()
            if not re.fullmatch(r"[0-9]+", value.text) or not 1 <= int(value.text) <= _MAX_OPTION:
                _refuse(value, f"must be a whole number from 1 to {_MAX_OPTION}")
            found[key] = int(value.text)
        if not found or (name == "poly" and "degree" not in found):
            found |= dict([_USUAL[name]])
        return "".join(f", {key}={value}" for key, value in found.items())

    def _expression(self) -> str:
        return self._chain("+-", lambda: self._chain("*/", self._power))

    def _chain(self, marks: str, part: Callable[[], str]) -> str:
        text = part()
        while self._next.kind == "mark" and self._next.text in marks:
            text += f" {self._take().text} {part()}"
        return text

    def _power(self) -> str:
        if self._next_is("-"):
            self.at += 1
            return self._nested(lambda: f"-{self._power()}")
        base = self._unary()
        if not self._next_is("**"):
            return base
        self.at += 1
        token = self._take()
        if not re.fullmatch(r"[0-9]+", token.text) or not 1 <= int(token.text) <= _MAX_POWER:
            _refuse(token, f"must be a whole power from 1 to {_MAX_POWER}")
        return f"{base}**{token.text}"

    def _unary(self) -> str:
        token = self._take()
        if token.text == "(":
            return f"({self._nested(lambda: self._ended(self._expression()))})"
        if token.kind == "number":
            if float(token.text) == float("inf"):
                _refuse(token, "is too large a number")
            whole = re.fullmatch(r"0|[1-9][0-9]{0,14}", token.text)
            return token.text if whole else repr(float(token.text))
        if token.kind == "name" and self._next_is("("):
            return self._call(token, within=True)
        return self._column(token)

    def _ended(self, text: str) -> str:
        self._take(")")
        return text

    # -- pieces ----------------------------------------------------------------------------------

    def _column(self, token: _Token, *, categorical: bool = False, reference: str = "") -> str:
        if token.kind == "quoted":
            name = token.text[1:-1]
        elif token.kind == "name":
            name = token.text
            if name.startswith("__"):
                _refuse(token, "looks like Python's own; put a column of that name in backticks")
        else:
            _refuse(token, "stands where a column should; name one, odd names in backticks")
        variable = Variable(name, categorical, reference)
        if variable not in self.variables:
            self.variables.append(variable)
        return f"v{self.variables.index(variable)}"

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _next_is(self, mark: str) -> bool:
        return self._next.kind == "mark" and self._next.text == mark

    def _take(self, mark: str | None = None) -> _Token:
        token = self._next
        if mark is not None and not self._next_is(mark):
            _refuse(token, f"stands where {mark!r} should")
        if token.kind != "end":
            self.at += 1
        return token

    def _nested(self, part: Callable[[], T]) -> T:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _refuse(self._next, f"is nested more than {MAX_DEPTH} deep; simplify it")
        result = part()
        self.depth -= 1
        return result

    def _limit(self, count: int) -> int:
        if count > MAX_TERMS:
            _refuse(self._next, f"comes after more than {MAX_TERMS} terms; use fewer *")
        return count
