"""Tests that every rule of every instruction (tests/isa/rules.json) is broken by some test."""

import json
import pathlib
import re

import numpy as np
import pytest

import nkisim
from running import PROGRAM, ROOT

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

RULES = {k: v for k, v in json.loads((ROOT / "tests/isa/rules.json").read_text()).items()
         if k != "about"}
SHARED = ("every instruction", "tensor indirection")


def broken_cases(op):
    """Titles of the cases of `op` that must fail, with the message they must give."""
    path = ROOT / "isa" / "ops" / f"{op}.cases.json"
    cases = json.loads(path.read_text()) if path.exists() else []
    return {c["case"]: c["error"] for c in cases if "error" in c}


@pytest.mark.parametrize("group", RULES)
def test_every_rule_is_broken_somewhere(group):
    for rule in RULES[group]:
        what = f"{group}: {rule['rule']}"
        assert rule.get("cases") or rule.get("tests") or rule.get("why"), what
        for title in rule.get("cases", []):
            op, title = title.split(": ", 1) if group in SHARED else (group, title)
            assert broken_cases(op).get(title), f"{what}: {op} has no failing case {title!r}"
        for test in rule.get("tests", []):
            path, name = test.split("::")
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), f"{what}: {test}"


def test_every_documented_instruction_has_its_rules():
    instructions = json.loads(pathlib.Path(PROGRAM).with_name("isa.json").read_text())["instructions"]
    documented = {i["name"] for i in instructions if "nki.isa." in i["sources"]}
    assert len(documented) > 45
    assert documented - set(RULES) == set()


def kernel(body):
    @nki.jit
    def run(x):
        out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        body(x, out)
        return out

    return lambda: run(np.ones((16, 8), np.float32))


def test_engine_of_a_copy_needs_hwdge():
    def copy(x, out, **mode):
        tile = nl.ndarray(x.shape, nl.float32, nl.sbuf)
        nisa.dma_copy(tile, x, engine=nisa.engine.scalar, **mode)
        nisa.dma_copy(out, tile)

    with pytest.raises(nkisim.Error, match="engine is .*scalar.*hwdge"):
        kernel(copy)()
    kernel(lambda x, out: copy(x, out, dge_mode=nisa.dge_mode.hwdge))()


def test_read_modify_write_does_not_skip():
    def add(x, out, **mode):
        tile = nl.ndarray(x.shape, nl.float32, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, x)
        nisa.dma_copy(out, tile, dst_rmw_op=nl.add, **mode)

    with pytest.raises(nkisim.Error, match="oob_mode"):
        kernel(lambda x, out: add(x, out, oob_mode=nisa.oob_mode.skip))()
    assert np.array_equal(kernel(add)(), np.full((16, 8), 2, np.float32))


def test_predicates_of_affine_select():
    import neuronxcc.nki.isa as old
    import neuronxcc.nki.language as ol

    def select(x, predicate):
        rows, columns = ol.mgrid[0:16, 0:8]
        tile = ol.load(x)
        return old.affine_select(pred=predicate(rows, columns, tile), on_true_tile=tile,
                                 on_false_value=0.0)

    def body(predicate):
        return kernel(lambda x, out: nl.store(out, select(x, predicate)))

    expected = np.tril(np.ones((16, 8), np.float32))
    assert np.array_equal(body(lambda r, c, t: r >= c)(), expected)
    for predicate in (lambda r, c, t: (r >= c) & (c > 2), lambda r, c, t: t, lambda r, c, t: r * c):
        with pytest.raises((nkisim.Error, TypeError)):
            body(predicate)()
