"""Tests that outputs are compared by one rule everywhere: --expect, kernels, pytest, `nkisim
evaluate`.
"""

import json

import ml_dtypes
import numpy as np
import pytest

from nkisim.run.comparing import compare
from nkisim.tools import kernel_report, pytest_plugin
from nkisim_evaluate.reference import Case, Reference
from running import cli

NAN, INF = float("nan"), float("inf")
#: (found, expected, within 10 % or 0.5, relative L2 error at most 0.2)
CASES = [(NAN, NAN, True, True), (NAN, 1.0, False, False), (1.0, NAN, False, False), (INF, INF, True, True),
         (NAN, INF, False, False), (INF, -INF, False, False), (INF, 1.0, False, False), (1.0, INF, False, False),
         (0.0, -0.0, True, True), (1.4, 1.0, True, True), (10.0, 8.0, False, False), (0.4, 0.0, True, True)]


def arrays(found, expected):
    """The pair among elements that match."""
    x, y = np.full((2, 3), 2.0, np.float32), np.full((2, 3), 2.0, np.float32)
    x[1, 1], y[1, 1] = found, expected
    return x, y


@pytest.mark.parametrize(("found", "expected", "close", "_"), CASES)
def test_kernels_and_pytest_agree(found, expected, close, _):
    x, y = arrays(found, expected)
    assert compare(x, y, 0.1, 0.5).equal is close
    row = kernel_report.compare(x, y, 0.1, 0.5)[0]
    assert row["equal"] is close and row["mismatches"] == (0 if close else 1)
    if close:
        pytest_plugin._assert_close("output 0", x, y, 0.1, 0.5)
        return
    assert "first at [1, 1]" in row["text"]
    with pytest.raises(AssertionError, match=r"output 0: 1 of 6 elements differ .* first at \[1, 1\]"):
        pytest_plugin._assert_close("output 0", x, y, 0.1, 0.5)


@pytest.mark.parametrize(("found", "expected", "close", "near"), CASES)
def test_evaluations_agree(found, expected, close, near, tmp_path):
    x, y = arrays(found, expected)
    text = "import numpy as np\ndef inputs(seed): ...\ndef reference(): ...\nRTOL, ATOL = 0.1, 0.5\n"
    (tmp_path / "r.py").write_text(text)
    assert Reference(tmp_path / "r.py").errors(Case([], {}, [y], None), [x])["equal"] is close
    (tmp_path / "l2.py").write_text(text + "REL_L2 = 0.2\n")
    said = Reference(tmp_path / "l2.py").errors(Case([], {}, [y], None), [x])
    assert said["equal"] is near


@pytest.mark.process
@pytest.mark.parametrize("how", ["elements", "whole"])
def test_the_command_agrees(tmp_path, how):
    lines, found, expected = [{"nisa": 1, "target": "trn2", "name": "copies"}], {}, {}
    for i, (x, y, *_) in enumerate(CASES):
        found[f"x{i}"], expected[f"y{i}"] = arrays(x, y)
        lines += [{"tensor": {"name": name, "dtype": "float32", "shape": [2, 3], "role": role}}
                  for name, role in ((f"x{i}", "input"), (f"y{i}", "output"))]
    lines += [{"i": "dma_copy", "dst": f"y{i}", "src": f"x{i}"} for i in range(len(CASES))]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    np.savez(tmp_path / "in.npz", **found)
    np.savez(tmp_path / "out.npz", **expected)
    limits = ["--rtol", "0.1", "--atol", "0.5"] if how == "elements" else ["--rel-l2", "0.2"]
    done = cli("run", tmp_path / "t.jsonl", "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "out.npz",
               "--json", *limits, code=1)
    said = {row["output"]: row["equal"] for row in json.loads(done.stdout)["outputs"]}
    assert said == {f"y{i}": case[2 if how == "elements" else 3] for i, case in enumerate(CASES)}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16,
                                   ml_dtypes.float8_e4m3fn, np.int64, np.int32, np.uint8, bool])
def test_it_is_numpys_isclose_for_every_dtype(dtype):
    rng = np.random.default_rng(5)
    for size in (0, 1, 7, 8, 2047, 2049, 5000):
        x, y = (rng.standard_normal(size) * 10 for _ in range(2))
        x = np.where(rng.random(size) < 0.7, y * (1 + 1e-3 * x), x)
        x, y = x.astype(dtype), y.astype(dtype)
        good = np.isclose(x.astype(float), y.astype(float), 0.05, 0.01)
        off = compare(x, y, 0.05, 0.01)
        gap = np.abs(x.astype(float) - y.astype(float))
        assert (off.elements, off.mismatches, off.equal) == (size, int((~good).sum()), bool(good.all()))
        assert off.max_abs == gap.max(initial=0)
        norm = np.linalg.norm(y.astype(float))
        assert off.rel_l2 == pytest.approx(np.linalg.norm(gap) / norm if norm else 0, rel=1e-12)
