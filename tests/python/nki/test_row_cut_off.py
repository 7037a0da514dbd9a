"""Tests that a DMA row is reported if its elements pass the end of its tensor, though its index
does not.
"""

import warnings

import numpy as np
import pytest

import nkisim
from running import cli, write_trace

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

ROWS, COLUMNS = 8, 4
X = np.arange(1, 1 + ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def pairs(width, scatter):
    """Runs of `width` elements from the rows that `rows` names: gathered from x, or scattered to a copy of it."""
    def kernel(x, rows):
        n = rows.shape[0]
        out = nl.ndarray((ROWS, COLUMNS) if scatter else (n, width), dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.ndarray((n, 1), dtype=rows.dtype, buffer=nl.sbuf)
        tile = nl.ndarray((n, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=i, src=rows)
        nisa.memset(tile, 0.0)
        skip = nisa.oob_mode.skip
        if scatter:
            nisa.dma_copy(dst=out, src=x)
        far = (out if scatter else x).ap(pattern=[[COLUMNS, n], [1, width]], offset=0, vector_offset=i, indirect_dim=0)
        if scatter:
            nisa.dma_copy(dst=far, src=tile, oob_mode=skip)
        else:
            nisa.dma_copy(dst=tile, src=far, oob_mode=skip)
            nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("width, rows, row", [
    (8, [5, 6, 7], 2), (8, [7, 6, 7], 0), (6, [0, 7, 1], 1),  # the run from row 7 on ends behind the tensor
    (4, [5, 6, 7], None), (8, [5, 6, 6], None), (4, [5, 9, 7], None),  # it ends within; row 9 is none of the tensor's
])
def test_it_is_reported(width, rows, row, scatter, timing):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = nkisim.run(pairs(width, scatter), X, np.array(rows, np.uint32)[:, None], timing=timing)
    texts = [str(w.message) for w in said if "skips row" in str(w.message)]
    assert len(texts) == (row is not None)
    if row is not None:
        assert f"dma_copy: skips row {row} of " in texts[0] and "its index is 7" in texts[0]
    flat = X.reshape(-1)
    if not scatter:
        wanted = [flat[COLUMNS * r:COLUMNS * r + width] if COLUMNS * r + width <= flat.size else np.zeros(width)
                  for r in rows]
        assert np.array_equal(np.asarray(result.output), np.array(wanted, np.float32))


def test_it_is_a_warning_of_python():
    with pytest.raises(UserWarning, match="skips row 0"), warnings.catch_warnings():
        warnings.simplefilter("error")
        nkisim.run(pairs(8, False), X, np.array([7], np.uint32)[:, None])


def warnings_of(**rules):
    """The texts that a run of a cut-off row ends with, under some rules."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        nkisim.run(pairs(8, False), X, np.array([7], np.uint32)[:, None], rules=rules)
    return [str(w.message) for w in found if "skips row" in str(w.message)]


def test_it_is_suppressed_and_made_an_error_as_every_rule(monkeypatch):
    [text] = warnings_of()
    assert text.endswith("[row_cut_off]")
    assert warnings_of(suppress="row_cut_off") == []
    with pytest.raises(nkisim.Error, match="skips row 0") as caught:
        warnings_of(error="row_cut_off")
    assert caught.value.rule == "row_cut_off" and caught.value.kernel_file.endswith("test_row_cut_off.py")
    monkeypatch.setenv("NKISIM_ERROR", "row_cut_off")
    with pytest.raises(nkisim.Error, match="skips row 0"):
        warnings_of()


def test_of_several_ranks_too():
    def run(**rules):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            nkisim.run(pairs(8, False), X, np.array([7], np.uint32)[:, None], ranks=2, rules=rules)
        return [str(w.message) for w in found if "skips row" in str(w.message)]

    assert run() and not run(suppress="row_cut_off")
    with pytest.raises(nkisim.Error, match="skips row 0"):
        run(error="row_cut_off")


@pytest.mark.process
@pytest.mark.parametrize("words, code, reported", [
    ((), 0, True), (("--suppress", "row_cut_off"), 0, False), (("--error", "row_cut_off"), 3, True)])
@pytest.mark.parametrize("how", [(), ("--functional",)])
def test_of_a_trace(words, code, reported, how, tmp_path):
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2", "name": "k"},
        {"tensor": {"name": "x", "dtype": "float32", "shape": [8, 4], "role": "input",
                    "data": {"generator": "arange"}}},
        {"tensor": {"name": "y", "dtype": "float32", "shape": [1, 8], "role": "output"}},
        {"tensor": {"name": "i", "space": "sbuf", "dtype": "uint32", "shape": [1, 1], "address": 0}},
        {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [1, 8], "address": 64}},
        {"i": "memset", "dst": "i", "value": 7}, {"i": "memset", "dst": "t", "value": 0},
        {"i": "dma_copy", "dst": "t", "src": {"tensor": "x", "ap": [[4, 1], [1, 8]], "dynamic": [{"vector": "i"}]},
         "oob_mode": "skip"},
        {"i": "dma_copy", "dst": "y", "src": "t"}])
    done = cli("run", trace, *words, *how, code=code)
    assert ("skips row 0" in done.stderr) == reported, done.stderr
