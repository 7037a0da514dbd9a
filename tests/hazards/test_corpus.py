"""Tests that the race check names every intended bug by its kind and reports nothing for the
correct programs.
"""

import json

import pytest

from running import cli
import races_engines
import races_flow
import races_pipeline
import races_transfers

CASES = {f"{group}: {c.name}": c
         for module in (races_engines, races_transfers, races_flow, races_pipeline)
         for group, cases in module.CLASSES.items() for c in cases()}


def findings(path):
    done = cli("check", path, "--races", "--json", code=None, timeout=60)
    found = json.loads(done.stdout)
    assert "error" not in found, found["error"]["text"]
    assert done.returncode == (0 if found["ok"] else 3)
    return found


@pytest.mark.process
@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    wanted = CASES[name].hazards
    path = tmp_path / "k.jsonl"
    path.write_text(CASES[name].trace)
    found = findings(path)
    hazards = {r["hazard"] for r in found["races"]} | ({"stuck"} if found["stuck"] else set())
    if wanted:
        assert wanted <= hazards, f"{found}\n{CASES[name].trace}"
    else:
        assert not hazards, f"{found}\n{CASES[name].trace}"


def test_the_corpus_is_large_enough():
    bugs = sum(bool(c.hazards) for c in CASES.values())
    assert bugs >= 100
    assert len(CASES) - bugs >= 50
