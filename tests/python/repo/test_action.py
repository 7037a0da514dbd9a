"""Tests the GitHub Action: its shell steps, run here as the runner would.

The steps get this build's program and packages. Installing them is one test, which runs where
NKISIM_TEST_INSTALL is set: it builds everything.
"""
import json
import os
import re
import sys
import xml.etree.ElementTree as xml

import pytest

from running import PROGRAM, ROOT, cli, run

pytestmark = pytest.mark.process

yaml = pytest.importorskip("yaml")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SLOW = ROOT / "traces" / "flash_attention.jsonl"
EXPRESSION = re.compile(r"\$\{\{(.+?)\}\}")
TEST = '''
import nki
import nki.language as nl
import numpy as np


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def test_double(nki_run):
    x = np.arange(512, dtype=np.float32).reshape(4, 128)
    nki_run(double, x).matches(FACTOR * x)
'''


class Runner:
    """The parts of GitHub's runner that the steps need: a workspace, its files, inputs and expressions."""

    def __init__(self, folder, **inputs):
        unknown = set(inputs) - set(ACTION["inputs"])
        assert not unknown, unknown
        self.folder = folder
        self.inputs = {name: inputs.get(name, spec["default"])
                       for name, spec in ACTION["inputs"].items()}
        for name in ("PATH", "OUTPUT", "STEP_SUMMARY"):
            (folder / name).touch()

    def value(self, expression):
        """Comparisons of inputs joined by &&, status functions and the action's path."""
        def operand(word):
            word = word.strip()
            if word in ("always()", "!cancelled()"):
                return True
            if word == "github.action_path":
                return str(ROOT)
            if word.startswith("inputs."):
                return self.inputs[word.removeprefix("inputs.")]
            assert re.fullmatch(r"'[^']*'", word), word
            return word[1:-1]

        def comparison(text):
            for sign, same in (("==", True), ("!=", False)):
                if sign in text:
                    left, right = map(operand, text.split(sign))
                    return (left == right) is same
            return operand(text)

        results = [comparison(part) for part in expression.split("&&")]
        return results[0] if len(results) == 1 else all(results)

    def text(self, template):
        return EXPRESSION.sub(lambda m: self.value(m[1]), str(template))

    def wanted(self, step):
        condition = step.get("if", "always()")
        found = EXPRESSION.fullmatch(condition)
        return self.value(found[1] if found else condition)

    def run(self, name):
        """Runs a shell step; None if its condition is false."""
        step = STEPS[name]
        assert step["shell"] == "bash"
        if not self.wanted(step):
            return None
        added = (self.folder / "PATH").read_text().split()
        ours = [] if added else [str(self.tools())]
        env = {**os.environ, "PATH": os.pathsep.join([*reversed(added), *ours, os.environ["PATH"]]),
               "RUNNER_TEMP": str(self.folder / "temp"),
               **{f"GITHUB_{n}": str(self.folder / n) for n in ("PATH", "OUTPUT", "STEP_SUMMARY")},
               **{k: self.text(v) for k, v in step.get("env", {}).items()}}
        if added:
            env.pop("PYTHONPATH", None)
        return run("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"], code=None,
                   cwd=self.folder, env=env)

    def tools(self):
        folder = self.folder / "tools"
        if not folder.exists():
            folder.mkdir()
            (folder / "nkisim").symlink_to(PROGRAM)
            (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            (folder / "python").chmod(0o755)
        return folder


@pytest.fixture
def runner(tmp_path):
    def make(**inputs):
        made = Runner(tmp_path, **inputs)
        done = made.run("Prepare the report")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "OUTPUT").read_text() == f"report={made.inputs['report']}\n"
        return made

    return make


def has_budgets():
    return "--budget" in cli("run", "--help", code=None).stdout


needs_budgets = pytest.mark.skipif(not has_budgets(), reason="this nkisim has no --budget")


def test_every_step_is_complete():
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS.values():
        assert ("run" in step) != ("uses" in step)
        if "run" in step:
            run("bash", "-n", input=step["run"])
            assert not EXPRESSION.search(step["run"]), "inputs reach the shell by its environment"
    named = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert named == set(ACTION["inputs"])
    assert all(spec["description"] for spec in ACTION["inputs"].values())


def slower(text):
    """A trace with one instruction more: its product twice."""
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "tensor_tensor" in line)
    return "".join([*lines[:at], lines[at].replace('"loc":"', '"loc":"more_'), *lines[at:]])


@pytest.mark.parametrize("base", ["folder", "revision"])
def test_what_changed_since_the_base(runner, tmp_path, base):
    text = (ROOT / "traces" / "tensor_add.jsonl").read_text()
    (tmp_path / "k.jsonl").write_text(re.sub(r'"data": ?\{[^}]*\}', '"data": {"generator": "normal"}', text))
    made = runner(traces="k.jsonl", base="before" if base == "folder" else "HEAD")
    if base == "folder":
        cli("run", tmp_path / "k.jsonl", "--session", tmp_path / "k.jsonl-own.npz")
        (tmp_path / "before").mkdir()
        (tmp_path / "k.jsonl-own.npz").rename(tmp_path / "before" / "k.jsonl-own.npz")
    else:
        run("git", "init", "-q", tmp_path)
        run("git", "-C", tmp_path, "add", "k.jsonl")
        run("git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base")
    (tmp_path / "k.jsonl").write_text(slower((tmp_path / "k.jsonl").read_text()))
    done = made.run("Simulate traces")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = (tmp_path / "STEP_SUMMARY").read_text()
    assert "k.jsonl on own: what changed" in summary and "| opcode: what cost most |" in summary
    assert re.search(r"### [\d.]+ us -> [\d.]+ us \(\+", summary) and "| `Vector TENSOR_TENSOR` |" in summary


def test_a_line_that_moved_is_still_itself(runner, tmp_path):
    kernel = TEST.split("def test_")[0]
    (tmp_path / "k.py").write_text(kernel)
    record = ("kernel", "k.py:double", "--arg", "x=f32[128,512]:normal", "--save", "k.jsonl")
    cli(*record, cwd=tmp_path)
    run("git", "init", "-q", tmp_path)
    run("git", "-C", tmp_path, "add", "k.py", "k.jsonl", "k.npz")
    run("git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base")
    (tmp_path / "k.py").write_text(kernel.replace("    nl.store", "    # A line more.\n    nl.store(out, nl.load(x))\n"
                                                  "    nl.store"))
    cli(*record, cwd=tmp_path, env={**os.environ, "NKISIM_SUPPRESS": "result_lost"})
    done = runner(traces="k.jsonl", base="HEAD").run("Simulate traces")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "STEP_SUMMARY").read_text().split("| line: what cost most |")[1]
    assert "`k.py:11 nl.store(out, nl.load(x))` | 0.000 |" in lines, lines
    assert re.search(r"`k.py:12 nl.store.out, nl.multiply.*` \| 0\.[1-9]", lines), lines  # 10 before


@needs_budgets
def test_traces_within_their_budgets(runner, tmp_path):
    made = runner(traces=f"{ROOT}/traces/softmax.jsonl\n{ROOT}/traces/tensor_*.jsonl\n",
                  targets="trn1 trn2", budgets="total_time<=1ms\ndma_transfer_count>=1\n")
    done = made.run("Simulate traces")
    assert done.returncode == 0, done.stdout + done.stderr
    report = tmp_path / "nkisim-report"
    names = {f"{t}.jsonl-{g}" for t in ("softmax", "tensor_add") for g in ("trn1", "trn2")}
    for kind in ("html", "xml", "json"):
        assert {p.stem for p in report.glob(f"*.{kind}")} == names
    for name in names:
        cases = xml.parse(report / f"{name}.xml").getroot().iter("testcase")
        assert len(list(cases)) >= 2
        total = next(iter(json.loads((report / f"{name}.json").read_text()).values()))["total_time"]
        assert f"{total * 1e6:.3f} us | ok |" in (tmp_path / "STEP_SUMMARY").read_text()


@needs_budgets
def test_a_broken_budget_fails_after_all_traces(runner, tmp_path):
    made = runner(traces=f"{ROOT}/traces/softmax.jsonl\nnone.jsonl\n{SLOW}",
                  budgets="total_time<=20us", options="--timing-only", report="kept")
    done = made.run("Simulate traces")
    assert done.returncode == 1
    rows = (tmp_path / "STEP_SUMMARY").read_text().splitlines()[2:]
    assert [r.split("|")[4].strip() for r in rows] == ["ok", "failed (3)", "failed (1)"]
    assert {p.name for p in (tmp_path / "kept").glob("*.html")} == {
        "softmax.jsonl-own.html", f"{SLOW.name}-own.html"}


@pytest.mark.parametrize("factor, code", [("2", 0), ("3", 1)])
def test_pytest(runner, tmp_path, factor, code):
    (tmp_path / "test_kernel.py").write_text(TEST.replace("FACTOR", factor))
    made = runner(pytest="-pnkisim.pytest_plugin\n-pno:cacheprovider\ntest_kernel.py")
    done = made.run("Run pytest")
    assert done.returncode == code, done.stdout + done.stderr
    suite = next(xml.parse(tmp_path / "nkisim-report" / "pytest.xml").getroot().iter("testsuite"))
    assert (suite.get("tests"), suite.get("failures")) == ("1", str(code))
    timelines = list((tmp_path / "nkisim-report").glob("pytest/*/*.pftrace"))
    assert len(timelines) == code  # a failing test leaves its timeline


def test_steps_without_work_are_left_out(runner):
    made = runner(upload="false")
    assert made.run("Simulate traces") is None and made.run("Run pytest") is None
    assert not made.wanted(STEPS["Upload the report"])
    made.inputs["upload"] = "true"
    assert made.wanted(STEPS["Upload the report"])


@pytest.mark.parametrize("wheel, what", [
    ("dist/nkisim-0.1.0-cp311-cp311-manylinux_2_31_x86_64.whl",
     "dist/nkisim-0.1.0-cp311-cp311-manylinux_2_31_x86_64.whl[profile,test]"),
    ("https://example.org/nkisim.whl", "nkisim[profile,test] @ https://example.org/nkisim.whl"),
])
def test_a_wheel_is_installed_and_nothing_compiled(runner, tmp_path, wheel, what):
    """The interpreter given writes down what it is asked; a system without apt or cmake suffices."""
    interpreter = tmp_path / "python-of-the-job"
    interpreter.write_text('#!/bin/bash\nfor word; do echo "$word"; done >> asked\n')
    interpreter.chmod(0o755)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("apt-get", "dpkg-query", "cmake", "sudo"):
        (programs / name).write_text("#!/bin/sh\necho $0 >> compiled\nexit 1\n")
        (programs / name).chmod(0o755)
    made = runner(wheel=wheel, python=str(interpreter))
    (tmp_path / "PATH").write_text(f"{programs}\n")
    done = made.run("Install nkisim")
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:5] == ["-m", "pip", "install", "--quiet", what]
    assert not (tmp_path / "compiled").exists()


@pytest.mark.skipif(not os.environ.get("NKISIM_TEST_INSTALL"), reason="NKISIM_TEST_INSTALL is not set")
def test_everything_from_the_checkout(runner, tmp_path):
    (tmp_path / "test_kernel.py").write_text(TEST.replace("FACTOR", "2"))
    made = runner(traces=str(SLOW), pytest="test_kernel.py")
    for name in ("Install nkisim", "Simulate traces", "Run pytest"):
        done = made.run(name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "temp/nkisim/bin/nkisim").exists()
    assert (tmp_path / "nkisim-report" / f"{SLOW.name}-own.html").exists()
