"""Files that are broken, lying or hostile: one typed error that names file, row and column."""

# ruff: noqa: E501

import gzip
import io
import os
import re
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fuzz
from tests.helpers.paths import FIXTURES
from unbin import read_release
from unbin.exceptions import ParameterError, ReadError
from unbin.release.readers import build, files
from unbin.release.readers.dialects import wonder

TIDY = "block,lower,upper,count\na,,10,12\na,10,20,30\nb,,15,21\nb,15,,19\n"
ACS = (FIXTURES / "acs_b19001.csv").read_text(encoding="utf-8")
WONDER = (FIXTURES / "wonder_deaths.txt").read_bytes().decode()
AGES = (FIXTURES / "wonder_ages.txt").read_bytes().decode()
EURO = (FIXTURES / "eurostat_ilc_di01.tsv").read_text(encoding="utf-8")
NHS = (FIXTURES / "nhs_contacts.csv").read_text(encoding="utf-8")
CMS = (FIXTURES / "cms_providers.csv").read_text(encoding="utf-8")


def tidy(old="", new="", *, text=TIDY):
    """The tidy table with one thing changed."""
    assert old in text
    return text.replace(old, new, 1)


def acs(*parts):
    return tidy(*parts, text=ACS)


def packed(text):
    return gzip.compress(text.encode())


def wide(n):
    return "a," * (n - 1) + "b\n" + "1," * (n - 1) + "1\n"


def bomb():
    """Return 320 MB of zeros in 310 kB."""
    return gzip.compress(b"0" * 2**25) * 10


def parquet(columns):
    stream = io.BytesIO()
    pd.DataFrame(columns).to_parquet(stream)
    return stream.getvalue()


QUANTILES = "block,quantile,value\na,0.25,1\na,0.5,2\n"
LABELS = "block,label,count\na,0-4,1\na,5-9,2\na,10+,3\n"
LONG = "GEOID,NAME,variable,estimate,moe\n01,x,B19001_001,7,1\n01,x,B19001_002,7,1\n"
EURO_WHERE = {"where": {"currency": "EUR", "TIME_PERIOD": "2023"}}

# name: (content, options, what the message says after the name of the file)
CASES = {
    # -- nothing, or not a table
    "empty": ("", {}, ": must hold a table, got an empty file; check the download"),
    "blanks": (" \n\t\n  ", {}, ": must hold a table, got an empty file"),
    "commas-only": (",,,\n,,,\n", {}, ": must hold a table, got blank lines only"),
    "header-only": ("block,lower,upper,count\n", {}, ": must hold a table, got a header only; add its rows"),
    "header-only-values": ("block,value", {}, ": must hold a table, got a header only"),
    "one-word": ("hello", {}, r", row 1: the layout is not known, got columns 'hello'; say dialect=\.\.\., or rename"),
    "html": ("<!DOCTYPE html><html><body>404</body></html>", {}, ", row 1: the layout is not known, got columns '<!DOCTYPE html>"),
    "json": ('{"block": ["a"], "count": [1]}', {}, ", row 1: must be readable as CSV|, row 1: the layout is not known"),
    "numbers-only": ("1,2,3\n4,5,6\n", {}, ", row 1: the layout is not known, got columns '1', '2', '3'"),
    "zip": (b"PK\x03\x04" + b"\0" * 40, {}, ": must be a whole archive, got damaged data"),
    "xls": (b"\xd0\xcf\x11\xe0" + b"\0" * 40, {}, ": must be a whole workbook, got damaged data"),
    "only-a-mark": (b"\xff\xfe", {}, ": must hold a table, got blank lines only"),
    "bzip2": (b"BZh91AY&SY", {}, ": must be CSV, TSV or Parquet, got a bzip2 archive"),
    "xz": (b"\xfd7zXZ\x00\x00", {}, ": must be CSV, TSV or Parquet, got an xz archive"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00", {}, ": must be CSV, TSV or Parquet, got a zstd archive"),
    "pdf": (b"%PDF-1.7\n", {}, ": must be CSV, TSV or Parquet, got a PDF document"),
    # -- packed
    "gzip-truncated": (packed(TIDY)[:-12], {}, ": must be whole gzip data, got a truncated file; download it again"),
    "gzip-head-only": (packed(TIDY)[:5], {}, ": must be whole gzip data, got a truncated file"),
    "gzip-crc": (packed(TIDY)[:-8] + b"\1" * 8, {}, r": must be whole gzip data, got damaged data \(CRC check failed"),
    "gzip-garbage": (b"\x1f\x8b" + b"\xff" * 60, {}, r": must be whole gzip data, got damaged data \("),
    "gzip-flipped": (packed(TIDY)[:20] + b"\xff\xff\xff\xff" + packed(TIDY)[24:], {}, ": must be whole gzip data, got damaged data"),
    "gzip-tail": (packed(TIDY) + b"tail", {}, r": must be whole gzip data, got damaged data \(Not a gzipped file"),
    "gzip-twice": (gzip.compress(packed(TIDY)), {}, ": must be CSV, TSV or Parquet, got a file that was gzipped twice; unpack"),
    "gzip-empty": (gzip.compress(b""), {}, ": must hold a table, got an empty file"),
    "gzip-bomb": (bomb, {}, r": must hold at most 268,435,456 bytes \(unpacked\), got more; pass max_bytes="),
    "gzip-bomb-small-limit": (bomb, {"max_bytes": 10**6}, r": must hold at most 1,000,000 bytes \(unpacked\), got more"),
    "larger-than-allowed": (TIDY, {"max_bytes": 20}, r": must hold at most 20 bytes \(unpacked\), got more"),
    # -- encodings
    "latin-1": (TIDY.replace("a,,", "é,,").encode("latin-1"), {}, ", row 2: must be UTF-8, got byte 0xe9 at position 24; save it as UTF-8, or pass encoding='latin-1'"),
    "cp1252-dash": (LABELS.replace("0-4", "0\x964").encode("latin-1"), {}, ", row 2: must be UTF-8, got byte 0x96 at position"),
    "utf-8-cut": (TIDY.encode() + "é".encode()[:1], {}, ", row 6: must be UTF-8, got byte 0xc3 at position"),
    "utf-8-overlong": (TIDY.encode() + b"\xc0\xaf", {}, ", row 6: must be UTF-8, got byte 0xc0"),
    "utf-8-surrogate": (TIDY.encode() + b"\xed\xa0\x80", {}, ", row 6: must be UTF-8, got byte 0xed"),
    "utf-16-odd": (TIDY.encode("utf-16")[:-1], {}, ", row [0-9]+: must be UTF-16, got byte 0x0a at position"),
    "utf-16-without-mark": (TIDY.encode("utf-16-le"), {}, ", row 1: must be text, got a NUL character at position 1; export the table as CSV, or pass encoding='utf-16'"),
    "utf-32": (TIDY.encode("utf-32"), {}, ": must be UTF-8 or UTF-16, got UTF-32; save it as UTF-8"),
    "utf-8-read-as-utf-16": (TIDY + "x", {"encoding": "utf-16"}, ": must|, row"),
    "random-bytes": (np.random.default_rng(0).bytes(5000), {}, ", row 1: must be UTF-8, got byte 0x"),
    "nul": (tidy("12", "1\x002"), {}, ", row 2: must be text, got a NUL character at position 31"),
    "nul-at-the-end": (TIDY + "\0", {}, ", row 6: must be text, got a NUL character"),
    "nuls-only": ("\0" * 1000, {}, ", row 1: must be text, got a NUL character at position 0"),
    # -- shape
    "million-columns": (wide(10**6), {}, ", row 1: must have at most 10,000 columns, got 1,000,000; check the file"),
    "million-cells-in-one-row": (TIDY + "1," * 10**6, {}, ", row 6: must have at most 10,000 columns, got 1,000,001"),
    "long-line": (TIDY + "x" * (2**22 + 1), {}, ", row 6: lines must have at most 4,194,304 characters, got a longer one"),
    "long-cell": (tidy("12", "1" * 40_000), {}, ", row 2: cells must have at most 32,767 characters, got 40,000; check the file"),
    "very-long-cell": (tidy("12", "1" * 200_000), {}, r", row 2: must be readable as CSV, got field larger than field limit \(131072\)"),
    "long-header": ("x" * 40_000 + ",value\n", {}, ", row 1: cells must have at most 32,767 characters"),
    "short-row": (tidy("a,10,20,30", "a,10,20"), {}, ", row 3: must have 4 cells like the header, got 3; quote cells"),
    "long-row": (tidy("a,10,20,30", "a,10,20,30,40"), {}, ", row 3: must have 4 cells like the header, got 5; quote"),
    "unquoted-thousands": (tidy("30", "1,030"), {}, ", row 3: must have 4 cells like the header, got 5; quote"),
    "footer": (TIDY + "Source:\n", {}, ", row 6: must have 4 cells like the header, got 1; .* remove lines that are no data"),
    "cut-in-the-middle": (TIDY[:-8], {}, ", row 5: must have 4 cells like the header, got [123]"),
    "cut-in-a-number": (TIDY[:-5], {}, ", row 5: must have 4 cells|, row 5, column 'count': must be a number, got ''"),
    "twice-a-column": (tidy("lower", "count"), {}, ", row 1, column 'count': names must be different, got this one twice; rename"),
    "two-tables": (TIDY + "\n" + TIDY, {}, ", row 7, column 'lower': must be a number, got 'lower'"),
    # -- quotes
    "open-quote": (tidy("a,,10", '"a,,10'), {}, ", row 2: must be readable as CSV, got unexpected end of data; double the quotes"),
    "text-behind-quote": (tidy("a,,10", '"a"x,,10'), {}, ", row 2: must be readable as CSV, got ',' expected after '\"'; double"),
    "nested-quotes": (tidy("a,,10", '"a"b"c",,10'), {}, ", row 2: must be readable as CSV, got ',' expected after"),
    "quotes-only": ('"' * 999, {}, ", row 1: must be readable as CSV, got unexpected end of data"),
    "newline-in-id": (tidy("a,,10,12", '"a\n\n",,10,x'), {}, ", row 2, column 'count': must be a number, got 'x'"),
    "carriage-returns": ("block,value\na\rb,1\n", {}, ", row 2: must be readable as CSV, got new-line character seen in unquoted field"),
    # -- columns
    "unknown-columns": ("county,people\na,3\n", {}, ", row 1: the layout is not known, got columns 'county', 'people'"),
    "mixed-layouts": ("block,lower,upper,count,quantile,value\na,0,1,2,0.5,1\n", {}, ", row 1: the layout is not known, got columns 'block', 'lower'"),
    "mixed-layouts-told": ("block,lower,upper,count,mean\na,0,1,2,0.5\n", {"dialect": "tidy"}, r": must have the columns of one kind of table \(block, lower, .* got 'block', 'lower', 'upper', 'count', 'mean'; rename them"),
    "no-upper": (tidy("upper", "top"), {"block": "block"}, r": column 'upper' not found, got 'block', 'lower', 'top', 'count'; say upper=\.\.\. with"),
    "no-count": (tidy("count", "freq"), {"block": "block"}, r": column 'count' not found, got .*; say count=\.\.\. with the column"),
    "two-ids": ("state,county,lower,upper,count\n1,a,0,1,2\n", {}, r": one column must hold the block ids, got 'state', 'county'; say block='state'"),
    "block-not-there": (TIDY, {"block": "county"}, r": column 'county' not found, got 'block', 'lower', 'upper', 'count'; say block="),
    "where-not-there": (TIDY, {"where": {"year": "1"}}, r": column 'year' not found, got .*; say where="),
    "where-nothing": (TIDY, {"where": {"block": "z"}}, ", column 'block': where: no row has 'z', got 'a', 'b'; correct it"),
    "percent-without-n": ("block,lower,upper,percent\na,0,1,100\n", {}, r": column 'n' not found, got .*; say n="),
    "wrong-dialect": (TIDY, {"dialect": "nhs"}, r": no column for block found, got 'block', 'lower', .*; say block=\.\.\. with its name"),
    "wrong-dialect-wonder": (TIDY, {"dialect": "cdc-wonder"}, ": must be an export of CDC WONDER, got no column 'Notes' among 'block'"),
    "wrong-dialect-acs": (TIDY, {"dialect": "acs"}, r", row 2: must hold labels such as 'Estimate!!Total:!!\$10,000 to \$14,999', got none; download"),
    "wrong-dialect-eurostat": (TIDY, {"dialect": "eurostat"}, ": must be a table of quantiles by geo, got no 'geo' among 'block', .*; choose"),
    "wrong-dialect-cms": (TIDY, {"dialect": "cms"}, ": no column for block found"),
    # -- block ids
    "no-id": (tidy("a,10", ",10"), {}, ", row 3, column 'block': every row needs a block id, got an empty cell; fill it"),
    "formula-as-id": (tidy("a,10", "=cmd|' /C calc'!A0,10"), {}, ", row 3, column 'block': must be a block id, got the formula "),
    "at-formula-as-id": (tidy("a,10", "@SUM(A1),10"), {}, r", row 3, column 'block': must be a block id, got the formula '@SUM\(A1\)'; save values"),
    "long-id": (tidy("a,10", "x" * 300 + ",10"), {}, ", row 3, column 'block': block ids must be shorter, got 300 characters; use codes"),
    # -- numbers
    "word-as-count": (tidy("30", "many"), {}, ", row 3, column 'count': must be a number, got 'many'; correct the cell"),
    "formula-as-count": (tidy("30", "=1+1"), {}, r", row 3, column 'count': must be a number, got '=1\+1'; save the table with values instead"),
    "command-as-count": (tidy("30", "=cmd()"), {}, r", row 3, column 'count': must be a number, got '=cmd\(\)'"),
    "nan-count": (tidy("30", "nan"), {}, ", row 3, column 'count': must be a number, got 'nan'"),
    "no-count-cell": (tidy("30", ""), {}, ", row 3, column 'count': must be a number, got ''"),
    "infinite-count": (tidy("30", "inf"), {}, ", row 3, column 'count': must be a number, got 'inf'"),
    "negative-count": (tidy("30", "-3"), {}, ", row 3, column 'count': a count must not be negative, got '-3'"),
    "sentinel-count": (tidy("30", "-999999"), {}, ", row 3, column 'count': must be a count, got '-999999'; if it hides one, say suppression='hhs'"),
    "star-count": (tidy("30", "*"), {}, r", row 3, column 'count': must be a count, got '\*'; if it hides one, say suppression='cms'"),
    "half-count": (tidy("30", "2.5"), {}, ", row 3, column 'count': a count must be a whole number, got '2.5'"),
    "huge-count": (tidy("30", "9" * 30), {}, ", row 3, column 'count': a count is too large, got '9999"),
    "digits-count": (tidy("30", "9" * 5000), {}, ", row 3, column 'count': must be a finite number, got '9999.*…'"),
    "exponent-count": (tidy("30", "1e400"), {}, ", row 3, column 'count': must be a finite number, got '1e400'"),
    "long-exponent": (tidy("30", "1e99999"), {}, ", row 3, column 'count': must be a number, got '1e99999'"),
    "hex-count": (tidy("30", "0x1F"), {}, ", row 3, column 'count': must be a number, got '0x1F'"),
    "underscore-count": (tidy("30", "3_0"), {}, ", row 3, column 'count': must be a number, got '3_0'"),
    "arabic-digits": (tidy("30", "٣٠"), {}, ", row 3, column 'count': must be a number, got '٣٠'"),
    "decimal-comma": (tidy("30", '"3,5"'), {}, ", row 3, column 'count': must be a number, got '3,5'; write decimals with a point"),
    "bad-thousands": (tidy("30", '"1,0000"'), {}, ", row 3, column 'count': must be a number, got '1,0000'"),
    "escape-codes": (tidy("30", "\x1b[31m30"), {}, r", row 3, column 'count': must be a number, got '\\x1b\[31m30'"),
    "word-as-edge": (tidy("a,10", "a,ten"), {}, ", row 3, column 'lower': must be a number, got 'ten'"),
    "nan-edge": (tidy("a,10", "a,NaN"), {}, ", row 3, column 'lower': must be a number, got 'NaN'"),
    "huge-edge": (tidy("a,10", "a,1e305"), {}, ", row 3, column 'lower': an edge is too large, got '1e305'; say inf"),
    "edges-backwards": (tidy("a,10,20", "a,20,10"), {}, ", row 2: block 'a': (edges must increase|bins must not overlap)"),
    "edges-infinite-backwards": (tidy("a,10,20", "a,inf,20"), {}, ", row 2: block 'a': edges must increase, got lower inf and upper 20"),
    "bins-overlap": (tidy("a,10,20", "a,5,20"), {}, r", row 2: block 'a': bins must not overlap, got \(-inf, 10\] and \(5, 20\]"),
    "block-twice": (TIDY + "b,15,,4\n", {}, ", row 6: block 'b': every bin must be listed once, got 15 to inf in row 5 too; keep one of them"),
    "table-twice": (TIDY + TIDY.partition("\n")[2], {}, ", row 6: block 'a': every bin must be listed once, got -inf to 10 in row 2 too"),
    "total-disagrees": ("block,lower,upper,count,n\na,0,1,2,5\na,1,2,2,5\n", {}, ", row 2: block 'a': .*5"),
    "totals-differ": ("block,lower,upper,count,n\na,0,1,2,4\na,1,2,2,5\n", {}, ", row 3, column 'n': block 'a': must have one number of people, got 4 and 5; correct it"),
    "negative-n": ("block,lower,upper,count,n\na,0,1,2,-2\n", {}, ", row 2, column 'n': a count must not be negative, got '-2'"),
    "interval-backwards": ("block,lower,upper,count_low,count_high\na,0,1,9,1\n", {}, ", row 2, column 'count_low': needs a count, or the least and the most people, got 9 and 1; fill"),
    "interval-half": ("block,lower,upper,count_low,count_high\na,0,1,,9\n", {}, ", row 2, column 'count_low': needs a count, or the least and the most people, got None and 9"),
    "interval-open": ("block,lower,upper,count_low,count_high\na,0,1,2,\n", {}, ", row 2: block 'a': a count that is not shown needs the total of its block, got neither; add the total"),
    "percent-over-100": ("block,lower,upper,percent,n\na,0,1,70,9\na,1,2,70,9\n", {}, ", row 2: block 'a': percentages must add up to 100, got 140"),
    "percent-shares": ("block,lower,upper,percent,n\na,0,1,0.3,9\na,1,2,0.7,9\n", {}, ", row 2: block 'a': percentages must add up to 100, got 1"),
    # -- other kinds
    "quantile-percentile": (QUANTILES.replace("0.25", "25"), {}, ", row 2: block 'a': quantiles lie between 0 and 1, got 25"),
    "quantiles-fall": (QUANTILES.replace(",2", ",0"), {}, ", row 2: block 'a': order statistics must not decrease"),
    "quantile-without-value": (QUANTILES.replace("value", "x"), {"block": "block"}, ": column 'value' not found"),
    "value-infinite": ("block,value\na,inf\n", {}, ", row 2, column 'value': must be a number, got 'inf'"),
    "value-huge": ("block,value\na,1e400\n", {}, ", row 2, column 'value': must be a finite number, got '1e400'"),
    "rank-zero": ("block,rank,value\na,0,1\n", {}, ", row 2: block 'a': ranks are whole numbers from 1"),
    "mean-twice": ("block,mean,n\na,1,2\na,2,2\n", {}, ", row 2: block 'a': must have one mean, got several rows; keep one"),
    "total-without-n": ("block,total\na,1\n", {}, ": column 'n' not found, got 'block', 'total'; say n="),
    "mean-word": ("block,mean\na,low\n", {}, ", row 2, column 'mean': must be a number, got 'low'"),
    # -- labels
    "label-unknown": (LABELS.replace("5-9", "some"), {}, ", row 3, column 'label': a label must name its values, got 'some'; write it like '5-9'"),
    "label-backwards": (LABELS.replace("5-9", "9-5"), {}, ", row 3, column 'label': a label must run from low to high, got '9-5'"),
    "label-long": (LABELS.replace("5-9", "5-9 " * 99), {}, ", row 3, column 'label': a label must name its values"),
    "labels-overlap": (LABELS.replace("5-9", "3-9"), {}, ", row 2: block 'a': bins must not overlap"),
    "labels-share": (LABELS.replace("5-9", "4-9"), {}, ", column 'label': labels share the value 4, got it at the end of one bin and at the start of the next; say closed='left' or"),
    "labels-twice": (LABELS.replace("5-9", "0 to 4"), {}, ", row 3: block 'a': every bin must be listed once, got 0 to 4 in row 2 too"),
    "labels-totals-only": ("block,label,count\na,Total,3\n", {}, r", column 'label': must hold bins, got 'Total'; say label=\.\.\. with"),
    # -- dialects
    "acs-cut": (ACS[: len(ACS) // 2], {}, ", row [0-9]+: must (be readable as CSV|have 70 cells)"),
    "acs-one-header": ((ACS.split("\n", 1)[0] + "\n" + ACS.split("\n", 2)[2]).replace("B19001", "B25063"), {}, ", row 2: must hold labels such as"),
    "acs-labels-cut": (re.sub(r',"Estimate!!Total:!![$]15,.*', "", ACS), {}, ", row 2: must have 70 cells like the header, got 1[0-9]"),
    "acs-header-only": ("\n".join(ACS.split("\n")[:2]), {}, ": must hold a table, got a header only"),
    "acs-label": (acs("Estimate!!Total:!!Less than $10,000", "Estimate!!Total:!!Poor"), {}, ", row 2, column 'B19001_002E': a label must name its values, got 'Poor'"),
    "acs-block-twice": (acs("US05003", "US05001"), {}, ", row 4: block '05001': must be listed once, got row 3 too; keep one"),
    "acs-no-bins": ("GEO_ID,NAME,B1_001E,B19001_001E\nGeography,Name,x,Estimate!!Total:\n0500000US05001,x,1,2\n", {}, ": must hold bins, got no label below the total"),
    "acs-annotation": (acs('"null"', '"??"'), {}, ", row 3, column 'B19001_001EA': must be a number, got '??'"),
    "acs-total": (acs("US05001\",\"Arkansas County, Arkansas\",\"", "US05001\",\"Arkansas County, Arkansas\",\"9"), {}, ", row 3: block '05001': .*"),
    "tidycensus-unknown": (LONG.replace("B19001", "B25075"), {}, ", row 3, column 'variable': a label must name its values, got 'B25075_002'; .*add a column 'label'"),
    "tidycensus-twice": (LONG + "01,x,B19001_002,7,1\n", {}, ", row 4: block '01': 'B19001_002' must be listed once, got row 3 too"),
    "tidycensus-word": (LONG.replace(",7,1\n", ",x,1\n", 1), {}, ", row 2, column 'estimate': must be a number, got 'x'"),
    "wonder-count": (tidy("\tSuppressed\t", "\tHidden\t", text=WONDER), {}, ", row [0-9]+, column 'Deaths': must be a number, got 'Hidden'"),
    "wonder-more-than-all": ("Notes\tCounty Code\tDeaths\tPopulation\n\t01\t20\t10\n", {}, ", row 2, column 'Deaths': counts must not exceed the population, got 20 of 10; check"),
    "wonder-no-people": ("Notes\tCounty Code\tDeaths\n\t01\t20\n", {}, ": must have a column of age groups or a 'Population', got 'Notes', 'County Code', 'Deaths'; say label="),
    "wonder-totals-only": ("Notes\tCounty Code\tDeaths\tPopulation\nTotal\t\t20\t30\n", {}, ": must hold rows about blocks, got totals only; group by a place"),
    "wonder-footer-only": ('"Notes"\tDeaths\n"---"\n"x"\n', {}, ": must hold a table, got a header only"),
    "wonder-no-rule": (WONDER.replace('"---"', "Dataset"), {}, ", row [0-9]+: must have 6 cells like the header, got 1"),
    "wonder-no-place": ('Notes\tYear\tDeaths\n\t2020\t5\n', {}, ": must have a column of age groups or a 'Population', got 'Notes', 'Year', 'Deaths'"),
    "wonder-age": (tidy("1-4 years", "young", text=AGES), {}, ", row 3, column 'Ten-Year Age Groups': a label must name its values, got 'young'"),
    "nhs-not-rounded": (re.sub(r"[^,]+\n$", "13\n", NHS), {}, r", row [0-9]+, column 'MEASURE_VALUE': counts are rounded \(nearest-5\) here, got '[0-9]*13'; say rounding='none'"),
    "nhs-two-measures": (NHS + NHS.splitlines()[1].replace("MHS30", "MHS29") + "\n", {}, ", column 'MEASURE_ID': one value must be chosen, got 'MHS30', 'MHS29'; say where=.'MEASURE_ID': 'MHS30'."),
    "cms-symbol": (tidy("*", "hidden", text=CMS), {}, ", row [0-9]+, column 'Bene_Age_[A-Z0-9_]+_Cnt': must be a number, got 'hidden'"),
    "cms-no-total": ("Bene_Geo_Cd,Bene_Age_LT_65_Cnt,Bene_Age_GT_64_Cnt\n01,#,20\n", {}, ", row 2: block '01': a count that is not shown needs the total of its block"),
    "cms-two-outcomes": ("Bene_Geo_Cd,Bene_Age_LT_65_Cnt,Bene_Chr_LT_2_Cnt\n01,20,20\n", {}, r": one outcome must be chosen, got bands of 'Bene_Age', 'Bene_Chr'; say label="),
    "cms-total-too-small": ("Bene_Geo_Cd,Tot_Benes,Bene_Age_LT_65_Cnt,Bene_Age_GT_64_Cnt\n01,9,#,20\n", {}, ", row 2: block '01': the bins count at least 21 people, got a total of 9; correct one"),
    "cms-band-backwards": ("Bene_Geo_Cd,Bene_Age_74_65_Cnt,Bene_Age_GT_74_Cnt\n01,20,20\n", {}, ", row 1, column 'Bene_Age_74_65_Cnt': a label must run from low to high"),
    "eurostat-two-currencies": (EURO, {}, r", column 'currency': one value must be chosen, got 'EUR', 'NAC'; say where=\{'currency': 'EUR'\}"),
    "eurostat-dimensions": (tidy("A,D1,TC,EUR,AT", "A,D1,TC,AT", text=EURO), EURO_WHERE, r", row 2, column 'freq,quantile,.*': must name 5 dimensions, got 'A,D1,TC,AT'; check"),
    "eurostat-value": (tidy("D1,TC,EUR,AT\t", "D1,TC,EUR,AT\tx", text=EURO), {"where": {"currency": "EUR", "TIME_PERIOD": "2021"}}, ", row 2, column 'OBS_VALUE': must be a number, got 'x[0-9]+'"),
    "eurostat-quantile": (EURO.replace("D3", "D13"), EURO_WHERE, ", row [0-9]+, column 'quantile': must be a quantile such as D1, Q1, QU1 or P95, got 'D13'; leave"),
    "eurostat-missing": (re.sub(r"\t.*", "\t: \t: \t: ", EURO.replace("\t2021 \t2022 \t2023 ", "@")).replace("@", "\t2021 \t2022 \t2023 "), EURO_WHERE, ": must hold values, got missing ones only; choose others"),
    "eurostat-no-quantile": ("freq,unit,geo\\TIME_PERIOD\t2020\nA,EUR,AT\t5\n", {}, ": must say what its values are in a column 'statinfo' or 'indic_il', got 'freq'"),
    "eurostat-falling": (tidy("A,D1,TC,EUR,AT\t", "A,D1,TC,EUR,AT\t9\t9\t99999999\n#\t", text=EURO).replace("#\t", "A,P1,TC,NAC,AT\t"), EURO_WHERE, ", row 2: block 'AT': order statistics must not decrease"),
    # -- Parquet
    "parquet-magic-only": (b"PAR1", {}, r": must be a whole Parquet file, got damaged data \("),
    "parquet-garbage": (b"PAR1" + b"\xff" * 200 + b"PAR1", {}, r": must be a whole Parquet file, got damaged data \("),
    "parquet-cut": (lambda: parquet({"block": ["a"], "value": [1.0]})[:-20], {}, r": must be a whole Parquet file, got damaged data \("),
    "parquet-nested": (lambda: parquet({"block": ["a"], "value": [[1.0, 2.0]]}), {}, ", row 1, column 'value': must hold text or numbers, got list<.*>; flatten it"),
    "parquet-binary": (lambda: parquet({"block": [b"a"], "value": [1.0]}), {}, ", row 1, column 'block': must hold text or numbers, got binary"),
    "parquet-null": (lambda: parquet({"block": ["a"], "value": [None]}), {}, ", row 2, column 'value': must be a number, got ''"),
    "parquet-infinite": (lambda: parquet({"block": ["a"], "value": [np.inf]}), {}, ", row 2, column 'value': must be a number, got 'inf'"),
    "parquet-columns": (lambda: parquet({str(k): [1] for k in range(10_001)}), {}, ": must have at most 10,000 columns and 20,000,000 cells, got 10,001 columns of 1 rows"),
    "parquet-rows": (lambda: parquet({c: np.zeros(10**7 + 1, np.int8) for c in "ab"}), {}, ": must have at most 10,000 columns and 20,000,000 cells, got 2 columns of 10,000,001 rows"),
    "parquet-long-text": (lambda: parquet({"block": ["x" * 40_000], "value": [1.0]}), {}, ", row 2: cells must have at most 32,767 characters, got 40,000"),
    "parquet-bytes": (lambda: parquet({"block": ["a"] * 9000, "value": np.arange(9000.0)}), {"max_bytes": 60_000}, ": must hold at most 60,000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_error_that_names_file_row_and_column(name, tmp_path):
    content, options, message = CASES[name]
    data = content() if callable(content) else content
    path = tmp_path / f"{name}.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    began = time.perf_counter()
    with pytest.raises(ReadError) as caught:
        read_release(path, **options)
    assert time.perf_counter() - began < 20
    text = str(caught.value)
    assert re.match(re.escape(f"{name}.csv") + ".*(?:" + message + ")", text, re.S), text
    assert "\n" not in text
    assert len(text) < 800
    rest = text.partition(": ")[2]
    assert ", got " in rest
    assert "; " in rest


def test_there_are_many():
    assert len(CASES) >= 100


# -- paths -----------------------------------------------------------------------------------------


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(ReadError, match=r"^nothing\.csv: must be a file, got no such file; check"):
        read_release(tmp_path / "nothing.csv")
    with pytest.raises(
        ReadError, match="must hold a table, got no file with one; check the download"
    ):
        read_release(tmp_path)
    for odd in ("nul\0.csv", ""):
        with pytest.raises(
            ParameterError, match=r"^path: must be the path of a file, got '.*'; pass"
        ):
            read_release(odd)
    with pytest.raises(ReadError, match="cannot be opened, got File name too long; check path"):
        read_release("x" * 5000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadError, match=r"^pipe: must be a file, got a device; check the path"):
        read_release(tmp_path / "pipe")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text(TIDY)
    path.chmod(0)
    with pytest.raises(ReadError, match="cannot be opened, got Permission denied; check the perm"):
        read_release(path)


def test_a_file_that_cannot_be_opened(tmp_path, monkeypatch):
    path = tmp_path / "locked.csv"
    path.write_text(TIDY)

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadError, match=r"^locked\.csv: cannot be opened, got Permission denied"):
        read_release(path)


def test_odd_names_are_escaped(tmp_path):
    path = tmp_path / "a\nb\x1b[31m.csv"
    path.write_text("")
    with pytest.raises(ReadError) as caught:
        read_release(path)
    assert str(caught.value).startswith(r"a\nb\x1b[31m.csv: must hold a table")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet({"block": ["a"], "value": [1.0]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ReadError, match=r"Parquet needs pyarrow, got none; pip install unbin\[par"):
        read_release(path)


def test_a_table_with_too_many_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_CELLS", 10)
    path = tmp_path / "large.csv"
    path.write_text(TIDY)
    with pytest.raises(ReadError, match=r"large.csv, row 3: must have at most 10 cells up to here"):
        read_release(path)


def test_too_many_cells_that_are_not_listed(monkeypatch):
    monkeypatch.setattr(wonder, "MAX_CELLS", 10)
    with pytest.raises(ReadError, match=r"must have fewer cells, got 2 blocks of 9 bins; choose"):
        read_release(FIXTURES / "wonder_births.txt", where={"Year": "2018"})


def test_a_damaged_page_of_parquet(tmp_path):
    data = bytearray(parquet({"block": [f"x{k}" for k in range(999)], "value": np.arange(999.0)}))
    data[60:400] = b"\xff" * 340
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    with pytest.raises(ReadError, match=r"t.parquet, row 1: must be a whole Parquet file, got dam"):
        read_release(path)


# -- memory and time -------------------------------------------------------------------------------


def peak(path, **options):
    """Return the most bytes that reading a hostile file holds at once."""
    tracemalloc.start()
    with pytest.raises(ReadError):
        read_release(path, **options)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_memory_stays_bounded(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(bomb())
    assert peak(path, max_bytes=2**20) < 2**23
    path.write_text(wide(10**6))
    assert peak(path) < 2**27
    path.write_bytes(b'block,value\n"' + b"x" * 2**24)
    assert peak(path) < 2**27
    path.write_bytes(b"block,value\n" + b"a,1\n" * 20_000 + b"x" * 200 + b",y\n")
    assert peak(path) < 2**25


def test_long_ids_are_not_padded_into_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAX_ID_BYTES", 2**16)
    path = tmp_path / "ids.csv"
    path.write_text("block,value\n" + "a,1\n" * 200 + "x" * 199 + ",2\n")
    with pytest.raises(ReadError, match=r"row 202, column 'block': block ids must be shorter"):
        read_release(path)


@pytest.mark.parametrize(
    "label",
    [
        "9" * 200,
        "1," * 99,
        "- " * 100,
        "< " * 100,
        "1 to " * 40,
        "and " * 50,
        "1 or " * 40 + "more",
    ],
)
def test_labels_take_no_time(label, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(f'block,label,count\na,"{label}",1\n')
    began = time.perf_counter()
    try:
        read_release(path)
    except ReadError as error:
        assert str(error).startswith("labels.csv, row 2, column 'label': ")  # noqa: PT017
    assert time.perf_counter() - began < 2


# -- mutations -------------------------------------------------------------------------------------


def test_mutated_fixtures_raise_nothing_else():
    counts = fuzz.run("readers", 2000, seed=1)
    assert sum(counts.values()) == 2000
    assert set(counts) <= {"read", "ReadError", "ParameterError"}
    assert counts["read"] > 50
    assert counts["ReadError"] > 500
