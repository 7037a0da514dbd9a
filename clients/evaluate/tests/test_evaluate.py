"""Tests the results of `nkisim evaluate` for good, wrong, illegal, dishonest and violent submitted
kernels.
"""

import errno
import importlib.util
import json
import os
import pathlib
import py_compile
import sys
import textwrap

import numpy as np
import pytest

import nkisim
import nkisim_evaluate
from nkisim_evaluate import Evaluator, Settings, evaluator
from nkisim_evaluate.evaluator import parse_bytes
from nkisim_evaluate.reference import load
from candidates import BODY, GOOD, HEAD, REFERENCE, kernel_with
from running import python, run

jsonschema = pytest.importorskip("jsonschema")
pytestmark = [pytest.mark.process, pytest.mark.apart]
@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "ref.py"
    path.write_text(REFERENCE)
    os.link(path, f"{path}.twin")
    return path


@pytest.fixture(scope="module")
def judge(reference):
    with Evaluator(Settings(reference, target="trn2", timeout=20, memory=1 << 30), 1) as warm:
        yield warm


def verdict_of(judge, source, **more):
    return judge.evaluate({"id": "x", "source": source, **more})


def test_a_right_kernel_has_the_latency_of_a_run(judge):
    record = verdict_of(judge, GOOD)
    assert record["status"] == "ok", record
    assert set(record["seeds"]) > {"0", "1"}  # and one that no one could aim at
    assert all(s["equal"] and s["max_abs"] == 0 for s in record["seeds"].values())
    space = {}
    exec(compile(GOOD, __file__, "exec"), space)  # the kernel, run the usual way
    a, b = np.ones((128, 64), np.float32), np.ones((128, 64), np.float32)
    assert record["latency_us"] == pytest.approx(
        nkisim.run(space["kernel"], a, b, target="trn2").latency_us, rel=1e-12)
    assert record["instructions"] == 4
    # The lines of a run, with the same figures as the record's.
    assert [line.split()[0] for line in record["verdict"]] == ["latency", "bottleneck", "engines", "DMA", "flops"]
    assert f"{record['latency_us']:.3f} us" in record["verdict"][0]


def test_a_right_kernel_is_advised_on_where_that_is_asked_for(reference):
    schema = json.loads((pathlib.Path(nkisim_evaluate.__file__).parent / "schema_1.json").read_text())
    with Evaluator(Settings(reference, target="trn2", timeout=30, memory=1 << 30, advise=True), 1) as one:
        record = verdict_of(one, GOOD)
        jsonschema.validate(record, schema)
        assert record["status"] == "ok" and record["advice"]["variants"]["simulated"] > 3
        assert all(f["latency_us"] < record["latency_us"] for f in record["advice"]["findings"])
        assert "advice" not in verdict_of(one, kernel_with("return a"))


def test_records_follow_their_schema(judge):
    schema = json.loads((nkisim_evaluate.evaluator.pathlib.Path(
        nkisim_evaluate.__file__).parent / "schema_1.json").read_text())
    for source in (GOOD, kernel_with("return a"), "x = 1", "raise SystemExit", "while True"):
        record = json.loads(json.dumps(verdict_of(judge, source), allow_nan=False))
        jsonschema.validate(record, schema)


def test_wrong_values_name_the_seed_and_the_place(judge):
    record = verdict_of(judge, GOOD.replace("op=nl.add", "op=nl.subtract"))
    assert record["status"] == "wrong"
    assert "elements differ, first at [0, 0]" in record["error"]["message"]
    assert record["seeds"]["0"]["mismatches"] > 8000


def test_a_result_of_another_shape_is_wrong(judge):
    source = GOOD.replace("return out", "return out.reshape((64, 128))")
    assert "[64, 128]; [128, 64] is required" in verdict_of(judge, source)["error"]["message"]


def test_a_rule_of_the_machine_is_illegal_with_its_line(judge):
    record = verdict_of(judge, GOOD.replace("src=b", "src=out"))
    assert record["status"] == "illegal"
    record = verdict_of(judge, GOOD.replace("buffer=nl.sbuf", "buffer=nl.hbm", 1))
    assert record["status"] == "illegal"
    assert record["error"]["kernel_line"] == 1 + GOOD.splitlines().index(
        "    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)")
    assert record["error"]["rule"] == "operand_memory" and record["error"]["kind"] == "memory"
    record = verdict_of(judge, GOOD.replace("dst=x, data1=x", "data1=x"))
    assert record["error"]["rule"] == "argument_missing"


def test_python_errors_are_errors_with_their_line(judge):
    record = verdict_of(judge, kernel_with("1 / 0"))
    assert record["status"] == "error"
    assert record["error"]["kind"] == "ZeroDivisionError" and record["error"]["rule"] == "kernel_exception"
    assert record["error"]["kernel_line"] == 1 + kernel_with("1 / 0").splitlines().index("    1 / 0")
    assert verdict_of(judge, "def kernel(:")["error"]["kind"] == "SyntaxError"
    assert verdict_of(judge, "x = 1")["error"]["message"].startswith("the file has 0 kernels")


def test_a_factory_is_called_with_parameters(judge):
    source = HEAD + """
def make(engine):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add, engine=getattr(nisa.engine, engine))
        nisa.dma_copy(dst=out, src=x)
        return out
    return kernel
"""
    fast, slow = (verdict_of(judge, source, kernel="make", params={"engine": e})
                  for e in ("vector", "gpsimd"))
    assert fast["status"] == slow["status"] == "ok"
    assert slow["latency_us"] > fast["latency_us"]


# ---- what no kernel needs ------------------------------------------------------------------------
CHEATS = {
    "changes an input": ("changes_inputs", kernel_with("nisa.dma_copy(dst=b, src=x)")),
    "looks at values while it is recorded": (
        "reads_values", kernel_with("if x.numpy()[0, 0] > 0: pass")),
    "imports the reference": (
        "reference", HEAD + "sys.path.insert(0, os.path.dirname('REFERENCE'))\nimport ref\n" +
        BODY.replace("INSERT", "")),
    "gives the reference another name": (
        "reference", kernel_with("os.link('REFERENCE', 'REFERENCE.linked')")),
    "reads a second name of the reference": (
        "reference", kernel_with("open('REFERENCE.twin').read()")),
    "reads the reference's bytecode": (
        "reference", kernel_with(
            "import importlib.util as u\n    open(u.cache_from_source('REFERENCE'), 'rb').read()")),
    "reads the reference": ("reference", kernel_with("open('REFERENCE').read()")),
    "reads files": ("files", kernel_with("open('/etc/hostname').read()")),
    "lists folders": ("files", kernel_with("os.listdir('/tmp')")),
    "writes files": ("files", kernel_with("open('REFERENCE.left', 'w').close()")),
    "patches the timer": (
        "rebinds", HEAD + "time.perf_counter = lambda: 0.0\n" + BODY.replace("INSERT", "")),
    "patches the comparison": (
        "rebinds", HEAD + "np.allclose = np.isclose = lambda *a, **k: np.True_\n" +
        BODY.replace("INSERT", "")),
    "patches the simulator": (
        "rebinds", HEAD + "import nkisim\nnkisim.Result.latency_us = property(lambda s: 1.0)\n" +
        BODY.replace("INSERT", "")),
    "patches the instruction": (
        "rebinds", HEAD + "nisa.dma_copy = nisa.dma_copy.__class__\n" + BODY.replace("INSERT", "")
        .replace("nisa.dma_copy(", "_copy(").replace("@nki.jit", "from nki.isa import memset\n@nki.jit")),
    "searches the process": ("introspection", kernel_with("gc.get_objects()")),
    "looks at its callers": ("introspection", kernel_with("sys._getframe(3).f_locals")),
    "looks at its callers by a library": (
        "introspection", kernel_with("import inspect; inspect.stack()")),
    "traces the simulator": ("introspection", kernel_with("sys.settrace(lambda *a: None)")),
    "imports what judges it": ("introspection", kernel_with("import nkisim_evaluate.judge")),
    "puts a module in another's place": (
        "rebinds", kernel_with("sys.modules['nkisim_evaluate.judge'] = None")),
    "starts a thread": (
        "processes", kernel_with("import threading; threading.Thread(target=time.sleep, args=(9,), "
                                 "daemon=True).start()")),
    "maps memory": ("memory", kernel_with("import mmap; mmap.mmap(-1, 10)")),
    "loads ctypes without a call": ("memory", kernel_with("import _ctypes")),
    "walks the heap of the process": ("memory", kernel_with("import ctypes; ctypes.string_at(id(1), 4)")),
    "starts a program": ("processes", kernel_with("os.system('true')")),
    "forks": ("processes", kernel_with("os.fork() or os._exit(0)")),
    "asks the network": (
        "network", kernel_with("import socket; socket.socket().connect_ex(('127.0.0.1', 9))")),
    "sets the simulator's switches": (
        "environment", kernel_with("os.environ['NKISIM_OVER_CAPACITY'] = '1'")),
    "gives the same for all inputs": (
        "constant_output", GOOD.replace("nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)",
                                        "nisa.memset(dst=x, value=1.0)")),
    "replays an output": (
        "constants", HEAD + "TABLE = np.arange(128 * 1024, dtype=np.float32).reshape(128, 1024)\n" +
        BODY.replace("INSERT", "").replace(
            "nisa.dma_copy(dst=out, src=x)",
            "t = nl.shared_constant(TABLE)\n    nisa.dma_copy(dst=out, src=t[:, 0:64])")),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_flagged(name, judge, reference):
    kind, source = CHEATS[name]
    record = verdict_of(judge, source.replace("REFERENCE", str(reference)))
    assert kind in record["flags"], record
    assert record["status"] in ("illegal", "wrong", "error"), record
    assert not (name == "gives the same for all inputs" and record["status"] == "ok")


@pytest.mark.parametrize("columns, flagged", [(128, False), (129, True)])
def test_constants_are_flagged_from_the_size_of_the_inputs_on(columns, flagged, judge):
    """Two inputs of 128 x 64 float32: 64 KiB."""
    text = CHEATS["replays an output"][1].replace("128 * 1024", f"128 * {columns}").replace(
        "(128, 1024)", f"(128, {columns})")
    assert ("constants" in verdict_of(judge, text)["flags"]) == flagged


@pytest.mark.parametrize("compiled", [False, True], ids=["text", "bytecode"])
def test_a_flag_does_not_depend_on_how_python_finds_a_module(compiled, judge, reference):
    """An import reads the text of a module or, where there is one, its bytecode; and whether a machine
    keeps bytecode (PYTHONDONTWRITEBYTECODE) decides which."""
    cached = pathlib.Path(importlib.util.cache_from_source(str(reference)))
    cached.unlink(missing_ok=True)
    if compiled:
        py_compile.compile(str(reference), doraise=True)
    record = verdict_of(judge, CHEATS["imports the reference"][1].replace("REFERENCE", str(reference)))
    assert cached.exists() == compiled  # neither judge nor candidate wrote it
    assert "reference" in record["flags"], record
    assert record["status"] in ("illegal", "error"), record  # the import is refused


def test_evaluate_keeps_no_bytecode_of_a_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "ref.py"
    path.write_text(REFERENCE)
    load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["ref.py"]
    assert sys.dont_write_bytecode is False


def test_what_libraries_do_is_no_flag(judge):
    """Frames, threads and imports of NumPy, logging and the like, which kernels may use."""
    source = kernel_with("""
    import logging, warnings, inspect, dataclasses, functools, typing, copy, math
    logging.getLogger('k').warning('said')
    warnings.warn('said')
    inspect.signature(kernel.func if hasattr(kernel, 'func') else kernel)
    np.testing.assert_allclose(1.0, 1.0)
    dataclasses.make_dataclass('D', ['a'])(1)""")
    record = verdict_of(judge, source)
    assert record["status"] == "ok" and not record["flags"], record


def test_a_forged_result_is_worth_nothing(judge):
    source = kernel_with("""
    import json
    for fd in range(3, 64):
        try: os.write(fd, json.dumps({"ok": True, "outputs": [], "changed": [], "legacy": False,
                                      "flags": {}, "foreign": False, "instructions": 1}).encode())
        except OSError: pass
    os._exit(0)""")
    record = verdict_of(judge, source)
    assert record["status"] == "crashed"
    assert record["latency_us"] is None


def test_seeds_that_are_known_do_not_help(judge):
    source = GOOD.replace("op=nl.add)", "op=nl.add)\n    nisa.tensor_scalar(dst=x, data=x, op0=nl.add, "
                                        "operand0=0.5)")
    assert verdict_of(judge, source)["status"] == "wrong"


def test_the_service_keeps_nothing_of_a_submitted_kernel(reference):
    """Each candidate has a seed of its own, whose case is used once."""
    with Evaluator(Settings(reference, target="trn2"), 2) as judge:
        given = [{"id": n, "source": GOOD + f"\n# {n}\nN = {n}\n"} for n in range(8)]
        records = list(judge.records(given))
        assert [r["status"] for r in records] == ["ok"] * 8
        assert len({s for r in records for s in r["seeds"]}) > len(judge._reference.seeds)
        assert set(judge._reference._cases) == set(judge._reference.seeds)


# ---- violence ------------------------------------------------------------------------------------
VIOLENT = {
    "loops for ever": ("timeout", "while True: pass"),
    "sleeps": ("timeout", "time.sleep(1000)"),
    "allocates": ("memory", "np.ones(100 << 30, np.uint8)"),
    "allocates slowly": ("memory", "x = []\n    while True: x.append(bytearray(1 << 24))"),
    "crashes the interpreter": ("crashed", "import ctypes; ctypes.string_at(0)"),
    "ends": ("crashed", "os._exit(0)"),
    "kills its group": ("crashed ok", "import signal; os.killpg(0, signal.SIGKILL)"),
    "recurses": ("error", "f = lambda: f()\n    f()"),
}


@pytest.mark.parametrize("name", VIOLENT)
def test_violence_is_one_record(name, reference):
    status, text = VIOLENT[name]
    seconds = 3 if status == "timeout" else 60
    with Evaluator(Settings(reference, target="trn2", timeout=seconds, memory=1 << 29), 1) as judge:
        record = verdict_of(judge, kernel_with(text))
        assert record["status"] in status.split(), record  # ok: a signal that reaches no one
        assert verdict_of(judge, GOOD)["status"] == "ok"  # the worker is unharmed


def test_a_gigabyte_of_output_is_kept_short(reference):
    with Evaluator(Settings(reference, target="trn2", timeout=60), 1) as judge:
        record = verdict_of(judge, kernel_with(
            "for _ in range(1024): sys.stdout.write('x' * (1 << 20))"))
        assert record["status"] == "ok"
        assert len(record["printed"]) <= 16 << 10


def test_children_do_not_outlive_a_submitted_kernel(reference):
    mark = f"nkisim-orphan-{os.getpid()}"
    text = f"""
    import subprocess
    for _ in range(20):
        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{mark}'],
                         start_new_session=True)
    while True:
        try: os.fork()
        except OSError: pass"""
    with Evaluator(Settings(reference, target="trn2", timeout=3), 1) as judge:
        record = verdict_of(judge, kernel_with(text))
        assert record["status"] in ("timeout", "memory", "crashed", "error"), record
        assert "processes" in record["flags"], record
        assert verdict_of(judge, GOOD)["status"] == "ok"
        assert mark not in run("ps", "-eo", "args").stdout.replace("ps -eo args", "")


# ---- cache, service, command ---------------------------------------------------------------------
def test_a_full_disk_changes_no_verdict(reference, tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(evaluator, "_not_kept", [])
    with Evaluator(Settings(reference, target="trn2"), 1, tmp_path / "known") as judge:
        monkeypatch.setattr(os, "fsync", full)
        assert [verdict_of(judge, GOOD + more)["status"] for more in ("", "\n")] == ["ok", "ok"]
        said = capsys.readouterr().err
        assert said.count("No space left on device; records are not kept") == 1
        monkeypatch.undo()
        assert not verdict_of(judge, GOOD)["cached"] and verdict_of(judge, GOOD)["cached"]


def test_a_known_submitted_kernel_comes_from_the_cache(reference, tmp_path):
    cache = tmp_path / "known"
    broken = kernel_with("1 / 0")
    with Evaluator(Settings(reference, target="trn2"), 1, cache) as judge:
        first = verdict_of(judge, GOOD)
        verdict_of(judge, broken)
    with Evaluator(Settings(reference, target="trn2"), 1, cache) as judge:
        again = verdict_of(judge, GOOD)
        assert again["cached"] and not first["cached"]
        assert {**again, "cached": False} == first
        # A kernel may look at its own text, and an error names lines.
        assert not verdict_of(judge, GOOD + "\n# a comment\n")["cached"]
        moved = verdict_of(judge, "\n\n" + broken)
        assert not moved["cached"]
        assert verdict_of(judge, broken)["cached"] and verdict_of(judge, "\n\n" + broken)["cached"]
    for other in (Settings(reference, target="trn1"), Settings(reference, target="trn2", timeout=59),
                  Settings(reference, target="trn2", memory=3 << 30)):
        with Evaluator(other, 1, cache) as judge:
            assert not verdict_of(judge, GOOD)["cached"]


DATA_DEPENDENT = """
@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    m = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    n = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_scalar(dst=m, data=x[0:1, 0:1], op0=nl.equal, operand0=KNOWN, op1=nl.multiply, operand1=-99.0)
    nisa.tensor_scalar(dst=m, data=m, op0=nl.add, operand0=100.0)
    nisa.tensor_copy(dst=n, src=m)
    iterations = nisa.register_alloc()
    nisa.register_load(iterations, n)
    for _ in nl.dynamic_range(iterations):
        nisa.tensor_copy(dst=y, src=y)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out
"""


def test_a_program_that_knows_a_seed_is_as_slow_as_on_others(judge):
    """One iteration of the loop on the first seed, 100 on all others."""
    known = np.random.default_rng(0).standard_normal((128, 64), dtype=np.float32)[0, 0]
    quick, honest = (verdict_of(judge, HEAD + DATA_DEPENDENT.replace("KNOWN", repr(float(k))))
                     for k in (known, 1e30))
    assert quick["status"] == honest["status"] == "ok", quick
    assert quick["latency_us"] == honest["latency_us"]


def command(*words, stdin=None):
    return python("-m", "nkisim_evaluate", "evaluate", *words, code=None, input=stdin)


def test_the_service_gives_a_line_for_every_line(reference):
    lines = [json.dumps({"id": n, "source": GOOD}) for n in range(5)]
    lines += ["no json", "[1]", json.dumps({"id": "none"}), json.dumps({"id": "x", "path": "/none"}),
              json.dumps({"id": "both", "path": "/none", "source": ""}),
              '{"id": 1e999, "source": ""}', '{"id": NaN, "source": ""}']
    done = command("--reference", reference, "--candidates", "-", "--target", "trn2", "--jobs", "2",
                   stdin="\n".join(lines) + "\n")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {str(r["id"]) for r in records} == {"0", "1", "2", "3", "4", "line 6", "line 7", "none",
                                               "x", "both", "line 11", "line 12"}
    assert [r["status"] for r in records].count("ok") == 5
    assert all(r["error"]["code"] == "usage" for r in records if r["status"] != "ok")
    assert done.returncode == 1


def test_the_command_appends_lines(reference, tmp_path):
    folder = tmp_path / "candidates"
    folder.mkdir()
    (folder / "a.py").write_text(GOOD)
    (folder / "b.py").write_text(GOOD.replace("op=nl.add", "op=nl.multiply"))
    out = tmp_path / "out.jsonl"
    done = command("--reference", reference, "--candidates", folder, "--target", "trn2", "--jsonl",
                   out, "--baseline", folder / "a.py")
    assert done.returncode == 1, done.stderr
    records = {os.path.basename(r["id"]): r for r in map(json.loads, out.read_text().splitlines())}
    assert records["a.py"]["status"] == "ok" and records["a.py"]["speedup"] == 1
    assert records["a.py"]["faster_likely"] == 0.5  # it is its own baseline
    assert records["b.py"]["status"] == "wrong"
    assert "1 ok, 1 wrong" in done.stderr


@pytest.mark.parametrize("text, said", [
    ("x = 1", "inputs(seed) and reference(*inputs) are required"),
    ("1 / 0", "ZeroDivisionError"),
    ("def inputs(seed): return 1 / 0\ndef reference(a): return a", "seed 0: ZeroDivisionError"),
    ("import sys\nsys.exit()", "SystemExit"),
    ("def inputs(rng):\n    return rng.random(3)\ndef reference(a): return a",
     "ref.py:2: seed 0: AttributeError: 'int' object has no attribute 'random'; inputs gets an integer"),
])
def test_a_bad_reference_is_reported_at_once(text, said, tmp_path):
    path = tmp_path / "ref.py"
    path.write_text(text)
    done = command("--reference", path, "--candidates", path)
    assert done.returncode == 3
    assert said in done.stderr and "Traceback" not in done.stderr


def test_an_accelopt_task_is_a_reference(tmp_path):
    task = tmp_path / "task.py"
    task.write_text(textwrap.dedent("""
        import numpy as np
        def get_inputs():
            return [np.random.normal(size=(256, 64)).astype(np.float32)]
        def forward(x):
            return x / (1 + np.exp(-x))
        def transform_to_nki_inputs(inputs):
            return [inputs[0].reshape(128, 128)]
        def transform_nki_outputs(found, wanted):
            return [np.reshape(found, wanted.shape)]
        """))
    source = """
import neuronxcc.nki as nki, neuronxcc.nki.language as nl
@nki.jit
def optimized_kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nl.store(out, nl.silu(t))
    return out
"""
    record = next(iter(nkisim.evaluate(task, [{"source": source}], jobs=1, target="trn1")))
    assert record["status"] == "ok", record
    assert record["api"] == "neuronxcc"
    assert len(record["seeds"]) == 6
    assert max(s["rel_l2"] for s in record["seeds"].values()) < 2e-5


def test_sizes():
    assert parse_bytes("4G") == 4 << 30
    assert parse_bytes("512 MiB") == 512 << 20
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes("much")


# ---- several machines ----------------------------------------------------------------------------
def test_a_worker_that_dies_loses_no_submitted_kernel(reference):
    """Two worker processes on one scheduler; one is killed while candidates are under way."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as cluster:
        pids = [w.pid for w in cluster.workers.values()]
        given = [{"id": n, "source": GOOD.replace("nl.add", "nl.subtract" if n % 3 == 2 else "nl.add")}
                 for n in range(24)]
        found = {}
        for record in nkisim.evaluate(reference, given, scheduler=cluster.scheduler_address,
                                      target="trn2"):
            found[record["id"]] = record
            if len(found) == 6:
                os.kill(pids[0], 9)
    assert {n: r["status"] for n, r in found.items()} == {
        n: "wrong" if n % 3 == 2 else "ok" for n in range(24)}
    assert len({r["latency_us"] for r in found.values()}) == 1
