"""Tests the addresses that neuronxcc.nki's allocators give to tiles, counted by hand."""

import pytest

from nkisim.api import alloc


@pytest.mark.parametrize("words, at, place", [
    ({}, (0,), (0, 1000)), ({}, (5,), (0, 1000)), ({}, (5, 7), (0, 1000)),
    ({"num_free_tiles": (4,)}, (3,), (0, 1300)), ({"num_free_tiles": (4,)}, (4,), (0, 1000)),
    ({"num_free_tiles": (4,)}, (6,), (0, 1200)),
    ({"num_free_tiles": (2, 3)}, (1, 2), (0, 1500)), ({"num_free_tiles": (2, 3)}, (3, 4), (0, 1400)),
    ({"base_partition": 32, "num_par_tiles": (2,)}, (1,), (48, 1000)),
    ({"base_partition": 32, "num_par_tiles": (2,), "num_free_tiles": (4,)}, (7,), (48, 1300))])
def test_tiles_rotate_in_sbuf(words, at, place):
    buffer = alloc.sbuf.mod_alloc(base_addr=1000, **words)
    assert buffer.place(at, 16, 100) == place  # a tile of 16 partitions and 100 bytes in each


@pytest.mark.parametrize("words, at, place", [
    ({}, (3,), (0, 0)), ({"base_bank": 2, "base_addr": 8}, (3,), (0, 2 * 2048 + 8)),
    ({"num_bank_tiles": (4,)}, (3,), (0, 3 * 2048)), ({"num_bank_tiles": (4,)}, (5,), (0, 2048)),
    ({"base_bank": 1, "num_bank_tiles": (2,), "num_free_tiles": (3,), "num_par_tiles": (2,)}, (5,),
     (16, 2 * 2048 + 2 * 100))])
def test_tiles_rotate_in_psum(words, at, place):
    assert alloc.psum.mod_alloc(**words).place(at, 16, 100) == place


def test_a_kernels_own_rule():
    assert alloc.sbuf.alloc(lambda idx, pdim_size, fdim_size: [idx[0], pdim_size + fdim_size]).place((3,), 16, 100) \
        == (3, 116)
    assert alloc.psum.alloc(lambda at, p, n: (2, p, n)).place((3,), 16, 100) == (16, 2 * 2048 + 100)


def turned(fdim_size, idx, pdim_size):
    return idx[0], pdim_size + fdim_size


def turned_with_more(fdim_size, idx, pdim_size, more=1000):
    return idx[0], pdim_size + fdim_size + more


def other_names(at, rows, columns):
    return at[0], rows + 2 * columns


@pytest.mark.parametrize("rule, place", [(turned, (3, 116)), (turned_with_more, (3, 1116)), (other_names, (3, 216))])
def test_a_rule_takes_its_arguments_by_their_names(rule, place):
    assert alloc.sbuf.alloc(rule).place((3,), 16, 100) == place


def test_buffers_are_no_texts(monkeypatch, recwarn):
    """Only a text for a buffer is reported, which the compiler refuses."""
    import nkisim
    from nkisim.values import storage

    nkisim.install()
    import numpy as np
    import neuronxcc.nki.language as nl

    def kernel(x, buffer):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros(x.shape, dtype=x.dtype, buffer=buffer)
        nl.store(out, nl.add(tile, nl.load(x)))
        return out

    monkeypatch.setattr(storage, "_reported", set())
    x = np.ones((4, 8), np.float32)
    for buffer in (nl.sbuf, alloc.sbuf, alloc.sbuf.mod_alloc(base_addr=0)):
        nkisim.run(kernel, x, buffer, timing=False)
    assert not [w for w in recwarn if "a text for a buffer" in str(w.message)]
    nkisim.run(kernel, x, "sbuf", timing=False)
    assert [w for w in recwarn if "a text for a buffer" in str(w.message)]
