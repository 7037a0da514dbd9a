"""Tests each row of refusals.json, calls that AWS's compiler refuses: a note by default, an error
with --strict.
"""

import numpy as np
import pytest

import nkisim
import strict_findings
from nkisim.record import refusals

nkisim.install()

import neuronxcc.nki.language as old  # noqa: E402
import nki.collectives as ncc  # noqa: E402
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


def with_first_operator(op):
    """In the instruction right after a load, whose tile has no place yet."""
    def kernel(x):
        o, t = out(x), nl.load(x)
        nisa.tensor_tensor(t, t, t, op)
        nl.store(o, t)
        return o
    return kernel


def with_a_text(x):
    o, t = out(x), nl.load(x)
    for _ in range(2):
        nisa.tensor_tensor(dst=t, data1=t, data2=t, op="add")
    nl.store(o, t)
    return o


def with_a_text_of_another_name(x):
    o, t = out(x), nl.load(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op="max")
    nl.store(o, t)
    return o


def with_a_default(x, op="maximum"):
    o, t = out(x), nl.load(x)
    nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0, op1=op, operand1=0.0)
    nl.store(o, t)
    return o


class Names:
    reduce = "add"


def with_an_attribute(x):
    o, t = out(x), nl.load(x)
    total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(total, Names.reduce, t, axis=1)
    nl.store(o, nl.add(t, nl.broadcast_to(total, x.shape)))
    return o


def with_activation(op):
    def kernel(x):
        o, t = out(x), nl.load(x)
        nisa.activation(dst=t, op=op, data=t)
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
    **{f"operator {op!r}": (with_operator(op), "operator_alias") for op in (nl.max, nl.min, nl.sum)},
    **{f"operator {op!r} in a variable": (with_operator(op), "operator_text") for op in ("add", "max", "sum")},
    "text as a default": (with_a_default, "operator_text"), "text in an object": (with_an_attribute, "operator_text"),
    "text of an activation": (with_activation("exp"), "operator_text"),
    **{f"activation numpy {op.__name__}": (with_activation(op), "operator_alias") for op in (np.exp, np.tanh)},
    "activation": (with_activation(nl.exp), ""),
    **{f"numpy {op.__name__}": (with_operator(op), "operator_alias") for op in (np.maximum, np.max, max)},
    "first operator": (with_first_operator(nl.max), "operator_alias"),
    "text": (with_a_text, "operator_text"), "text of another name": (with_a_text_of_another_name, "operator_text"),
    "no dtype": (with_operand(lambda x: nl.zeros(x.shape)), "dtype_missing"),
    **{f"operator {op!r}": (with_operator(op), "") for op in (nl.maximum, nl.add, nl.minimum)},
    **{f"{name} of HBM": (with_operand(f), "hbm_operand") for name, f in ON_HBM.items()},
    "store of HBM": (stored, "hbm_operand"),
    "load of a tile": (with_operand(lambda x: nl.load(nl.load(x))), "load_of_tile"),
    "square of a tile": (with_operand(lambda x: nl.square(nl.load(x))), ""),
    "reduction by a function": (with_operand(lambda x: nl.broadcast_to(nl.max(nl.load(x), axis=1), x.shape)), ""),
}
SINCE_29 = ["2.29", "2.30", "2.31", "2.32", "2.33"]


def with_body(body):
    def kernel(x):
        o = out(x)
        nl.store(o, nl.load(x))
        body(x)
        return o
    return kernel


def on_tiles(name, *numbers, columns=8):
    """nl.NAME of a tile and another one of `columns`, or a number."""
    return with_body(lambda x: getattr(nl, name)(nl.load(x), *(numbers or [nl.load(x[:, 0:columns])])))


def square(transpose_x):
    return with_body(lambda x: nl.matmul(nl.load(x), nl.load(x), transpose_x=transpose_x) if transpose_x else
                     nl.matmul(nl.load(x[0:8]), nl.load(x[0:8])))


def seeded(seed):
    return with_body(lambda x: nl.random_seed(seed()))


def selection(cast):
    def body(x):
        at = nl.ndarray((4, 1), nl.uint32, nl.sbuf)
        nisa.memset(at, 1)
        rows = x.reinterpret_cast(nl.int32) if cast == "before" else x
        rows = rows.vector_select(0, at)
        rows = rows.reinterpret_cast(nl.int32) if cast == "after" else rows
        tile = nl.ndarray((4, 8), rows.dtype, nl.sbuf)
        nisa.dma_copy(tile, rows)
    return with_body(body)


#: The same, with the releases in which the row holds.
RELEASES = {
    "copy of int32": (of_psum(nl.copy, tile(nl.int32, nl.sbuf)), "copy_by_float32", ["2.29", "2.30", "2.31"]),
    "copy of int16": (of_psum(nl.copy, tile(nl.int16, nl.sbuf)), "copy_by_float32", []),
    "copy of PSUM": (of_psum(nl.copy), "copy_between_memories", ["2.29", "2.30", "2.31"]),
    "copy of SBUF": (of_psum(nl.copy, tile(nl.float32, nl.sbuf)), "copy_between_memories", []),
    "store of PSUM": (of_psum(nl.store), "store_of_psum", ["2.29"]),
    "rsqrt of PSUM": (of_psum(nl.rsqrt), "rsqrt_of_psum", ["2.31", "2.32", "2.33"]),
    **{f"{name} of two tiles": (on_tiles(name), "no_such_operation", SINCE_29) for name in ("divide", "fmod", "mod")},
    "quotient of a number": (on_tiles("divide", 2.0), "no_such_operation", SINCE_29),
    "power of a number": (on_tiles("power", 2.0), "power_of_number", SINCE_29),
    "power of a tile": (on_tiles("power"), "power_of_number", []),
    **{f"{name} of a column": (on_tiles(name, columns=1), "unlike_shapes", SINCE_29)
       for name in ("add", "maximum", "greater", "logical_and")},
    "add of one shape": (on_tiles("add"), "unlike_shapes", []),
    "add of a number": (on_tiles("add", 1.0), "unlike_shapes", []),
    "seed of a number": (seeded(lambda: 3), "seed_of_number", SINCE_29),
    "seed of a tile": (seeded(lambda: nl.full((1, 1), 3, dtype=nl.int32)), "seed_of_number", []),
    "product": (square(False), "untransposed_product", SINCE_29),
    "product of a transpose": (square(True), "untransposed_product", []),
    "cast before a selection": (selection("before"), "selection_of_cast", SINCE_29[2:]),
    "cast of a selection": (selection("after"), "selection_of_cast", SINCE_29[2:]),
    "selection": (selection(""), "selection_of_cast", []),
    "rsqrt of SBUF": (of_psum(nl.rsqrt, tile(nl.float32, nl.sbuf)), "rsqrt_of_psum", []),
}


def predicated(value, dtype):
    def kernel(x):
        o, p = (nl.ndarray(x.shape, d, buffer=nl.sbuf) for d in (dtype, nl.uint8))
        nisa.memset(o, 0)
        nisa.memset(p, 1)
        nisa.tensor_copy_predicated(o, value, p)
        stored = nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(stored, o)
        return stored
    return kernel


def stored(rows):
    def kernel(x):
        o = out(x)
        nl.store(o, nl.load(x[:rows]))
        return o
    return kernel


def gathered(*buffers):
    def kernel(x):
        srcs, dsts = ([nl.ndarray(x.shape, x.dtype, buffer=b) for b in kinds]
                      for kinds in (buffers, [nl.private_hbm] * len(buffers)))
        for src in srcs:
            nisa.dma_copy(src, x)
        ncc.all_gather(srcs, dsts, ncc.ReplicaGroup([[0]]), 0)
        o = out(x)
        nisa.dma_copy(o, dsts[0])
        return o
    return kernel


RELEASES |= {
    "an engine's name": (with_body(lambda x: nisa.tensor_copy(nl.load(x), nl.load(x), engine="vector")), "raw_enum",
                         SINCE_29),
    "a mode's name": (with_body(lambda x: nisa.dma_copy(nl.load(x), x, oob_mode="skip")), "raw_enum", SINCE_29),
    "a mode's number": (with_body(lambda x: nisa.dma_copy(nl.load(x), x, dge_mode=1)), "raw_enum", SINCE_29),
    "a mode": (with_body(lambda x: nisa.dma_copy(nl.load(x), x, dge_mode=nisa.dge_mode.swdge)), "raw_enum", []),
    "int to float": (predicated(1, nl.float32), "scalar_of_another_kind", ["2.33"]),
    "float to int": (predicated(1.0, nl.int8), "scalar_of_another_kind", ["2.33"]),
    "int to uint": (predicated(1, nl.uint16), "scalar_of_another_kind", []),
    "float to bfloat16": (predicated(1.0, nl.bfloat16), "scalar_of_another_kind", []),
    "store of a row": (stored(1), "store_repeats", SINCE_29),
    "store of all rows": (stored(128), "store_repeats", []),
    "private and shared": (gathered(nl.private_hbm, nl.shared_hbm), "mixed_hbm", ["2.33"]),
    "private alone": (gathered(nl.private_hbm, nl.private_hbm), "mixed_hbm", []),
}


def legacy_call(function):
    """A kernel that stores the result of a call; it is held back until it is stored."""
    def kernel(x):
        o = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
        t = old.load(x)
        result = function(t)
        old.store(o, result)
        return o
    return kernel


LEGACY = {"legacy operator": (legacy_operator, ""), "legacy operand": (legacy_operand, "hbm_operand"),
          "legacy activation": (legacy_call(lambda t: legacy.isa.activation(np.exp, t)), ""),
          "legacy text": (legacy_call(lambda t, op="add": legacy.isa.tensor_tensor(t, t, op=op)), "operator_text"),
          "legacy text of an activation": (legacy_call(lambda t: legacy.isa.activation("exp", t)), "operator_text"),
          "legacy engine": (legacy_call(lambda t: legacy.isa.tensor_copy(t, engine="vector")), "enum_text"),
          "legacy engine by number": (legacy_call(lambda t: legacy.isa.tensor_copy(t, engine=0)), "")}


def reported_rows(kernel, monkeypatch, strict, sdk="", target="trn2", dialect=None, args=(X,)):
    """The rows of refusals.json that a run reports: notes, with strict findings."""
    monkeypatch.setenv("NKISIM_STRICT", "1" if strict else "0")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    monkeypatch.setattr("nkisim.record.strict._reported", set())
    found, notes = strict_findings.findings_and_warnings(
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
        found = reported_rows(kernel, monkeypatch, strict, "2.26" if dialect else "", dialect=dialect)
        assert len(found) == bool(rule), found
        if rule:
            row = refusals.table()[rule]
            assert row["source"] in found[0] and found[0].endswith("is required")


@pytest.mark.parametrize("limit, found", [(3, 0), (2, 1)])
def test_a_kernel_of_too_many_instructions(limit, found, monkeypatch):
    """A load, an addition and a store: three instructions."""
    assert refusals.table()["instruction_limit"]["limit"] == 5_000_000
    monkeypatch.setitem(refusals.table()["instruction_limit"], "limit", limit)
    texts = reported_rows(with_operand(lambda x: nl.add(nl.load(x), 1.0)), monkeypatch, True)
    assert ["has 3 instructions" in text and "NCC_EBVF030" in text for text in texts] == [True] * found


@pytest.mark.parametrize("case", RELEASES)
def test_a_row_holds_in_its_releases(case, monkeypatch):
    kernel, rule, releases = RELEASES[case]
    begins = refusals.table()[rule]["says"].split("{")[0]
    for sdk in ("2.28", "2.29", "2.30", "2.31", "2.32", "2.33"):
        found = [text for text in reported_rows(kernel, monkeypatch, True, sdk) if text.startswith(begins)]
        assert len(found) == (sdk in releases), (sdk, found)


def test_every_row_has_a_case():
    """Rows of the legacy page of errors have theirs in test_error_page, that of a dynamic loop in test_open_loops,
    that of a launch grid in test_releases."""
    cases = [*CASES.values(), *LEGACY.values(), *RELEASES.values()]
    rules = {rule for rule, row in refusals.table().items() if row["api"] != "neuronxcc"} | {"enum_text"}
    elsewhere = {"instruction_limit", "state_of_a_dynamic_loop", "launch_degree"}
    assert {rule for _, rule, *_ in cases} - {""} == rules - elsewhere
