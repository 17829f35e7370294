"""Results as JSON and back, by the types that their dataclasses declare.

Numbers that JSON does not have are written as the texts "nan", "inf" and "-inf". What is read is
held to the declared types: nothing else is built, and nothing is run.
"""

from __future__ import annotations

import dataclasses
import math
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from unbin.exceptions import ModelFileError
from unbin.families import FAMILIES, Family, get_family

_ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_KINDS = {np.float64: "float", np.int64: "int", np.bool_: "bool", np.str_: "str"}


def encode(value: Any, *, leave_out: tuple[str, ...] = ()) -> Any:
    """Return a value as JSON can hold it; ``leave_out`` names fields of the outermost object."""
    if isinstance(value, Family):
        return {"name": value.name, "n_trials": getattr(value, "n_trials", 1)}
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value))
        return {name: encode(getattr(value, name)) for name in fields if name not in leave_out}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist())
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(kind: Any, value: Any, where: str, *, given: dict[str, Any] | None = None) -> Any:
    """Return a value of type ``kind``; ``given`` holds fields of a dataclass that are not read."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(get_args(kind), value, where)
    if origin is np.ndarray:
        return _decode_array(get_args(get_args(kind)[1])[0], value, where)
    if origin is tuple:
        item = get_args(kind)[0]
        return tuple(
            decode(item, part, f"{where}[{k}]") for k, part in enumerate(_list(value, where))
        )
    if origin is dict:
        return _decode_dict(get_args(kind), value, where)
    if kind is Family:
        return _decode_family(value, where)
    if dataclasses.is_dataclass(kind):
        return _decode_object(kind, value, where, given or {})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, value, where)
    return _decode_scalar(kind, value, where)


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    return decode(kinds[0], value, where)


def _decode_enum(kind: type[Enum], value: Any, where: str) -> Enum:
    if not isinstance(value, str) or value not in kind.__members__:
        raise _wrong(where, "a known status", value)
    return kind[value]


def _decode_array(scalar: Any, value: Any, where: str) -> Any:
    kind = {"float": float, "int": int, "bool": bool, "str": str}[_KINDS[scalar]]

    def convert(item: Any) -> Any:
        if isinstance(item, list):
            return [convert(part) for part in item]
        return _decode_scalar(kind, item, where)

    try:
        return np.array(convert(_list(value, where)), dtype=scalar)
    except (ValueError, OverflowError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise _wrong(where, "rows of the same length", "others") from None


def _decode_dict(kinds: tuple[Any, Any], value: Any, where: str) -> dict[Any, Any]:
    """Return a mapping of texts, or of the numbers that these spell."""
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return {
        _key(kinds[0], name, where): decode(kinds[1], item, f"{where}[{name}]")
        for name, item in value.items()
    }


def _key(kind: Any, name: str, where: str) -> Any:
    if kind is str:
        return name
    try:
        return kind(name)
    except ValueError:
        raise _wrong(where, "an object with numbers for names", name) from None


def _decode_object(kind: Any, value: Any, where: str, given: dict[str, Any]) -> Any:
    hints = get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)} - set(given)
    if not isinstance(value, dict) or set(value) != names:
        got = sorted(value) if isinstance(value, dict) else value
        raise _wrong(where, f"the fields {', '.join(sorted(names))}", got)
    parts = {name: decode(hints[name], value[name], f"{where}.{name}") for name in names}
    return kind(**parts, **given)


def _decode_family(value: Any, where: str) -> Family:
    if not isinstance(value, dict) or set(value) != {"name", "n_trials"}:
        raise _wrong(where, "a name and n_trials", value)
    if not isinstance(value["name"], str) or value["name"] not in FAMILIES:
        raise _wrong(f"{where}.name", "a known family", value["name"])
    n_trials = _decode_scalar(int, value["n_trials"], f"{where}.n_trials")
    if not 1 <= n_trials < 2**31:
        raise _wrong(f"{where}.n_trials", "a number of trials", n_trials)
    return get_family(value["name"], n_trials)


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float:
        if isinstance(value, str) and value in _ODD:
            return _ODD[value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number):
                return number
        raise _wrong(where, "a finite number", value)
    if type(value) is not kind or (kind is int and abs(value) >= 2**63):
        raise _wrong(where, {int: "a whole number", bool: "true or false"}.get(kind, "text"), value)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    return value


def _wrong(where: str, wanted: str, got: Any) -> ModelFileError:
    text = repr(got)
    short = text if len(text) <= 60 else text[:60] + "…"
    return ModelFileError(f"{where}: must be {wanted}, got {short}; save the model again")
