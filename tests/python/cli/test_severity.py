"""Tests that a broken rule is the same warning or error whichever way the program is run."""

import json
import re
import warnings

import numpy as np
import pytest

import nkisim
from broken_kernels import half_written, never_loaded, onto_a_copy, plain
from running import PROGRAM, ROOT, cli, run, write_trace

pytestmark = pytest.mark.process

X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64) % 7

#: (kernel, the rule that it breaks, whether that is an error), and the same with each rule made an error.
BROKEN = [(onto_a_copy, "psum_written_by_two_engines", False), (half_written, "output_partly_written", False),
          (never_loaded, "undefined_value", True), (plain, "", False)]


def findings(lines, rule):
    """(rule, "warning") of the lines that name a rule of a finding."""
    return {(named, "warning") for line in lines for named in re.findall(r"\[(\w+)\]", line) if named == rule}


def by_call(kernel, rule, error):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            nkisim.run(kernel, X, target="trn2", rules={"error": error})
        except nkisim.Error as problem:
            return {(problem.rule, "error")}
    return findings([str(w.message) for w in caught], rule)


def by_ranks(kernel, rule, error):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            nkisim.run(kernel, X, target="trn2", ranks=2, rules={"error": error})
        except nkisim.Error as problem:
            return {(problem.rule, "error")}
    return findings([str(w.message) for w in caught], rule)


def saved(kernel, path, compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = nkisim.run(kernel, X, target="trn2", allow_unwritten=True)
    recorded.save(path, compiled=compiled)
    return path


def outcome(done, rule):
    """The finding of a command that prints JSON."""
    if done.returncode == 3:
        return {(json.loads(done.stdout)["error"]["rule"], "error")}
    assert done.returncode == 0, done.stderr
    return findings(done.stderr.splitlines(), rule)


def by_trace(compiled, *more):
    def entry(kernel, rule, error, tmp_path):
        path = saved(kernel, tmp_path / "k.nisa", compiled)
        return outcome(cli("run", path, "--json", *more, *(["--error", ",".join(error)] if error else []), code=None),
                       rule)
    return entry


def by_worker(kernel, rule, error, tmp_path):
    path = saved(kernel, tmp_path / "k.nisa", True)
    job = {"nkisim_job": 1, "trace": str(path), **({"error": error} if error else {})}
    done = run(PROGRAM, "worker", input=json.dumps(job) + "\n", code=None)
    answer = json.loads(done.stdout.splitlines()[0])
    if "error" in answer and answer["error"]:
        return {(answer["error"]["rule"], "error")}
    return findings(answer.get("warnings", []), rule)


def by_kernel_command(kernel, rule, error, tmp_path):
    options = ["--error", ",".join(error)] if error else []
    done = cli("kernel", f"{ROOT}/tests/support/broken_kernels.py:{kernel.__name__}", "--arg",
               "x=f32[128,64]:normal", "--target", "trn2", "--json", *options,
               code=None)
    return outcome(done, rule)


ENTRIES = {
    "call": lambda kernel, rule, error, _: by_call(kernel, rule, error),
    "ranks": lambda kernel, rule, error, _: by_ranks(kernel, rule, error),
    "run, compiled": by_trace(True), "run, recorded": by_trace(False),
    "run, values alone": by_trace(True, "--functional"),
    "worker": by_worker, "kernel": by_kernel_command,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kernel, rule, is_error", BROKEN, ids=[k.__name__ for k, _, _ in BROKEN])
def test_a_rule_has_one_level_in_all_ways_to_run(kernel, rule, is_error, entry, tmp_path):
    found = ENTRIES[entry](kernel, rule, [], tmp_path)
    assert found == ({(rule, "error" if is_error else "warning")} if rule else set())


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kernel, rule", [(k, r) for k, r, is_error in BROKEN if r and not is_error])
def test_a_warning_that_is_made_an_error_is_one_in_all(kernel, rule, entry, tmp_path):
    assert ENTRIES[entry](kernel, rule, [rule], tmp_path) == {(rule, "error")}


def test_the_sum_onto_another_engines_copy_is_added(tmp_path):
    path = saved(onto_a_copy, tmp_path / "k.nisa", True)
    cli("run", path, "--outputs", tmp_path / "out.npz")
    found = next(iter(np.load(tmp_path / "out.npz").values()))
    np.testing.assert_allclose(found, X.T @ X + X[:64], rtol=1e-6)


@pytest.mark.parametrize("release, is_error", [("2.31", False), ("2.32", True)])
def test_strict_knows_the_release_that_forbids_it(release, is_error, monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", release)
    rule = "psum_written_by_two_engines"
    assert by_call(onto_a_copy, rule, []) == {(rule, "error" if is_error else "warning")}


def cases_of_rules(folder):
    """(instruction: case, a trace of it) of each case that breaks a rule; no tile is set."""
    for file in sorted((ROOT / "isa" / "ops").glob("*.cases.json")):
        for number, case in enumerate(json.loads(file.read_text())):
            if "error" in case:
                lines = [{"nisa": 1, "target": case["target"], "addresses": "virtual"},
                         *({"tensor": tensor} for tensor in case["tensors"]), *case["program"]]
                yield f"{file.name}: {case['case']}", write_trace(folder / f"{file.name}{number}.jsonl", lines)


@pytest.mark.slow
def test_every_case_of_a_broken_rule_names_one_rule_in_all_ways_to_run(tmp_path):
    traces = dict(cases_of_rules(tmp_path))
    jobs = "".join(json.dumps({"nkisim_job": 1, "trace": str(path)}) + "\n" for path in traces.values())
    answers = [json.loads(line) for line in run(PROGRAM, "worker", input=jobs).stdout.splitlines()]
    assert len(answers) == len(traces) > 300
    at_run_time = 0
    for number, ((name, path), answer) in enumerate(zip(traces.items(), answers, strict=True)):
        by_job = answer.get("error", {}).get("rule")
        way = [(), ("--functional",), ("--timing-only",)][number % 3]  # each third of them in another way
        done = cli("run", path, "--json", *way, code=None)
        checked = cli("check", path, "--json", code=None)
        ran = json.loads(done.stdout).get("error", {}).get("rule")
        if checked.returncode == 0:  # a rule of values, which only a run with values can ask, or with other values
            at_run_time += 1
            assert by_job in ("undefined_value", "core_deadlock", None), name
            assert ran == by_job or way == ("--timing-only",), name
            continue
        assert (ran, done.returncode) == (by_job, 3), name
        assert (json.loads(checked.stdout)["error"]["rule"], checked.returncode) == (by_job, 3), name
    assert at_run_time < 40
