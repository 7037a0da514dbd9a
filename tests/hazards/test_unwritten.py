"""Tests that a run reports reads of never-written memory, results written twice or lost, and wrong
PSUM groups, and reports nothing for correct programs.
"""


import lost
import numpy as np
import pytest

from running import cli
import unwritten
from corpus import Trace, ge

pytestmark = pytest.mark.process
CASES = {**unwritten.CASES, **lost.CASES}


def exit_code_and_text(path, *words):
    done = cli("run", path, "-q", *words, code=None, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, done.stderr


def test_a_deadlock_has_the_names_of_semaphores(tmp_path):
    t = Trace()
    t.chip("t")
    t.fill("t", "vector", wait=[ge("never", 1)])
    path = tmp_path / "k.jsonl"
    path.write_text(t.text())
    code, text = exit_code_and_text(path)
    assert code == 3
    assert "deadlock: rank0.nc0.vector waits for S[0] (never)>=1 (it is 0) at line 3 (memset)" in text


@pytest.mark.parametrize("words", [(), ("--functional",)], ids=["timed", "values only"])
@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_case(build, words, tmp_path):
    path = tmp_path / "k.jsonl"
    path.write_text(build(False).text())
    code, text = exit_code_and_text(path, *words)
    assert CASES[build] in text, text
    assert code == 3 or "warning: " in text
    path.write_text(build(True).text())
    assert exit_code_and_text(path, *words) == (0, "")


@pytest.mark.parametrize("build", [unwritten.raw_memory_read, unwritten.raw_memory_written])
def test_raw_memory_has_the_values_of_tensors(build, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.arange(128 * 512, dtype=np.float32).reshape(128, 512))
    np.savez(tmp_path / "expected.npz", y=np.arange(128 * 512, dtype=np.float32).reshape(128, 512))
    (tmp_path / "k.jsonl").write_text(build(True).text())
    cli("run", tmp_path / "k.jsonl", "-q", "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expected.npz")


def test_on_trn3_groups_may_share_a_bank(tmp_path):
    for target, warns in (("trn2", True), ("trn3", False)):
        for build in (unwritten.two_open_groups, unwritten.sums_in_slices):
            t = build(False)
            t.target = target
            path = tmp_path / "k.jsonl"
            path.write_text(t.text())
            code, text = exit_code_and_text(path)
            assert code == 0 and (unwritten.CASES[build] in text) == warns, text
