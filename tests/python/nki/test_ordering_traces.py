"""Tests that a file of instructions (trace) keeps the order that its kernel asks for: saved,
converted, compiled.
"""
import json
import re

import pytest

import nkisim
from running import cli
from scheduled_kernels import X, long_then_short

pytestmark = pytest.mark.process


def test_a_saved_program_has_the_order(tmp_path):
    result = nkisim.run(long_then_short.with_schedule([("long", "short")]), X, target="trn2")
    for compiled in (True, False):
        for name in ("k.nisa", "k.jsonl"):
            path = tmp_path / name
            result.save(path, compiled=compiled)
            done = cli("run", path, "--json", "--timing-only")
            summary = json.loads(done.stdout)["summary"]["nc_0"]
            assert summary["total_time"] == result.summary["nc_0"]["total_time"]
    text = (tmp_path / "k.jsonl").read_text()
    assert '"id":1' in text and '"after":[1]' in text
    converted = tmp_path / "again.jsonl"
    cli("convert", tmp_path / "k.nisa", converted)
    assert converted.read_text() == text
    explained = cli("compile", tmp_path / "k.nisa", "-o", tmp_path / "o.nisa", "--explain").stdout
    assert "1 dependences that the kernel adds" in explained
    assert "1 instructions moved behind later ones" in explained


HEADER = '{"nisa": 1, "target": "trn2"%s}'
TILE = '{"tensor": {"name": "%s", "space": "sbuf", "dtype": "float32", "shape": [128, 8], "address": %d}}'
TILES = [TILE % ("a", 0), TILE % ("b", 64)]


@pytest.mark.parametrize("lines,words", [
    (['{"i": "memset", "dst": "a", "value": 0, "after": [1]}'], "k.jsonl:4: memset: after names id 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": [1]}',
      '{"i": "memset", "dst": "b", "value": 0, "id": 1}'], "comes later; an earlier instruction"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 1, "after": [1]}'], "comes later"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 1}',
      '{"i": "memset", "dst": "b", "value": 0, "id": 1}'], "id 1 is also that of memset .line 4."),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 0}'], "id is 0; an integer from 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 4294967297}'], "an integer from 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": 1}'], "after is 1; a list of ids"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": ["x"]}'], "an integer from 1"),
    (['{"i": "register_move", "dst": "r0", "src": 1, "id": 1}'], "runs on the sequencers"),
])
def test_traces_that_order_wrongly(simulate, lines, words):
    done = simulate([HEADER % "", *TILES, *lines], code=3)
    assert re.search(words, done.stderr), done.stderr


def test_no_ids_next_to_explicit_semaphores(simulate):
    lines = ['{"i": "memset", "dst": "a", "value": 0, "id": 1}']
    done = simulate([HEADER % ', "semaphores": "explicit"', *TILES, *lines], code=3)
    assert "wait and post are required there" in done.stderr
