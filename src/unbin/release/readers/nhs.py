"""NHS tables: counts rounded to 5, and 1 to 7 shown as ``*``.

Long files with an organisation, a band in words and a value: ``ORG_CODE, AGE_BAND, VALUE``, or the
monthly layout ``PRIMARY_LEVEL, SECONDARY_LEVEL, MEASURE_VALUE``. Totals are rounded as well, so the
rows of X say how many people there are.
"""

from __future__ import annotations

from unbin.release.readers.long import Columns, read_labelled
from unbin.release.readers.options import Options
from unbin.release.readers.sheets import Sheet
from unbin.release.release import Release

COLUMNS = Columns(
    block=(
        "PRIMARY_LEVEL",
        "ORG_CODE",
        "ORGANISATION_CODE",
        "PRACTICE_CODE",
        "CCG_CODE",
        "ICB_CODE",
    ),
    label=("SECONDARY_LEVEL", "AGE_BAND", "AGE_GROUP", "BAND"),
    count=("MEASURE_VALUE", "VALUE", "NUMBER_OF_PATIENTS", "PATIENTS"),
)


def recognises(sheet: Sheet) -> bool:
    """Tell whether the header has an organisation, a band and a value."""
    return COLUMNS.in_header(sheet.header)


def read(sheet: Sheet, options: Options) -> Release:
    """Read a table of the NHS."""
    return read_labelled(sheet.table(), options, COLUMNS, options.scheme("nhs"), dialect="nhs")
