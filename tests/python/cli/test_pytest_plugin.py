"""Tests nkisim's pytest plugin, which simulates kernels in tests, through pytest itself."""

import json
import os
import pathlib
import re

import pytest

import nkisim

pytestmark = pytest.mark.process

pytest_plugins = ["pytester"]
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(nkisim.__file__)))
LOAD = ("-p", "nkisim.pytest_plugin")

SOURCE = '''
import nki
import nki.language as nl
import numpy as np
import pytest


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


X = np.arange(512, dtype=np.float32).reshape(4, 128)
'''


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", PACKAGES, prepend=os.pathsep)

    def call(tests, *options):
        pytester.makepyfile(SOURCE + tests)
        return pytester.runpytest_subprocess(*LOAD, "-p", "no:cacheprovider", *options)

    return call


def test_targets_of_the_marker(run):
    result = run('''
@pytest.mark.nkisim(targets=["trn1", "trn2", "trn3"], rtol=0, atol=0)
def test_double(nki_run, nki_target):
    checked = nki_run(double, X).matches(2 * X).latency_below(50)
    assert checked.recorder.target == nki_target
''', "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_double?trn1?*", "*test_double?trn2?*"])


def test_targets_of_the_command_line(run):
    run('''
@pytest.mark.nkisim(targets=["trn1", "trn2", "trn3"])
def test_double(nki_run):
    nki_run(double, X)
''', "--nkisim-targets", "trn3").assert_outcomes(passed=1)


def test_a_failure_carries_the_profile(run, pytester):
    result = run('''
def test_double(nki_run):
    nki_run(double, X).matches(3 * X)
''', "--nkisim-artifacts", "left")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "output 0 of double" in text and "latency" in text
    for label in ("summary", "trace", "timeline"):
        path = re.search(rf"^{label} +(.+)$", text, re.M)[1]
        assert (pathlib.Path(pytester.path) / path).stat().st_size > 0


def test_too_slow(run):
    result = run('''
def test_double(nki_run):
    nki_run(double, X).latency_below(0.5)
''')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: * us is not below 0.500 us: double on trn2*"])


def test_latency_regression(run, pytester):
    tests = '''
def test_double(nki_run):
    nki_run(double, X).no_slower()
'''
    run(tests).assert_outcomes(failed=1)
    run(tests, "--nkisim-record").assert_outcomes(passed=1)
    run(tests).assert_outcomes(passed=1)
    path = pytester.path / "nkisim_latencies.json"
    (key, recorded), = json.loads(path.read_text()).items()
    assert len(path.read_text().splitlines()) == 4 + len(recorded)  # a short diff
    path.write_text(json.dumps({key: recorded["us"] / 2}))  # as older versions wrote it
    result = run(tests)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*100.0 % more than the recorded*"])
    line, = (k for k in recorded["by_line"] if "multiply" in k)  # as if it had been two thirds as long
    recorded["by_line"][line][1] -= recorded["by_line"][line][1] / 3
    path.write_text(json.dumps({key: {**recorded, "us": recorded["us"] / 2}}))
    result = run(tests)
    result.stdout.fnmatch_lines(["*what cost most:*", f"*line *{line[:20]}*"])


def test_the_summary_has_the_latencies(run):
    result = run("""
def test_double(nki_run):
    took = nki_run(double, X).latency_us
    print(f"took {took:.3f} us")
""", "-s")
    took = re.search(r"took (\S+ us)", result.stdout.str())[1]
    result.stdout.fnmatch_lines(["*nkisim latencies*", f"*test_double*: double on trn2: {took}"])


def test_an_unknown_setting(run):
    result = run('''
@pytest.mark.nkisim(tolerance=1)
def test_double(nki_run):
    nki_run(double, X)
''')
    assert result.ret != 0
    assert "the marker is nkisim(targets" in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("text, said", [("{", "no JSON"), ("[]", "holds a list"), ('{"a": "x"}', "a is 'x'"),
                                        ('{"a": {}}', "a is None"), ("[" * 9000, "at most 64")])
def test_a_file_of_latencies_that_is_none_is_reported(text, said, run, pytester):
    (pytester.path / "nkisim_latencies.json").write_text(text)
    shown = run("def test_double(nki_run): nki_run(double, X).no_slower()").stdout.str()
    assert said in shown and "JSONDecodeError" not in shown and "RecursionError" not in shown
