"""What a study and a method are, and those there are: every file of data/ and methods/."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import unbin


@dataclass(frozen=True)
class People:
    """People whose outcome is known, so that it can be published and hidden.

    Attributes
    ----------
    X : (n, d) features
    y : (n,) outcomes
    tables : partitions that tables are published by, the blocks first; each (n,) ids
    """

    X: np.ndarray
    y: np.ndarray
    tables: dict[str, np.ndarray]


@dataclass(frozen=True)
class Votes:
    """People by block, group and category, where the margins of each block are published.

    Attributes
    ----------
    blocks : (B,) names
    regions : (B,) of which a second table gives category by group
    groups : (G,)
    categories : (K,)
    cells : (B, G, K) people
    """

    blocks: np.ndarray
    regions: np.ndarray
    groups: tuple[str, ...]
    categories: tuple[str, ...]
    cells: np.ndarray


@dataclass(frozen=True)
class Study:
    """A real study.

    Attributes
    ----------
    label : as the page calls it
    about : outcome, people, blocks and source, in a line
    family : that an analyst would take for individual outcomes; "votes" for a table of votes
    load : returns the people, or the votes
    needs_data : whether it is read from the folder that UNBIN_DATA names
    """

    label: str
    about: str
    family: str
    load: Callable[[], People | Votes]
    needs_data: bool = False

    def missing(self) -> str:
        """Return why the study cannot be had here, or nothing."""
        folder = os.environ.get("UNBIN_DATA", "")
        if self.needs_data and not (folder and Path(folder).is_dir()):
            return "UNBIN_DATA does not name the folder of the data"
        return ""


@dataclass(frozen=True)
class Table:
    """A published table, and the block of each person in it."""

    release: unbin.Release
    ids: np.ndarray


class NotAvailable(Exception):  # noqa: N818 - an answer rather than an error
    """A method has no answer to this release; the message says why."""


@dataclass(frozen=True)
class Task:
    """All that a method is told of people: features, tables, and the family.

    Attributes
    ----------
    X : (n, d)
    tables : that of the blocks first
    family : str
    y : (n,) outcomes; None unless the method is one that sees them
    """

    X: np.ndarray
    tables: tuple[Table, ...]
    family: str
    y: np.ndarray | None = None

    def target(self) -> unbin.AggregatedTarget | unbin.release.join.JoinedTarget:
        """Return the tables as the outcome of a fit."""
        parts = [table.release.align(table.ids) for table in self.tables]
        return parts[0] if len(parts) == 1 else unbin.join(*parts)


@dataclass(frozen=True)
class VotesTask:
    """All that a method is told of votes: the margins of each block, and perhaps a second table.

    Attributes
    ----------
    blocks, regions : (B,)
    groups, categories : (G,), (K,)
    people : (B, G) people of each group
    counts : (B, K) votes of each category
    by_region : (R, G, K) votes of the groups in the sorted regions, or None
    """

    blocks: np.ndarray
    regions: np.ndarray
    groups: tuple[str, ...]
    categories: tuple[str, ...]
    people: np.ndarray
    counts: np.ndarray
    by_region: np.ndarray | None = None

    def margins_only(self) -> None:
        """Say that a method has no use for the second table."""
        if self.by_region is not None:
            raise NotAvailable("takes the margins alone")


@dataclass(frozen=True)
class Fitted:
    """What a method found.

    Attributes
    ----------
    predict : mean outcome of new people, (m, d) to (m,)
    verdict : "trusted" or "not trusted: why", where the method judges itself
    """

    predict: Callable[[np.ndarray], np.ndarray]
    verdict: str = ""


@dataclass(frozen=True)
class Method:
    """A method: how it fits people, how it fits votes, or both.

    Attributes
    ----------
    label : as the page calls it
    about : what it does, in a line
    order : place in tables and pictures
    fit : of people
    cells : of votes; returns (B, G, K)
    sees_outcomes : of the baselines that are told everybody's outcome
    needs : modules that must be installed
    seconds : CPU time it may take, where it needs more than others
    """

    label: str
    about: str
    order: float
    fit: Callable[[Task], Fitted] | None = None
    cells: Callable[[VotesTask], tuple[np.ndarray, str]] | None = None
    sees_outcomes: bool = False
    needs: tuple[str, ...] = field(default=())
    seconds: float | None = None


def studies() -> dict[str, Study]:
    """Return the STUDY of every file in data/, by the file's name."""
    return {name: module.STUDY for name, module in _modules("data").items()}


def methods() -> dict[str, Method]:
    """Return the METHOD of every file in methods/, by the file's name, in their order."""
    found = {name: module.METHOD for name, module in _modules("methods").items()}
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def _modules(folder: str) -> dict:
    path = Path(__file__).parent / folder
    names = sorted(each.name for each in pkgutil.iter_modules([str(path)]))
    return {name: importlib.import_module(f"studies.{folder}.{name}") for name in names}
