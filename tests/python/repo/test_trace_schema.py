"""Tests that the program files in traces/ obey their JSON Schema, docs/trace.schema.json."""

import json

import pytest

from nkisim.values.errors import SDKS
from running import ROOT

jsonschema = pytest.importorskip("jsonschema")

TRACES = sorted((ROOT / "traces").glob("*.jsonl"))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((ROOT / "docs" / "trace.schema.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.stem)
def test_committed_traces_obey_the_schema(trace, validator):
    for number, line in enumerate(trace.read_text().splitlines(), 1):
        errors = [e.message for e in validator.iter_errors(json.loads(line))]
        assert not errors, f"{trace.name}:{number}: {errors[0]}"


def test_an_order(validator):
    line = {"i": "memset", "dst": "a", "value": 0, "id": 2, "after": [1]}
    assert not list(validator.iter_errors(line))
    for key, value in (("id", 0), ("id", "x"), ("after", 1), ("after", [0])):
        assert list(validator.iter_errors({**line, key: value}))


def test_the_schema_refuses_what_is_not_a_trace(validator):
    assert list(validator.iter_errors({"nisa": "one"}))
    assert list(validator.iter_errors({"tensor": {"name": "a"}}))


def test_the_schema_knows_every_release():
    schema = json.loads((ROOT / "docs" / "trace.schema.json").read_text())
    assert f'"enum": {json.dumps(list(SDKS))}' in json.dumps(schema)
