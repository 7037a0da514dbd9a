"""Each row of refusals.json: a note once by default, a finding with --strict, silence where the row does not hold."""

import numpy as np
import pytest

import nkisim
import strict_findings
from nkisim.record import refusals

nkisim.install()

import neuronxcc.nki.language as old  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from neuronxcc import nki as legacy  # noqa: E402

X = np.random.default_rng(0).random((128, 8), np.float32)


def out(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def with_operator(op):
    def kernel(x):
        o, t = out(x), nl.load(x)
        for _ in range(2):
            nisa.tensor_tensor(dst=t, data1=t, data2=t, op=op)
        nl.store(o, t)
        return o
    return kernel


def with_operand(function):
    def kernel(x):
        o = out(x)
        nl.store(o, function(x))
        return o
    return kernel


def legacy_operator(x):
    o = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
    t = old.load(x)
    largest = legacy.isa.tensor_reduce(op=old.max, data=t, axis=1)
    old.store(o, legacy.isa.tensor_tensor(t, largest.broadcast_to(x.shape), op=np.add))
    return o


def legacy_operand(x):
    o = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
    old.store(o, old.square(x))
    return o


def stored(x):
    o = out(x)
    nl.store(o, x)
    return o


def of_psum(function, tile=lambda: nl.ndarray((128, 8), nl.float32, nl.psum)):
    """`function` of a tile that is filled here."""
    def kernel(x):
        o, t = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm), tile()
        nisa.memset(t, 1)
        if function is nl.store:
            nl.store(o, t)
        else:
            nisa.dma_copy(o, nl.copy(function(t), dtype=nl.float32))
        return o
    return kernel


def tile(dtype, buffer):
    return lambda: nl.ndarray((128, 8), dtype, buffer)


#: Functions of nki.language by how a kernel calls them with a tensor in HBM.
ON_HBM = {name: (lambda x, f=name: getattr(nl, f)(x)) for name in
          "exp square negative sin floor abs reciprocal copy softmax tanh".split()} | {
    "add": lambda x: nl.add(x, 1.0), "multiply": lambda x: nl.multiply(x, nl.load(x)),
    "where": lambda x: nl.where(nl.load(x), x, 0.0), "operator": lambda x: x * 2.0,
    "softmax": lambda x: nl.softmax(x, axis=-1)}
#: (kernel, rule or "")
CASES = {
    **{f"operator {op!r}": (with_operator(op), "operator_alias") for op in (nl.max, nl.min, nl.sum, "max", "sum")},
    **{f"numpy {op.__name__}": (with_operator(op), "operator_alias") for op in (np.maximum, np.max, max)},
    **{f"operator {op!r}": (with_operator(op), "") for op in (nl.maximum, nl.add, nl.minimum)},
    **{f"{name} of HBM": (with_operand(f), "hbm_operand") for name, f in ON_HBM.items()},
    "store of HBM": (stored, "hbm_operand"),
    "load of a tile": (with_operand(lambda x: nl.load(nl.load(x))), "load_of_tile"),
    "square of a tile": (with_operand(lambda x: nl.square(nl.load(x))), ""),
    "reduction by a function": (with_operand(lambda x: nl.broadcast_to(nl.max(nl.load(x), axis=1), x.shape)), ""),
}
#: The same, with the releases in which the row holds.
RELEASES = {
    "copy of int32": (of_psum(nl.copy, tile(nl.int32, nl.sbuf)), "copy_by_float32", ["2.29", "2.30", "2.31"]),
    "copy of int16": (of_psum(nl.copy, tile(nl.int16, nl.sbuf)), "copy_by_float32", []),
    "copy of PSUM": (of_psum(nl.copy), "copy_between_memories", ["2.29", "2.30", "2.31"]),
    "copy of SBUF": (of_psum(nl.copy, tile(nl.float32, nl.sbuf)), "copy_between_memories", []),
    "store of PSUM": (of_psum(nl.store), "store_of_psum", ["2.29"]),
    "rsqrt of PSUM": (of_psum(nl.rsqrt), "rsqrt_of_psum", ["2.31", "2.32", "2.33"]),
    "rsqrt of SBUF": (of_psum(nl.rsqrt, tile(nl.float32, nl.sbuf)), "rsqrt_of_psum", []),
}


LEGACY = {"legacy operator": (legacy_operator, ""), "legacy operand": (legacy_operand, "hbm_operand")}


def said(kernel, monkeypatch, strict, sdk="", target="trn2", dialect=None, args=(X,)):
    """What a run says of rows of refusals.json: notes, with strict findings."""
    monkeypatch.setenv("NKISIM_STRICT", "1" if strict else "0")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    monkeypatch.setattr("nkisim.record.strict._told", set())
    found, notes = strict_findings.said(
        lambda: dialect(kernel)(*args) if dialect else nkisim.run(kernel, *args, target=target))
    of_rows = [[text for text in texts if any(row["source"] in text for row in refusals.table().values())]
               for texts in ([text for _, _, text in found], notes)]
    assert not of_rows[strict]
    return of_rows[not strict]


@pytest.mark.parametrize("case", [*CASES, *LEGACY])
def test_a_note_once_and_a_finding_with_strict(case, monkeypatch):
    kernel, rule = {**CASES, **LEGACY}[case]
    dialect = legacy.jit if case in LEGACY else None
    for strict in (False, True):
        found = said(kernel, monkeypatch, strict, "2.26" if dialect else "", dialect=dialect)
        assert len(found) == bool(rule), found
        if rule:
            row = refusals.table()[rule]
            assert row["source"] in found[0] and found[0].endswith("is required")


@pytest.mark.parametrize("limit, found", [(3, 0), (2, 1)])
def test_a_kernel_of_too_many_instructions(limit, found, monkeypatch):
    """A load, an addition and a store: three instructions."""
    assert refusals.table()["instruction_limit"]["limit"] == 5_000_000
    monkeypatch.setitem(refusals.table()["instruction_limit"], "limit", limit)
    texts = said(with_operand(lambda x: nl.add(nl.load(x), 1.0)), monkeypatch, True)
    assert ["has 3 instructions" in text and "NCC_EBVF030" in text for text in texts] == [True] * found


@pytest.mark.parametrize("case", RELEASES)
def test_a_row_holds_in_its_releases(case, monkeypatch):
    kernel, rule, releases = RELEASES[case]
    begins = refusals.table()[rule]["says"].split("{")[0]
    for sdk in ("2.28", "2.29", "2.30", "2.31", "2.32", "2.33"):
        found = [text for text in said(kernel, monkeypatch, True, sdk) if text.startswith(begins)]
        assert len(found) == (sdk in releases), (sdk, found)


def test_every_row_has_a_case():
    """Those of the legacy page of errors have theirs in test_error_page."""
    cases = [*CASES.values(), *LEGACY.values(), *RELEASES.values()]
    rules = {rule for rule, row in refusals.table().items() if row["api"] != "neuronxcc"}
    assert {rule for _, rule, *_ in cases} - {""} == rules - {"instruction_limit"}
