"""Tests that a neuronxcc.nki kernel larger than SBUF runs, as its compiler spilled; but each tile
must fit by itself.
"""

import warnings

import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

CAPACITY = 224 << 10  # bytes per partition of trn2


@nki.jit
def sums(x, columns):
    """The sums of a tile of `columns` and of one of 8, which are alive at a time."""
    out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nisa.memset((128, columns), 3.0, np.float32)
    other = nisa.memset((128, 8), 4.0, np.float32)
    nl.store(out, nl.add(nl.add(tile[:, 0:8], other), nl.load(x)))
    return out


def test_one_tile_may_have_all_of_sbuf_and_no_more():
    x = np.ones((128, 8), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (nkisim.run(sums, x, CAPACITY // 4, target="trn2").outputs == 8).all()
        with pytest.raises(nkisim.Error, match=f"at most {CAPACITY}, all of SBUF") as large:
            nkisim.run(sums, x, CAPACITY // 4 + 1, target="trn2")
    assert large.value.rule == "tile_too_large"


@pytest.mark.process
def test_a_saved_kernel_runs_over_capacity_as_it_did(tmp_path):
    x = np.ones((128, 8), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = nkisim.run(sums, x, CAPACITY // 4, target="trn2")
    result.save(tmp_path / "k.jsonl", compiled=False)
    cli("run", tmp_path / "k.jsonl", "--functional", "--outputs", tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as outputs:
        [values] = outputs.values()
    assert (values == 8).all()
