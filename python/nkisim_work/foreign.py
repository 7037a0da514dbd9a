"""Reads JSON from untrusted files: of bounded size, and each field of the type that is asked for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

MOST_BYTES, MOST_DEPTH = 16 << 20, 64


class Foreign(ValueError):
    """The value that was read is not the one asked for: `found` and `required` are for a message."""

    def __init__(self, found: str, required: str) -> None:
        super().__init__(f"{found}; {required} is required")
        self.found, self.required = found, required


def _no_number(text: str) -> NoReturn:
    raise Foreign(text, "JSON, which has no such number,")


def _whole(text: str) -> int:
    if len(text) > 30:
        raise Foreign(f"a number of {len(text)} digits", "one of 64 bits")
    return int(text)


def _depth(value: Any, most: int) -> None:
    """Foreign if lists and objects lie deeper in each other than `most`."""
    level, depth = [value], 0
    while level:
        if depth >= most:
            raise Foreign(f"more than {most} lists and objects in each other", f"at most {most}")
        level = [item for each in level if isinstance(each, (list, dict))
                 for item in (each.values() if isinstance(each, dict) else each) if isinstance(item, (list, dict))]
        depth += 1


def loads(data: str | bytes, most_bytes: int = MOST_BYTES, most_depth: int = MOST_DEPTH) -> Any:
    """The value of a JSON text. Raises Foreign for what is none, or larger or deeper than that."""
    if len(data) > most_bytes:
        raise Foreign(f"more than {most_bytes} bytes", f"at most {most_bytes}")
    try:
        value = json.loads(data, parse_constant=_no_number, parse_int=_whole)
    except Foreign:
        raise
    except RecursionError:
        raise Foreign(f"more than {most_depth} lists and objects in each other", f"at most {most_depth}") from None
    except (ValueError, MemoryError) as problem:
        raise Foreign(f"no JSON ({problem})", "JSON") from None
    _depth(value, most_depth)
    return value


def read(path: str | os.PathLike, most_bytes: int = MOST_BYTES, most_depth: int = MOST_DEPTH) -> Any:
    """The value in a file, of which no more is read. Raises Foreign, and OSError for what cannot be opened."""
    with open(path, "rb") as file:
        return loads(file.read(most_bytes + 1), most_bytes, most_depth)


class Fields(Mapping[str, Any]):
    """The fields of a JSON object. `refuse(found, required)` makes the exception for one that is not as asked for."""

    def __init__(self, value: Any, refuse: Callable[[str, str], Exception] = Foreign, what: str = "it") -> None:
        self._refuse = refuse
        if not isinstance(value, dict):
            raise refuse(f"{what} holds a {type(value).__name__}", "an object")
        self._value: dict[str, Any] = value

    def __getitem__(self, key: str) -> Any:
        return self._value[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def _no(self, key: str, required: str) -> NoReturn:
        text = repr(self._value.get(key))
        raise self._refuse(f"{key} is {text if len(text) <= 80 else text[:77] + '...'}", required)

    def integer(self, key: str, default: int | None = None, least: int = 0, most: int = 2**31 - 1) -> int:
        """A whole number; `default` where the key is missing."""
        value = self._value.get(key, default)
        if type(value) is not int or not least <= value <= most:
            self._no(key, f"an integer from {least} to {most}")
        return value

    def real(self, key: str, default: float | None = None, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number."""
        value: Any = self._value.get(key, default)
        if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
            between = "" if math.isinf(least) and math.isinf(most) else f" from {least:g} to {most:g}"
            self._no(key, f"a number{between}")
        return float(value)

    def truth(self, key: str, default: bool = False) -> bool:
        """True or false; null is the default."""
        value = self._value.get(key)
        if value is None:
            return default
        if type(value) is not bool:
            self._no(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None, most: int = 1 << 16) -> str:
        value = self._value.get(key, default)
        if type(value) is not str or len(value) > most:
            self._no(key, f"a text of at most {most} characters")
        return value

    def texts(self, key: str, most: int = 1 << 16) -> list[str]:
        """A list of texts, none where the key is missing."""
        value = self._value.get(key, [])
        if type(value) is not list or len(value) > most or not all(type(item) is str for item in value):
            self._no(key, f"a list of at most {most} texts")
        return value


__all__ = ["Fields", "Foreign", "loads", "read"]
