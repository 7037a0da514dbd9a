"""Tests that every way to simulate a kernel (command, Python, pytest, worker, ...) reports the same
latency.

The defect that this guards against: each entry worked out the latency by itself (core 0 alone, the slowest
core, until the last event), all were equal on one core, and no test had two. Where core 1 does the work,
or one core begins when another has ended, or there are ranks, they said different things of one run. So
whatever says a latency, or a total over a run, belongs into `entries` below; it is compared with the first
start and the last end of the run's events, which each case takes from its profile file.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import nkisim
import nkisim_evaluate
from nkisim.tools.pytest_plugin import Checked
from nkisim_profile import report
from nkisim_profile.report.pack import Pack
from nkisim_profile.session import Session
from nkisim_profile.world import World
from nkisim_validation.program import Failed, Program

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ["NKISIM_PROGRAM"]
X = np.ones((128, 512), np.float32)

KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl


def tile(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)


@nki.jit
def alone(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = tile(x)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def second(x):  # core 1 does the work
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = tile(x)
    if nl.program_id(0) == 0:
        nisa.memset(dst=t, value=0.0)
    else:
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def relay(x):  # core 1 begins when core 0 has ended: the run is longer than either core's part
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = tile(x)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=half, src=t)
    nisa.core_barrier(half, (0, 1))
    if nl.program_id(0) == 1:
        nisa.dma_copy(dst=t, src=half)
        nisa.dma_copy(dst=out, src=t)
    return out
"""
REFERENCE = """
import numpy as np
SEEDS = (0,)
def inputs(seed):
    return (np.random.default_rng(seed).standard_normal((128, 512), dtype=np.float32),)
def reference(x):
    return x
"""


def kernel(name, folder):
    path = folder / "kernels.py"
    path.write_text(KERNELS)
    space = {}
    exec(compile(KERNELS, str(path), "exec"), space)
    return space[name]


def nkisim_says(*words, code=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def tool(*words, code=0):
    """A command of nkisim_profile, in the folder of the file that it is given."""
    done = subprocess.run([sys.executable, "-m", "nkisim_profile", *map(str, words)], text=True,
                          cwd=pathlib.Path(words[1]).parent, capture_output=True,
                          env={**os.environ, "NKISIM_PROGRAM": PROGRAM})
    assert done.returncode == code, done.stderr
    return done


def us(text, before):
    found = re.search(before + r" *([\d.]+) (us|ms)", text)
    assert found, text
    return float(found[1]) * (1000 if found[2] == "ms" else 1)


def of_events(*sessions):
    """From the first start to the last end of anything, in us."""
    columns = [c for s in sessions for c in (s.parts, s.lanes) if len(c)]
    return (max(int(c.end.max()) for c in columns) - min(int(c.start.min()) for c in columns)) / 1e9


def of_program(trace, folder):
    """The outputs that have the latency of a trace of one rank, in us."""
    session, html = folder / "run.npz", folder / "run.html"
    text = nkisim_says("run", trace, "--session", session, "--html", html, "--budget",
                       "total_time<=1s").stdout
    said = json.loads(nkisim_says("run", trace, "--json").stdout)
    targets = nkisim_says("run", trace, "--targets", "trn2").stdout
    sweep = json.loads(tool("sweep", trace, "--set", "dma.bytes_per_ns=27.2", "--json").stdout)
    compared = json.loads(tool("compare", trace, "--targets", "trn2,trn2", "--json").stdout)["summary"]
    said_of_targets = json.loads(nkisim_says("run", trace, "--targets", "trn2", "--json").stdout)
    over_budget = nkisim_says("run", trace, "--quiet", "--budget", "total_time<=1ns", code=1).stderr
    seen = tool("view", session, "--output-format", "summary-text").stdout
    whole = nkisim_says("run", trace, "--summary-text").stdout
    assert len(html.read_text()) > 1000
    entries = {
        "run": us(text, "latency"), "--json": said["latency_us"],
        "--json, totals": said["totals"]["total_time"] * 1e6, "--targets": us(targets, "trn2"),
        "--targets --json": said_of_targets["targets"][0]["latency_us"],
        "--budget": us(text, "kept, total_time is"), "over budget": us(over_budget, "total_time is"),
        "--summary-text": us(whole, "total_time"),
        "sweep": sweep["points"][0]["summary"]["total_time"] * 1e6,
        "compare, A": compared[0]["a"] * 1e6, "compare, B": compared[0]["b"] * 1e6,
        "view": us(seen, "total_time"),
        "HTML": report.payload(Session(session), Pack())["summary"]["total_time"] * 1e6,
        "validation": Program(PROGRAM).summary(trace, "trn2")["total_time"] * 1e6,
    }
    return entries, of_events(Session(session))


def of_plugin(result):
    """The output of the pytest plugin."""
    with pytest.raises(AssertionError) as failed:
        Checked(result, "key", {}, None).latency_below(0)
    return us(str(failed.value), "^")


def agree(entries, expected):
    """All say `expected`, but for the digits that they show."""
    assert expected > 0
    digits = 0.0051 if expected < 1000 else 5.1  # two after the point, of us or ms
    wrong = {k: v for k, v in entries.items() if abs(v - expected) > digits}
    assert not wrong, (wrong, expected)


@pytest.mark.process
@pytest.mark.parametrize("name, cores", [("alone", 1), ("second", 2), ("relay", 2)])
def test_one_rank(tmp_path, name, cores):
    made = kernel(name, tmp_path)
    result = nkisim.run(made[cores] if cores > 1 else made, X, target="trn2")
    trace = result.save(tmp_path / "k.nisa")
    entries, expected = of_program(trace, tmp_path)
    spans = [m["total_time"] * 1e6 for m in result.summary.values()]
    assert name != "relay" or max(spans) < 0.8 * expected  # neither core's time is the run's
    assert name != "second" or spans[0] < 0.5 * expected
    agree({**entries, "Python": result.latency_us, "Python, ns": result.latency_ns / 1e3,
           "Result.totals": result.totals["total_time"] * 1e6, "Result.report": us(result.report(), "latency"),
           "repr": us(repr(result), ","), "notebook": us(result._repr_html_(), "trn2:"),
           "pytest": of_plugin(result)}, expected)


@pytest.mark.process
@pytest.mark.parametrize("name, cores", [("alone", 1), ("second", 2), ("relay", 2)])
def test_evaluate(tmp_path, name, cores):
    result = nkisim.run(kernel(name, tmp_path)[cores], X, target="trn2", timing=True)
    (tmp_path / "reference.py").write_text(REFERENCE)
    settings = nkisim_evaluate.Settings(tmp_path / "reference.py", target="trn2", timeout=60)
    with nkisim_evaluate.Evaluator(settings, 1) as judge:
        record = judge.evaluate({"id": "x", "source": KERNELS, "kernel": name, "grid": cores})
    # `second` leaves nothing out and `relay` moves x twice: all give x.
    assert record["status"] == "ok", record
    agree({"evaluate": record["latency_us"], "verdict": us(record["verdict"][0], "latency")}, result.latency_us)


@pytest.mark.process
@pytest.mark.parametrize("how", [[], ["--no-fold"]])
@pytest.mark.parametrize("name, cores", [("alone", 1), ("second", 2), ("relay", 2)])
def test_two_ranks(tmp_path, name, cores, how):
    one = nkisim.run(kernel(name, tmp_path)[cores], X, target="trn2")
    result = nkisim.run(kernel(name, tmp_path)[cores], X, target="trn2", ranks=2, fold=not how)
    trace = one.save(tmp_path / "k.nisa")
    sessions = tmp_path / "run.{rank}.npz"
    text = nkisim_says("run", trace, "--ranks", 2, *how, "--session", sessions, "--explain", "--budget",
                       "total_time<=1s").stdout
    said = json.loads(nkisim_says("run", trace, "--ranks", 2, *how, "--json").stdout)
    shown = [Session(path) for path in sorted(tmp_path.glob("run.*.npz"))]
    for rank, session in enumerate(shown):  # what each of them says of itself
        explained = re.findall(rf"\n{rank} +([\d.]+) ", text)[1:]  # not of one that is as another
        agree({"run": us(text, f"\n{rank}  "), "--json": said["ranks"][rank]["latency_us"],
               **{f"--explain, {n}": float(us_) for n, us_ in enumerate(explained)},
               "Python": result[rank].latency_us, "repr": us(repr(result[rank]), ",")}, of_events(session))
    agree({"run": us(text, "all"), "--budget": us(text, "kept, total_time is"),
           "--json": said["latency_us"], "--json, totals": said["totals"]["total_time"] * 1e6,
           "HTML of all": World(shown).latency_us(), "Python": result.latency_us,
           "WorldResult.report": us(result.report(), "latency"), "repr": us(repr(result), ","),
           "pytest": of_plugin(result)}, of_events(*shown))


@pytest.mark.process
def test_ranks_that_never_meet_are_as_one():
    """traces/softmax.jsonl: two ranks of one core, whose transfers do not get in each other's way."""
    trace = ROOT / "traces" / "softmax.jsonl"
    text = nkisim_says("run", trace, "--ranks", 2).stdout
    alone = json.loads(nkisim_says("run", trace, "--json").stdout)["latency_us"]
    agree({"rank 0": us(text, "\n0"), "rank 1": us(text, "\n1"), "all": us(text, "all")}, alone)


@pytest.mark.process
def test_a_partial_run(tmp_path):
    lines = [{"nisa": 1, "target": "trn2", "name": "endless", "cores": 2},
             *({"tensor": {"name": f"t{c}", "space": "sbuf", "shape": [128, 64], "dtype": "float32",
                           "address": 0, "core": c}} for c in (0, 1)),
             {"i": "memset", "dst": "t0", "value": 0, "engine": "vector", "core": 0},
             {"i": "memset", "dst": "t1", "value": 0, "engine": "vector", "core": 1},
             {"i": "loop_begin", "register": "r1", "start": 0, "stop": 2000000, "step": 1, "core": 1},
             {"i": "tensor_scalar", "dst": "t1", "data": "t1", "op0": "multiply", "operand0": 1.0,
              "engine": "vector", "core": 1},
             {"i": "loop_end", "core": 1}]
    trace = tmp_path / "endless.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    stop, session = ("--max-instructions", 20000), tmp_path / "run.npz"
    text = nkisim_says("run", trace, *stop, "--session", session, code=3).stdout
    said = json.loads(nkisim_says("run", trace, *stop, "--json", code=3).stdout)
    assert said["partial"]
    agree({"run": us(text, "latency"), "--json": said["latency_us"],
           "--targets": us(nkisim_says("run", trace, *stop, "--targets", "trn2", code=3).stdout, "trn2"),
           "view": us(tool("view", session, "--output-format", "summary-text").stdout, "total_time"),
           "HTML": report.payload(Session(session), Pack())["summary"]["total_time"] * 1e6},
          of_events(Session(session)))


@pytest.mark.process
def test_a_deadlock(tmp_path):
    lines = [{"nisa": 1, "target": "trn2", "name": "stuck", "cores": 2,
              "semaphores": "explicit", "semaphore_names": {"0": "never"}},
             {"tensor": {"name": "t", "space": "sbuf", "shape": [128, 64], "dtype": "float32",
                         "address": 0, "core": 1}},
             {"i": "memset", "dst": "t", "value": 0, "engine": "vector", "core": 1,
              "wait": [["never", ">=", 1]]}]
    trace = tmp_path / "stuck.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = "deadlock: rank0.nc1.vector waits for S[0] (never)>=1"
    errors = {"run": nkisim_says("run", trace, code=3).stderr,
              "--json": json.loads(nkisim_says("run", trace, "--json", code=3).stdout)["error"]["message"],
              "--targets": nkisim_says("run", trace, "--targets", "trn2", code=3).stderr,
              "two ranks": nkisim_says("run", trace, "--ranks", 2, code=3).stderr,
              "compare": tool("compare", trace, "--targets", "trn2,trn2", code=3).stderr,
              "sweep": tool("sweep", trace, "--set", "dma.bytes_per_ns=27.2", code=3).stderr}
    with pytest.raises(Failed) as failed:
        Program(PROGRAM).summary(trace, "trn2")
    errors["validation"] = str(failed.value)
    assert {k for k, v in errors.items() if said not in v} == set(), errors
