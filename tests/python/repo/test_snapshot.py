"""Tests scripts/snapshot, which compares the recorded results of two builds and reports exactly what differs."""

import copy
import json
import pathlib
import sys

import numpy as np
import pytest

from running import PROGRAM, ROOT, python

sys.path.append(str(ROOT / "tests" / "snapshot"))

import compare  # noqa: E402
import hashes  # noqa: E402

BEFORE = {"parts": {"traces": {"match": ""}, "examples": {"match": ""}},
          "cases": {"traces/softmax trn2": {"exit": 0, "latency_fs": 9866264696,
                                            "outputs": {"y": "<f4[2] 00"}, "ratio": float("nan")},
                    "examples/rope trn1": {"exit": 0, "instructions": 40}}}


def _changed(change):
    after = copy.deepcopy(BEFORE)
    change(after)
    return list(compare.differences(BEFORE, after))


@pytest.mark.parametrize("change, expected", [
    (lambda s: None, []),
    (lambda s: s["cases"]["traces/softmax trn2"].update(latency_fs=9866264697),
     [("traces/softmax trn2", "latency_fs", "9866264696", "9866264697")]),
    (lambda s: s["cases"]["traces/softmax trn2"]["outputs"].update(y="<f4[2] 01"),
     [("traces/softmax trn2", "outputs.y", "<f4[2] 00", "<f4[2] 01")]),
    (lambda s: s["cases"]["traces/softmax trn2"].pop("exit"),
     [("traces/softmax trn2", "exit", "0", "absent")]),
    (lambda s: s["cases"].pop("examples/rope trn1"),
     [("examples/rope trn1", "", "present", "absent")]),
    (lambda s: s["cases"].update({"traces/new": {}}), [("traces/new", "", "absent", "present")]),
    # a part that one of the two did not record, or recorded in part, is not compared
    (lambda s: (s["parts"].pop("examples"), s["cases"].pop("examples/rope trn1")), []),
    (lambda s: (s["parts"]["examples"].update(match="softmax"),
                s["cases"].pop("examples/rope trn1")), [])])
def test_compare(change, expected):
    assert _changed(change) == expected


def test_an_array_is_its_type_shape_and_bits(tmp_path):
    zeros = np.zeros((2, 3), np.float32)
    assert hashes.of_array(zeros) == hashes.of_array(zeros.copy())
    others = (-zeros, zeros.T, zeros.view(np.int32), zeros.reshape(6))
    assert hashes.of_array(zeros) not in [hashes.of_array(a) for a in others]
    np.savez(tmp_path / "a.npz", x=zeros)
    np.savez_compressed(tmp_path / "b.npz", x=zeros)
    found = hashes.of_npz(tmp_path / "a.npz")
    assert found == hashes.of_npz(tmp_path / "b.npz")
    assert found["x"].split(" ")[-1] == hashes.of_array(zeros).split(" ")[-1]
    assert found["x"].startswith("<f4[2, 3]")


def test_an_archive_with_a_type_that_numpy_refuses(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np.savez(tmp_path / "a.npz", x=np.ones(4, ml_dtypes.float8_e5m2))
    assert hashes.of_npz(tmp_path / "a.npz")["x"].startswith("<f1[4]")


def _snapshot(*args):
    return python(ROOT / "tests" / "snapshot" / "snapshot.py", *args, code=None)


@pytest.mark.process
def test_a_recorded_example_and_one_with_a_changed_latency(tmp_path):
    program = pathlib.Path(PROGRAM)
    if program.parts[-3:-1] != ("build", "release"):
        pytest.skip("the program is not in a source tree's build/release")
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    done = _snapshot("record", before, "--tree", str(program.parents[2]), "--only", "examples",
                     "--match", "tensor_add trn2")
    assert done.returncode == 0, done.stderr
    snapshot = json.loads(pathlib.Path(before).read_text(encoding="utf-8"))
    name, run = next((n, c) for n, c in snapshot["cases"].items() if "latency_fs" in c)
    assert run["latency_fs"] == round(1e15 * run["summary"]["nc_0"]["total_time"])
    assert run["outputs"] and run["written"] and run["program"]
    run["latency_fs"] += 1
    pathlib.Path(after).write_text(json.dumps(snapshot), encoding="utf-8")
    assert _snapshot("compare", before, before).returncode == 0
    done = _snapshot("compare", before, after)
    assert done.returncode == 1
    assert f"{name}\n  latency_fs: {run['latency_fs'] - 1} -> {run['latency_fs']}" in done.stdout


@pytest.mark.process
def test_another_file_is_no_snapshot(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}", encoding="utf-8")
    done = _snapshot("compare", str(path), str(path))
    assert done.returncode == 1 and "is no snapshot" in done.stderr
