"""Checks the JSON results of `nkisim evaluate` against schema_1.json before they are written
(docs/evaluate.md).
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
                                       "null": (type(None),), "integer": (int,), "number": (int, float)}


@functools.cache
def _schema() -> dict[str, Any]:
    return json.loads((pathlib.Path(__file__).parent / "schema_1.json").read_text(encoding="utf-8"))


def problem_of(record: Any) -> str | None:
    """The mistake of a record, or None. What is ok has a latency, and what is not says why."""
    found = next(_problems(record, _schema(), "record"), None)
    if found is None and record["status"] == "ok" and record["latency_us"] is None:
        return "record.latency_us is null where status is ok"
    if found is None and record["status"] != "ok" and "error" not in record:
        return f"record.error is missing where status is {record['status']}"
    return found


def _is_of(value: Any, name: str) -> bool:
    if name in ("integer", "number"):
        return type(value) in _TYPES[name] and math.isfinite(value)
    return isinstance(value, _TYPES[name])


def _problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Where a value is not as a schema has it: the keywords that schema_1.json uses."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        yield f"{where} is {value!r:.80}; {' or '.join(kinds)} is required"
        return
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r:.80}; {schema.get('const', schema.get('enum'))} is required"
    if type(value) in (int, float):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{where} is {value!r:.80}, which is out of bounds"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            yield f"{where} is {value!r:.80}; more than {schema['exclusiveMinimum']} is required"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} has {len(value)} items; {schema['minItems']} are required"
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items", {}), f"{where}[{number}]")
    if isinstance(value, dict):
        yield from _problems_of_members(value, schema, where)


def _problems_of_members(value, schema, where):
    for name in schema.get("required", []):
        if name not in value:
            yield f"{where}.{name} is missing"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if name not in known and others is False:
            yield f"{where}.{name!s:.80} is no field"
        else:
            yield from _problems(item, known.get(name, others if isinstance(others, dict) else {}), f"{where}.{name}")


def identifier(value: Any) -> str | int | float | None:
    """A candidate's id as a record may have it: a text or number; anything else as text."""
    if value is None or type(value) in (int, str) or type(value) is float and math.isfinite(value):
        return value
    return json.dumps(value, default=str)[:200]
