"""What can go wrong, as a small tree.

::

    UnbinError
    ├── ReleaseError (ValueError)          the table contradicts itself
    │   ├── BlockError                     block ids
    │   ├── BinError                       bins and their edges
    │   ├── CategoryError                  names of categories; a table of them beside numbers
    │   ├── CountError                     counts, percentages, totals
    │   ├── OrderStatisticError            ranks, quantiles and their values
    │   └── ReadError                      a file that cannot be read as a table
    ├── AlignmentError (ValueError)        the table and the people do not fit together
    │   └── SplitBlockError                a selection of rows cuts through a block
    ├── DomainError (ValueError)           a value the family cannot produce
    ├── ParameterError (ValueError)        a setting of the estimator
    │   └── NoStandardErrorsError          an attribute that matching does not have
    ├── EngineError (RuntimeError)         machines that are gone, or cannot do what is asked
    ├── FormulaError (ValueError)          a formula that is not one, or not a harmless one
    ├── EncodingError (ValueError)         people whose columns a formula cannot be read from
    ├── ModelFileError (ValueError)        a file that is not a saved model
    ├── CheckpointError (ValueError)       a file that is not a checkpoint of this fit
    ├── MissingPackageError (ImportError)  a package that only an extra of unbin installs
    ├── OutputError (OSError)              a file that cannot be written
    ├── DownloadError (OSError)            a public file that did not arrive whole
    ├── FitError (ArithmeticError)         a fit whose numbers ran out of range
    ├── FitInterruptedError                a fit was stopped before there was an estimate
    └── AggregatedTargetError (TypeError)  an aggregated target used as if it held individual values

    UserWarning
    ├── IdentificationWarning              coefficients that are not estimable, and why
    ├── SpecificationWarning               a fit that is not to be trusted, and why
    ├── ReadWarning                        what was chosen of a file, and how to choose otherwise
    ├── AlignmentWarning                   what was changed, on request, to make the table fit
    ├── RakingWarning                      tables that imputed targets cannot all agree with
    ├── OpenIntervalWarning                intervals for outcomes that have no end
    └── SlowFitWarning                     a fit that will take minutes, and why

Messages read "where: what, got what; what to do".

Examples
--------
>>> import unbin
>>> try:
...     unbin.Release.from_means({"block": ["A", "A"], "mean": [3.5, 4.1]})
... except unbin.exceptions.ReleaseError as error:
...     print(f"{type(error).__name__}: {error}")
BlockError: block 'A': must have one mean, got several rows; keep one
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UnbinError(Exception):
    """Base of every error raised on purpose by unbin."""


class ReleaseError(UnbinError, ValueError):
    """A published table contradicts itself."""


class BlockError(ReleaseError):
    """A block id is missing, doubled or not readable as text."""


class BinError(ReleaseError):
    """Bins overlap, run backwards or have impossible edges."""


class CategoryError(ReleaseError):
    """A category is missing, doubled or unknown, or stands where only numbers can."""


class CountError(ReleaseError):
    """Counts are negative, fractional or do not add up."""


class OrderStatisticError(ReleaseError):
    """A rank, a quantile or its value is impossible."""


class ReadError(ReleaseError):
    """A file cannot be read as a published table; the message names file, row and column.

    Attributes
    ----------
    text : str
        The message without the options that end it.
    offers : dict
        Options of ``read_release`` that would help, with names and values from the file.
    """

    def __init__(self, text: str, offers: Mapping[str, Any] | None = None) -> None:
        self.text, self.offers = text, dict(offers or {})
        spelled = ", ".join(f"{name}={value!r}" for name, value in self.offers.items())
        super().__init__(f"{text} {spelled}" if spelled else text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.offers)


class AlignmentError(UnbinError, ValueError):
    """The release and the rows of X do not fit together."""


class SplitBlockError(AlignmentError):
    """A selection of rows holds some people of a block but not all."""


class DomainError(UnbinError, ValueError):
    """A published value lies outside what the family can produce."""


class ParameterError(UnbinError, ValueError):
    """A parameter has a value it cannot take."""


class NoStandardErrorsError(ParameterError, AttributeError):
    """Standard errors of a method that has none: to ``hasattr`` they are not there."""


class EngineError(UnbinError, RuntimeError):
    """The engine cannot do what is asked of it, or the machines behind it are gone."""


class FormulaError(UnbinError, ValueError):
    """A formula uses something that formulas do not have."""


class EncodingError(UnbinError, ValueError):
    """A column is missing, has missing values or a category the fit did not know."""


class ModelFileError(UnbinError, ValueError):
    """A file does not hold a model as ``save`` writes it."""


class CheckpointError(UnbinError, ValueError):
    """A file does not hold coefficients from which this fit can resume."""


class MissingPackageError(UnbinError, ImportError):
    """A function needs a package of an extra that is not installed."""


class OutputError(UnbinError, OSError):
    """A file or folder cannot be written."""


class DownloadError(UnbinError, OSError):
    """A public file could not be fetched, or what came is not the file that was published."""


class FitError(UnbinError, ArithmeticError):
    """A fit ran into numbers beyond the range of floating point."""


class FitInterruptedError(UnbinError):
    """A fit was stopped, on request, before there was anything to keep."""


class AggregatedTargetError(UnbinError, TypeError):
    """An aggregated target was used as if it held one value per person."""


class IdentificationWarning(UserWarning):
    """Coefficients are not estimable from what was published."""


class SpecificationWarning(UserWarning):
    """A fit is not to be trusted: a test speaks against it, or it rests on too few blocks."""


class AlignmentWarning(UserWarning):
    """What was rescaled or left out, on request, to tie a release to the rows of X."""


class ReadWarning(UserWarning):
    """A file can be read in several ways; says which was chosen, and what chooses another."""


class RakingWarning(UserWarning):
    """Imputed targets do not agree with a table, which contradicts the others or the people."""


class OpenIntervalWarning(UserWarning):
    """An interval for an outcome ends in an open bin, and is infinite there."""


class SlowFitWarning(UserWarning):
    """A fit will take minutes; the message says why, and what makes it faster."""
