# ruff: noqa: ARG001, E501
"""Damage done to files: bytes, cells, lines, and the values of JSON."""

from __future__ import annotations

import copy
import gzip
import io
import json
import math
import random
import zipfile
from collections.abc import Callable
from typing import Any

from workbooks import zipped

CELLS = [
    b"", b" ", b"*", b"#", b"-", b"N", b"(X)", b":", b": c", b"Suppressed", b"-999999", b"nan",
    b"inf", b"-inf", b"1e400", b"1e15", b"1e308", b"-1", b"0", b"0.5", b"=cmd()", b"@x", b"\"", b"\"\"",
    b"'", b"<5", b"2,500-", b"250,000+", b"\"1,000\"", b"1,0", b"9" * 400, b"x" * 250, b"\x00", b"\xff",
    "٣".encode(), "≤ 4".encode(), "∞".encode(), b"Total", b"Not Stated", b"5-9", b"10+", b"[5, 10)",
    b"less than 5", b"$200,000 or more", b"D10", b"QU9", b"P0", b"block", b"count", b"value", b"n",
    b"quantile", b"lower", b"upper", b"label", b"mean", b"total", b"percent", b"count_low", b"---",
    b"B19001_001E", b"Estimate!!Total:", b"geo\\TIME_PERIOD", b"Bene_Age_LT_65_Cnt", b"Notes",
]  # fmt: skip
SEPARATORS = [b",", b"\t", b";", b"\n", b"\r", b"\r\n", b'"']
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 1e300, -1e-300, 2**63, 10**400, "", "x", "nan", "inf", "-inf", "\ud800", "x" * 500, [], {}, [[]],
    [None], ["nan"], [1.0], [[1.0], [1.0, 2.0]], {"a": 1}, [[[[[[[[]]]]]]]],
]  # fmt: skip
"""What may stand anywhere in JSON."""
Mutation = Callable[[bytes, random.Random, list[bytes]], bytes]


def flip(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        result[rng.randrange(len(result))] = rng.randrange(256)
    return bytes(result)


def cut(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def remove(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 60) :]


def repeat(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return (
        data[:start] + data[start : start + rng.randint(1, 200)] * rng.randint(2, 5) + data[start:]
    )


def insert(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.choice(SEPARATORS + CELLS) + data[start:]


def cell(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Swap one to three cells for hostile ones."""
    separator = b"\t" if b"\t" in data else b";" if b";" in data.partition(b"\n")[0] else b","
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(lines))
        cells = lines[k].split(separator)
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
        lines[k] = separator.join(cells)
    return b"\n".join(lines)


def lines(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Swap, repeat or drop whole lines."""
    rows = data.split(b"\n")
    a, b = rng.randrange(len(rows)), rng.randrange(len(rows))
    how = rng.randrange(3)
    if how == 0:
        rows[a], rows[b] = rows[b], rows[a]
    elif how == 1:
        rows.insert(a, rows[b])
    elif len(rows) > 1:
        del rows[a]
    return b"\n".join(rows)


def join(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    other = rng.choice(pool)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def pack(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    packed = gzip.compress(data, compresslevel=1)
    return packed if rng.random() < 0.5 else flip(packed, rng, pool)


def member(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Damage a file in an archive or a workbook under checksums that are right; or make one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {each.filename: archive.read(each) for each in archive.infolist()}
    except Exception:
        files = {"a.csv": data, "b.csv": rng.choice(pool)}
    name = rng.choice(list(files) or ["a.csv"])
    files[name] = rng.choice([flip, cut, remove, repeat, insert])(
        files.get(name) or b"0", rng, pool
    )
    return zipped(files)


def recode(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    text = data.decode("latin-1")
    return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-8-sig", "utf-32"]))


def value(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Change, double, drop or swap one to three values of JSON, as deep as they may be."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return flip(data, rng, pool)
    for _ in range(rng.randint(1, 3)):
        place = _place(tree, rng)
        if place is None:
            break
        holder, key = place
        how = rng.randrange(6)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif how == 2:
            other = _place(tree, rng) or place
            holder[key] = copy.deepcopy(other[0][other[1]])
        elif how == 3 and isinstance(holder[key], float):
            whole = int(holder[key]) if math.isfinite(holder[key]) else 0
            holder[key] = rng.choice([-holder[key], holder[key] * 1e200, whole])
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    return json.dumps(tree).encode()


def _place(tree: Any, rng: random.Random) -> tuple[Any, Any] | None:
    """Return a holder and the key of one of its values, found by walking down at random."""
    found = None
    while isinstance(tree, dict | list) and tree:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        found, tree = (tree, key), tree[key]
        if rng.random() < 0.25:
            break
    return found


def doubled(data: bytes, rng: random.Random, pool: list[bytes]) -> bytes:
    """Write a key of JSON twice."""
    end = data.rfind(b"}")
    keys = [part.split(b'"')[0] for part in data.split(b'"')[1::2]] or [b"x"]
    return data[:end] + b', "' + rng.choice(keys) + b'": 1' + data[end:]


OF_TABLES: list[Mutation] = [
    flip, cut, remove, repeat, insert, insert, cell, cell, cell, cell, lines, lines, join, pack, recode,
    member, member,
]  # fmt: skip
OF_JSON: list[Mutation] = [
    value, value, value, value, value, value, flip, flip, cut, remove, repeat, insert, join, doubled, recode,
]  # fmt: skip
