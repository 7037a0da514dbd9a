"""Tests the simulator's log: --log-level, NKISIM_LOG and Python's logging."""

import json
import logging
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import nkisim
import nki.isa as nisa
import nki.language as nl

pytestmark = pytest.mark.process

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
TRACE = ROOT / "traces" / "softmax.jsonl"
# A product whose values nothing reads: the second one writes all of it.
LOST = """{"nisa": 1, "target": "trn2", "name": "lost"}
{"tensor": {"name": "y", "space": "hbm", "shape": [128, 512], "dtype": "float32", "role": "output"}}
{"tensor": {"name": "h", "space": "hbm", "shape": [128, 512], "dtype": "float32", "role": "input", \
"data": {"generator": "uniform", "seed": 3, "low": -2, "high": 2}}}
{"tensor": {"name": "w", "space": "sbuf", "shape": [128, 128], "dtype": "float32", "address": 0}}
{"tensor": {"name": "x", "space": "sbuf", "shape": [128, 512], "dtype": "float32", "address": 512}}
{"tensor": {"name": "p", "space": "psum", "shape": [128, 512], "dtype": "float32", "address": 0}}
{"i": "memset", "dst": "w", "value": 1}
{"i": "dma_copy", "dst": "x", "src": "h"}
{"i": "nc_matmul", "dst": "p", "stationary": "w", "moving": "x"}
{"i": "nc_matmul", "dst": "p", "stationary": "w", "moving": "x"}
{"i": "tensor_copy", "dst": "x", "src": "p"}
{"i": "dma_copy", "dst": "y", "src": "x"}
"""


def run(*words, log=None, program=PROGRAM):
    environment = {k: v for k, v in os.environ.items() if k != "NKISIM_LOG"}
    if log is not None:
        environment["NKISIM_LOG"] = log
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False,
                          env=environment)


@pytest.fixture
def lost(tmp_path):
    path = tmp_path / "lost.jsonl"
    path.write_text(LOST)
    return path


def test_by_default_nothing_is_reported():
    done = run("run", TRACE)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_transfer_of_the_trace_has_a_line():
    done = run("run", TRACE, "--json", "--log-level", "dma=debug")
    lines = done.stderr.splitlines()
    moved = [int(m[1]) for m in (re.search(r"^nkisim: debug: dma: core 0 \S+: (\d+) bytes in ", x)
                                 for x in lines) if m]
    # Two iterations of a loop, in each a tile of 128 x 128 float32 in and one out.
    assert moved == [128 * 128 * 4] * 4
    assert json.loads(done.stdout)["ok"]


def test_a_log_changes_no_result():
    plain, reported = run("run", TRACE, "--json"), run("run", TRACE, "--json", "--log-level", "trace")
    without = lambda text: {k: v for k, v in json.loads(text).items() if "seconds" not in k}  # noqa: E731
    assert without(plain.stdout) == without(reported.stdout)
    categories = {line.split(": ")[2] for line in reported.stderr.splitlines()}
    assert categories == {"compiler", "dispatch", "waits", "dma"}


def test_the_option_counts_where_the_environment_says_otherwise(tmp_path):
    file = tmp_path / "run.log"
    done = run("run", TRACE, "--log-level", "dispatch=info", log=f"dma=info,dispatch=debug:{file}")
    assert done.stderr == ""
    lines = file.read_text().splitlines()
    said = [re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[info\] (\w+): .+", x)[1]
            for x in lines]
    assert said.count("dispatch") == 2 and said.count("dma") == len(said) - 2 > 0


@pytest.mark.parametrize("words, log, message", [
    (("--log-level", "loud"), None, "--log-level is 'loud'"),
    ((), "engine=debug", "NKISIM_LOG is 'engine=debug'"),
])
def test_what_is_no_setting_is_a_usage_error(words, log, message):
    done = run("run", TRACE, *words, log=log)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


def test_warnings_stay_unless_the_log_leaves_them_out(lost):
    said = run("run", lost)
    assert said.stderr.startswith(f"nkisim: warning: {lost}:9: nc_matmul: its result is lost")
    as_json = run("run", lost, "--json")
    assert as_json.stderr == said.stderr and json.loads(as_json.stdout)["ok"]
    assert run("run", lost, "--quiet").stderr == said.stderr
    assert run("run", lost, "--quiet", "--log-level", "command=error").stderr == ""


def test_a_command_in_python_takes_it(tmp_path):
    file = tmp_path / "sweep.log"
    done = run("sweep", TRACE, "--set", "dma.bytes_per_ns=27.2", "--journal", tmp_path / "j",
               f"--log-level=dispatch=info:{file}")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"dispatch: starts: ", file.read_text())) == 1  # of the point


def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_logging_receives_what_it_asks_for(caplog):
    x = np.ones((128, 16), np.float32)
    with caplog.at_level(logging.INFO, "nkisim.dma"), caplog.at_level(logging.DEBUG, "nkisim.compiler"):
        before = nkisim.run(double, x)
    names = {r.name for r in caplog.records}
    assert names == {"nkisim.compiler", "nkisim.dma"}
    passes = [r.getMessage().split(":")[0] for r in caplog.records if r.name == "nkisim.compiler"]
    assert passes == [name for name, _, _ in before.compiled.steps]
    assert {r.levelno for r in caplog.records if r.name == "nkisim.dma"} == {logging.INFO}
    caplog.clear()
    after = nkisim.run(double, x)  # no one asks any more
    assert caplog.records == [] and after.latency_ns == before.latency_ns


def test_logging_receives_trace_below_debug(caplog):
    with caplog.at_level(5, "nkisim.waits"):
        nkisim.run(double, np.ones((128, 16), np.float32))
    assert {5, logging.DEBUG} >= {r.levelno for r in caplog.records} > set()
    assert any(" waited " in r.getMessage() for r in caplog.records)


def untimed(text):
    """Without times, which change with the models."""
    return re.sub(r"[0-9.]+ us", "N us", text)


def test_the_documented_examples():
    """docs/log.md shows the first lines of what these commands say."""
    page = (ROOT / "docs" / "log.md").read_text()
    found = re.findall(r"^```text\n\$ nkisim (run .*)\n((?:nkisim: .*\n)+)```", page, re.M)
    assert len(found) == 3
    for words, lines in found:
        said = subprocess.run([PROGRAM, *words.split()], capture_output=True, text=True, cwd=ROOT, check=True,
                              env={k: v for k, v in os.environ.items() if k != "NKISIM_LOG"}).stderr
        assert untimed(said).startswith(untimed(lines)), words
