"""Tests submitted kernels that try to look faster than their instructions are: by false results, by
code that runs later and by false facts. None gains anything.
"""

import gc
import json
import os
import pathlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nkisim_adapters.rl import Environment
from nkisim_evaluate import Evaluator, Settings, header
from nkisim_evaluate.records import identifier, problem_of
from nkisim_evaluate.testimony import Stop
from candidates import BODY, GOOD, HEAD, REFERENCE
from running import cli

pytestmark = [pytest.mark.process, pytest.mark.apart]

TRANSPOSE = """
import numpy as np
SEEDS, RTOL, ATOL = (0,), 1e-6, 1e-6
def inputs(seed): return (np.random.default_rng(seed).standard_normal((128, 128)).astype(np.float32),)
def reference(x): return np.ascontiguousarray(x.T)
"""
COPY = TRANSPOSE.replace("np.ascontiguousarray(x.T)", "x.copy()")
KERNEL = HEAD + """
@nki.jit
def kernel(x):
    out = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.shared_hbm)
    BODY
    return RESULT
"""


def kernel(result="out", body="nisa.dma_copy(dst=out, src=x)", shape="(128, 128)"):
    return KERNEL.replace("RESULT", result).replace("BODY", body).replace("SHAPE", shape)


def touching(result):
    return kernel(result, "t = nl.load(x[0:1, 0:1]); nisa.dma_copy(dst=x[0:1, 0:1], src=t)")


def evaluated(tmp_path, reference, source, **more):
    (tmp_path / "reference.py").write_text(reference)
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2", timeout=30, **more), 1) as judge:
        record = judge.evaluate({"id": 1, "source": source})
    assert problem_of(json.loads(json.dumps(record, allow_nan=False))) is None
    return record


TWO = COPY.replace("return x.copy()", "return x.copy(), x.copy()")
#: name: (reference, kernel, what is said). Each computes less than its reference asks for.
RETURNS = {
    "a transposed view": (TRANSPOSE, kernel("out.ap([[1, 128], [128, 128]])"), "strides [1, 128]"),
    "a step of 0": (COPY.replace("x.copy()", "np.repeat(x[:, :1], 128, 1)"), kernel("out.ap([[128, 128], [0, 128]])"),
                    "strides [128, 0]"),
    "a part with an offset": (COPY.replace("x.copy()", "x[64:].copy()"), kernel("out[64:128, :]"), "offset"),
    "the first rows of more": (COPY.replace("x.copy()", "x[:64].copy()"), kernel("out[0:64, :]"), "32768 bytes"),
    "every second row": (COPY.replace("x.copy()", "x[::2].copy()"), kernel("out.ap([[256, 64], [1, 128]])"),
                         "strides [256, 1]"),
    "one buffer twice": (TWO, kernel("out, out"), "returns out 2 times"),
    "its argument": (COPY, kernel("x"), "returns its argument x"),
    "its argument next to a result": (TWO, kernel("out, x"), "returns its argument x"),
    "a view of its argument": (TRANSPOSE, kernel("x.ap([[1, 128], [128, 128]])"), "strides [1, 128]"),
    "its argument, touched": (COPY, touching("x"), "returns its argument x"),
    "nothing, its argument touched": (COPY, touching("None"), "the kernel returns nothing"),
    "what it brings along": (COPY.replace("x.copy()", "np.ones_like(x)"), HEAD + """
@nki.jit
def kernel(x):
    t = nl.load(x)
    return nl.shared_constant(np.ones((128, 128), np.float32))
""", "a result that the program brings along"),
    "without an instruction": (COPY, HEAD + "@nki.jit\ndef kernel(x):\n    return x\n", "no instruction"),
}


@pytest.mark.parametrize("name", RETURNS)
def test_what_was_not_computed_is_no_result(name, tmp_path):
    reference, source, said = RETURNS[name]
    record = evaluated(tmp_path, reference, source)
    assert record["status"] == "illegal" and said in record["error"]["message"], record


BAD_VALUES = {
    "half of its result": (COPY, kernel(body="nisa.dma_copy(dst=out[0:64, :], src=x[0:64, :])"), "illegal"),
    "nothing of its result": (COPY, kernel(body="t = nl.load(x)"), "illegal"),
    "a narrower result": (COPY.replace("1e-6, 1e-6", "1, 1"), kernel(
        body="out = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.shared_hbm); t = nl.load(x); "
             "nl.store(out, nl.copy(t, dtype=nl.bfloat16))"), "wrong"),
    "no numbers": (COPY.replace("RTOL", "REL_L2, RTOL").replace("1e-6, 1e-6", "2e-5, 1, 1"), kernel(
        body="t = nl.full((128, 128), float('nan'), dtype=nl.float32); nl.store(out, t)"), "wrong illegal"),
    "infinities": (COPY.replace("RTOL", "REL_L2, RTOL").replace("1e-6, 1e-6", "2e-5, 1, 1"), kernel(
        body="t = nl.full((128, 128), float('inf'), dtype=nl.float32); nl.store(out, t)"), "wrong illegal"),
    "an array of NumPy's": (COPY, kernel("np.zeros((128, 128), np.float32)"), "illegal error"),
    "a number": (COPY, kernel("5"), "illegal error"),
    "the result and nothing": (COPY, kernel("(out, None)"), "ok illegal error"),
    "five thousand results": (COPY, kernel("[out] * 5000"), "illegal crashed"),
    "its result in another order": (TWO, kernel("out"), "wrong"),
    "a tile on the chip": (COPY, kernel("nl.load(x)"), "illegal"),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_result_that_is_less_than_asked_for(name, tmp_path):
    reference, source, statuses = BAD_VALUES[name]
    assert evaluated(tmp_path, reference, source)["status"] in statuses.split()


def test_a_result_may_be_as_narrow_as_what_was_given(tmp_path):
    """A reference of bfloat16 arrays may compute in float32."""
    reference = COPY.replace("import numpy as np", "import ml_dtypes\nimport numpy as np").replace(
        ".astype(np.float32)", ".astype(ml_dtypes.bfloat16)").replace("x.copy()", "x.astype(np.float32)")
    assert evaluated(tmp_path, reference, kernel())["status"] == "ok"


@pytest.mark.parametrize("name", ["../../x", "a\nb", '"}', "x" * 100_000, "\ud800", ""])
def test_a_kernels_name_is_a_name(name, tmp_path):
    honest, named = (evaluated(tmp_path, COPY, kernel() + text) for text in ("", f"\nkernel.__name__ = {name!r}\n"))
    assert named["status"] != "ok" or named["latency_us"] == honest["latency_us"]


def test_the_text_that_was_read_is_executed(tmp_path, monkeypatch):
    """Its file is another by then."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    path = tmp_path / "k.py"
    path.write_text(GOOD)
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2"), 1) as judge:
        assert judge.evaluate({"path": str(path)})["status"] == "ok"
        inner = judge._benches[0]._judge
        before = inner.recorder
        monkeypatch.setattr(inner, "recorder", lambda *a: path.write_text("raise ValueError") and before(*a))
        assert judge.evaluate({"path": str(path)})["status"] == "ok"
    assert path.read_text() == "raise ValueError"


def test_a_text_of_megabytes_is_not_parsed_by_evaluate():
    assert header.apis_of("a;" * (4 << 20)) == ("nki",)
    assert header.apis_of("import neuronxcc.nki\n" + "a;" * (4 << 20)) == ("nki", "neuronxcc")


@pytest.mark.parametrize("result, reference", [
    ("out.reshape((64, 256))", "x.reshape(64, 256).copy()"), ("out", "x.copy()"),
    ("out.reshape((128, 1, 128))", "x.reshape(128, 1, 128).copy()")])
def test_a_whole_buffer_may_have_another_shape(result, reference, tmp_path):
    assert evaluated(tmp_path, COPY.replace("x.copy()", reference), kernel(result))["status"] == "ok"


def test_an_argument_that_is_mutable_is_a_result(tmp_path):
    """In place: the sum of both, in the first."""
    reference = REFERENCE + "MUTABLE = ('a',)\ndef inputs_by_name(seed): pass\n"
    reference = reference.replace("return (rng", "return dict(a=rng").replace(
        "            rng.standard", "            b=rng.standard")
    source = HEAD + """
@nki.jit
def kernel(a, b):
    x, y = nl.load(a), nl.load(b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=a, src=x)
    return a
"""
    for text in (source, source.replace("    return a\n", "")):
        assert evaluated(tmp_path, reference, text)["status"] == "ok"
    refused = evaluated(tmp_path, reference.replace("('a',)", "()"), source)
    assert refused["status"] == "illegal" and "MUTABLE" in refused["error"]["message"]


def test_a_learner_gets_nothing_for_it():
    with Environment(target="trn2", steps=4) as environment:
        environment.reset(task="copy_512x512")
        for source in (kernel("x"), touching("x"), touching("None"), HEAD + "@nki.jit\ndef kernel(x):\n    return x\n"):
            _, reward, *_, info = environment.step(source)
            assert reward <= 0 and not info["parts"]["correct"], info


def test_a_baseline_that_computes_nothing_is_reported(tmp_path):
    (tmp_path / "reference.py").write_text(COPY)
    (tmp_path / "k.py").write_text(HEAD + "@nki.jit\ndef kernel(x):\n    return x\n")
    words = ["--reference", tmp_path / "reference.py", "--target", "trn2", "--jobs", "1"]
    done = cli("evaluate", *words, "--candidates", tmp_path / "k.py", "--baseline", tmp_path / "k.py", code=3)
    assert "no instruction" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "k.py").write_text(kernel(body="t = nl.load(x); nl.store(out, nl.add(t, t))"))
    done = cli("evaluate", *words, "--candidates", tmp_path / "k.py", "--baseline", tmp_path / "k.py", code=3)
    assert "is wrong" in done.stderr and "a kernel that is ok is required" in done.stderr
    (tmp_path / "k.py").write_text(
        HEAD + "def make(n=1):\n    @nki.jit\n    def kernel(x):\n        return x\n    return kernel\n")
    done = cli("tune", f"{tmp_path / 'k.py'}:make", "--param", "n=1,2", *words, "--cache", tmp_path / "c", cwd=tmp_path,
               code=None)
    assert "Traceback" not in done.stderr and "no instruction" in done.stdout + done.stderr


# ---- what runs after the kernel was recorded -----------------------------------------------------
FASTER = """
import json
def write():
    lines = [{"nisa": 1, "target": "trn2", "name": "kernel", "addresses": "open", **HEADER}]
    for name, key in (("a", "arg0"), ("b", "arg1")):
        lines.append({"tensor": {"name": name, "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "input",
                                 "data": {"npz": "data.npz", "key": key}}})
    lines.append({"tensor": {"name": "out", "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "output"}})
    for name in ("x", "y"):
        lines.append({"tensor": {"name": name, "space": "sbuf", "dtype": "float32", "shape": [128, 64]}})
    lines += [{"i": "dma_copy", "dst": "x", "src": "a"}, {"i": "dma_copy", "dst": "y", "src": "b"},
              {"i": "tensor_tensor", "dst": "x", "data1": "x", "data2": "y", "op": "add", "engine": "vector"},
              {"i": "dma_copy", "dst": "out", "src": "x"}]
    open("program.nisa", "w").write("\\n".join(map(json.dumps, lines)) + "\\n")
"""
#: The honest kernel with a hundred copies more: what is swapped in would be several times faster.
SLOW = BODY.replace("INSERT", "").replace("    nisa.dma_copy(dst=out", "    for _ in range(100): nisa.tensor_copy("
                                          "dst=x, src=x)\n    nisa.dma_copy(dst=out")
LATE = {
    "a stream's flush": "class Out:\n    def __init__(self, old): self.old = old\n"
                        "    def write(self, text): return self.old.write(text)\n"
                        "    def flush(self): self.old.flush(); write()\nsys.stdout = Out(sys.stdout)",
    "a finalizer": "class Late:\n    def __del__(self): write()\nnl.tile_size.late = Late()",
    "a finalizer in a circle": "class Late:\n    def __init__(self): self.me = self\n    def __del__(self): write()\n"
                               "gc.set_threshold(1)\nLate()",
    "a weak reference": "import weakref\nclass Late: pass\nlate = Late()\nref = weakref.ref(late, lambda r: write())\n"
                        "nl.late = [late]; del late",
    "what ends the interpreter": "import atexit\natexit.register(write)",
    "a thread's end": "import threading\nthreading.Timer(0.01, write).start()",
    "a hook of imports": "import builtins\nclass Finder:\n    def find_spec(self, *a): write()\n"
                         "sys.meta_path.insert(0, Finder())",
    "a hook of errors": "sys.excepthook = sys.unraisablehook = lambda *a: write()",
    "a recorder's program": "from nkisim.record import state\nclass Like:\n"
                            "    def __init__(self, p): object.__setattr__(self, 'p', p)\n"
                            "    def __getattr__(self, n): return getattr(self.p, n)\n"
                            "    def __setattr__(self, n, v): setattr(self.p, n, v)\n"
                            "    def save(self, *a): write()\nlate = lambda: setattr("
                            "state.recorder(), 'program', Like(state.recorder().program))",
    "a text's hash": "class Text(str):\n    def __hash__(self): write(); return str.__hash__(self)\n"
                     "    def __str__(self): write(); return 'k'",
    "a comparison of variables": "class Text(str):\n    def __eq__(self, other): write(); return True\n"
                                 "    __hash__ = str.__hash__\nvars(os.environ)['_data'][b'LATE'] = Text('x')",
}


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    (folder / "reference.py").write_text(REFERENCE)
    with Evaluator(Settings(folder / "reference.py", target="trn2", timeout=30), 1) as judge:
        record = judge.evaluate({"source": HEAD + SLOW})
        assert record["status"] == "ok"
        yield judge, record["latency_us"]


@pytest.mark.parametrize("changed", ["{}", "{'cores': 32}", "{'api': 'neuronxcc'}"])
@pytest.mark.parametrize("name", LATE)
def test_nothing_of_a_submitted_kernel_runs_once_its_program_is_written(name, changed, slow):
    judge, latency = slow
    body = SLOW.replace("    return out", "    late() if callable(globals().get('late')) else None\n    return out")
    record = judge.evaluate({"source": HEAD + FASTER.replace("HEADER", changed) + LATE[name] + "\n" + body})
    assert record["status"] != "ok" or record["latency_us"] == latency, record


def test_a_program_that_was_changed_after_it_was_sealed_is_none(slow, monkeypatch):
    """The file is written by somebody after its hash was sent."""
    judge, _ = slow
    inner = judge._benches[0]._judge
    before = inner.recorder

    def changing(job, *limits):
        said = before(job, *limits)
        path = os.path.join(job["folder"], "program.nisa")
        pathlib.Path(path).write_bytes(pathlib.Path(path).read_bytes() + b"\n")
        return said

    monkeypatch.setattr(inner, "recorder", changing)
    record = judge.evaluate({"source": GOOD})
    assert record["status"] == "crashed" and "not the one that was recorded" in record["error"]["message"]


# ---- what a program says of itself ---------------------------------------------------------------
FACTS = {"cores": 1, "api": "nki", "sdk": "2.33"}


@pytest.mark.parametrize("change, said", [({"cores": 2}, "cores: 2; at most 1"), ({"api": "neuronxcc"}, "API"),
                                          ({"sdk": "2.28"}, "SDK: 2.28; 2.33")])
def test_a_header_is_as_expected(change, said, monkeypatch):
    monkeypatch.delenv("NKISIM_SDK", raising=False)
    header.check(FACTS, 1, ("nki",))
    with pytest.raises(Stop, match=said):
        header.check({**FACTS, **change}, 1, ("nki",))


@pytest.mark.parametrize("grid, target, cores", [
    (None, "trn2", 2), (None, "trn3", 2), (None, "trn1", 1), ([2], "trn2", 2), (2, "trn2", 2), ([1], "trn2", 1),
    ([32], "trn2", 1), ([2, 2], "trn2", 1), ("x", "trn2", 1), ([True], "trn2", 1), ([], "trn2", 1)])
def test_cores_are_those_of_the_grid(grid, target, cores):
    assert header.cores_of(grid, target) == cores


@pytest.mark.parametrize("text, apis", [
    ("import nki", 1), ("import neuronxcc.nki as nki", 2), ("from neuronxcc import nki", 2), ("X = 'neuronxcc'", 1),
    ("def f():\n  import neuronxcc.nki.language", 2), ("# neuronxcc", 1), ("import importlib\nimportlib.import_module("
     "'neuronxcc.nki')", 2), ("def f(:", 2)])
def test_apis_are_those_that_a_text_imports(text, apis):
    assert header.apis_of(text) == ("nki", "neuronxcc")[:apis]


class Late:
    """Garbage, whose end lets another thread go on while a text is parsed."""

    def __init__(self):
        self.me = self

    def __del__(self):
        time.sleep(0.001)


def test_texts_are_parsed_by_several_threads():
    """In CPython 3.11 two parsers at a time raise a SystemError, which ended the evaluation."""
    before = gc.get_threshold()
    gc.set_threshold(10)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda _: Late() and header.apis_of(GOOD * 5), range(100))
            assert set(found) == {("nki",)}
    finally:
        gc.set_threshold(*before)


GRID = """
def f(a, b):
    c, n = nl.program_id(0), nl.num_programs(0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    w = a.shape[1] // n
    x, y = nl.load(a[:, c * w:(c + 1) * w]), nl.load(b[:, c * w:(c + 1) * w])
    nl.store(out[:, c * w:(c + 1) * w], nl.add(x, y))
    return out
kernel = nki.jit(f)[LAUNCH]
"""


@pytest.mark.parametrize("launch, grid, status", [
    ("1", None, "ok"), ("2", None, "ok"), ("nl.nc(2)", None, "ok"), ("nl.nc(32)", None, "illegal"),
    ("nl.nc(4)", None, "illegal"), ("4", None, "ok"), ("nl.nc(32)", [1], "ok"), ("2", [1], "ok"), ("1", [2], "ok")])
def test_a_grid_of_its_own_has_the_cores_of_one_logical_core(launch, grid, status, slow):
    """The grid of the job or the reference counts where there is one."""
    record = slow[0].evaluate({"source": HEAD + GRID.replace("LAUNCH", launch), "grid": grid})
    assert record["status"] == status, record


def test_a_grid_has_no_more_cores_than_the_references(tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE + "GRID = 1\n")
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2", timeout=30), 1) as judge:
        for grid, status in ((None, "ok"), ([1], "ok"), ([2], "illegal")):
            record = judge.evaluate({"source": HEAD + GRID.replace("LAUNCH", "1"), "grid": grid})
            assert record["status"] == status, record


# ---- records -------------------------------------------------------------------------------------
def test_a_record_that_is_none_by_its_schema_does_not_leave(slow, monkeypatch):
    judge = slow[0]
    for broken in ({"status": "ok"}, {"status": "ok", "latency_us": 0}, {"status": "fine", "latency_us": 1.0},
                   {"status": "wrong"}, {"status": "ok", "latency_us": 1.0, "extra": 1},
                   {"status": "ok", "latency_us": float("nan")},
                   {"status": "ok", "latency_us": 1.0, "flags": {"a": 1}}):
        monkeypatch.setattr(judge._benches[0]._judge, "evaluate", lambda job, keep, b=broken: {"id": 1, **b})
        record = judge.evaluate({"source": GOOD})
        assert record["status"] == "error" and record["error"]["code"] == "internal", record
        assert problem_of(record) is None


@pytest.mark.parametrize("value, found", [(1, 1), ("a", "a"), (None, None), ([1], "[1]"), ({"a": 1}, '{"a": 1}'),
                                          (True, "true"), (float("inf"), "Infinity"), (2.5, 2.5)])
def test_an_id_is_a_text_or_a_number(value, found):
    assert identifier(value) == found


# ---- a path that changes between a look and a call -----------------------------------------------
RACE = HEAD + """
import ctypes as C, threading
L = C.CDLL(None, use_errno=True)
L.syscall.restype = C.c_long
good, bad = (p.encode() + b"\\0" for p in (__file__, "REFERENCE"))
buffer = C.create_string_buffer(good, 4096)
run = [True]
def flip():
    while run[0]:
        C.memmove(buffer, bad, len(bad)); C.memmove(buffer, good, len(good))
threading.Thread(target=flip, daemon=True).start()
end = time.time() + 2
while time.time() < end:
    file = L.syscall(C.c_long(NUMBER), C.c_long(-100), buffer, C.c_long(0))
    if file >= 0:
        if b"SEEDS" in os.read(file, 60): print("the reference was read")
        os.close(file)
run[0] = False
""" + BODY.replace("INSERT", "")


def test_a_path_that_changes_meanwhile_opens_what_was_looked_at(tmp_path):
    """Candidate and reference lie in one folder, which the candidate may read."""
    number = {"x86_64": 257, "aarch64": 56}.get(os.uname().machine)
    if number is None:
        pytest.skip("nothing watches system calls here")
    path = tmp_path / "reference.py"
    path.write_text("SEEDS = (0, 1)\n" + REFERENCE)
    (tmp_path / "k.py").write_text(RACE.replace("REFERENCE", str(path)).replace("NUMBER", str(number)))
    with Evaluator(Settings(path, target="trn2", timeout=30), 1) as judge:
        record = judge.evaluate({"path": str(tmp_path / "k.py")})
    assert {"processes", "memory", "reference"} <= record["flags"].keys(), record
    assert "the reference was read" not in record.get("printed", "")
