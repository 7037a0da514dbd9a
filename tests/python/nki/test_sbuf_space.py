"""Tests kernels that need more SBUF than there is in their own order: instructions are reordered,
or tensors of few partitions lie next to each other.
"""

import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

CAPACITY = 224 << 10  # bytes per partition of trn2


def values(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@nki.jit
def loads_first(x):
    """Loads ten tiles of 32 KiB per partition before it adds them up."""
    steps, rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(steps):
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        tiles.append(tile)
    total = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def all_at_once(x):
    """Adds every pair of eight tiles of 32 KiB: no order can do with fewer than all of them."""
    steps, rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(steps):
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf, name=f"tile{i}")
        nisa.dma_copy(dst=tile, src=x[i])
        tiles.append(tile)
    for i in range(steps):
        for j in range(steps):
            if i != j:
                nisa.tensor_tensor(dst=tiles[i], data1=tiles[i], data2=tiles[j], op=nl.add)
    nisa.dma_copy(dst=out, src=tiles[0])
    return out


@nki.jit
def halves(x):
    """Sums and differences of four pairs of tensors of half the partitions, 32 KiB each; all are
    needed until the end."""
    out = nl.ndarray((8, 64, x.shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
    made = []
    for i in range(4):
        a = nl.ndarray((64, x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray((64, x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[i, 0:64, :])
        nisa.dma_copy(dst=b, src=x[i, 64:128, :])
        made += [a, b]
    for i in range(0, 8, 2):
        nisa.tensor_tensor(dst=made[i], data1=made[i], data2=made[i + 1], op=nl.add)
        nisa.activation(dst=made[i + 1], op=nl.copy, data=made[i], scale=0.5)
    for _ in range(2):  # forth and back: all stay alive, for what reduces keeps its order
        for i in range(8):
            nisa.activation(dst=made[i], op=nl.copy, data=made[i], scale=-1.0, reduce_op=nl.add,
                            reduce_cmd=nisa.reduce_cmd.reset_reduce)
    for i in range(8):
        nisa.dma_copy(dst=out[i], src=made[i])
    return out


def test_loads_wait_where_the_kernels_order_does_not_fit():
    x = values(10, 128, 8192)
    result = nkisim.run(loads_first, x, target="trn2")
    expected = np.zeros((128, 8192), np.float32)
    for tile in x:
        expected += tile
    assert np.array_equal(result.outputs, expected)
    assert result.compiled.delay is not None and not result.compiled.packed
    assert result.peak[0, "SBUF"] <= CAPACITY
    assert "the kernel's order does not fit" in result.report()
    # It goes on from there: several loads are on their way at once.
    in_order = nkisim.run(loads_first, x, target="trn2", compiler={"schedule": "program"})
    assert np.array_equal(in_order.outputs, expected)
    assert result.latency_us <= in_order.latency_us


def test_a_kernel_that_fits_is_left_as_it_is():
    result = nkisim.run(loads_first, values(6, 128, 8192), target="trn2")
    assert result.compiled.delay is None and not result.compiled.packed
    assert "does not fit" not in result.report()


def test_narrow_tensors_lie_side_by_side_where_nothing_else_fits():
    x = values(4, 128, 8192)
    result = nkisim.run(halves, x, target="trn2")
    assert result.compiled.packed
    assert result.peak[0, "SBUF"] <= CAPACITY
    sums = x[:, :64] + x[:, 64:]
    expected = np.stack([t for s in sums for t in (s, s * np.float32(0.5))])
    assert np.array_equal(result.outputs, expected)
    free = nkisim.run(halves, x, target="trn2", over_capacity=True)
    assert not free.compiled.packed and np.array_equal(free.outputs, expected)


@pytest.mark.process
def test_a_saved_trace_of_packed_tensors_gives_the_same(tmp_path):
    x = values(4, 128, 8192)
    result = nkisim.run(halves, x, target="trn2")
    result.save(str(tmp_path / "k.nisa"))
    cli("check", tmp_path / "k.nisa")


def test_what_no_order_fits_is_an_error_that_lists_the_largest():
    with pytest.raises(nkisim.Error) as problem:
        nkisim.run(all_at_once, values(8, 128, 8192), target="trn2")
    text = str(problem.value)
    assert "SBUF is full" in text and "229376 exist" in text
    assert text.count("32768 bytes  tile") == 8


def test_the_simulator_of_aws_does_not_know_the_capacity(monkeypatch):
    """nki_simulator.rst, Memory Model: tiles that do not fit are a warning in nki.simulate, and an
    error where the device's rules are asked for."""
    x = values(8, 128, 8192)
    expected = np.asarray(nkisim.run(all_at_once, x, target="trn2", over_capacity=True, timing=False).outputs)
    monkeypatch.setenv("NKISIM_TIMING", "0")
    with pytest.warns(UserWarning, match="SBUF is full[^$]*AWS's simulator does not look"):
        np.testing.assert_array_equal(nki.simulate(all_at_once)(x), expected)
    monkeypatch.setenv("NKISIM_STRICT", "1")
    with pytest.raises(nkisim.Error, match="SBUF is full"):
        nki.simulate(all_at_once)(x)


def test_addresses_that_the_kernel_gives_are_kept():
    @nki.jit
    def fixed(x):
        out = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf, address=(0, 65536))
        tiles = []
        for i in range(10):
            tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i])
            tiles.append(tile)
        nisa.memset(dst=total, value=0.0)
        for tile in tiles:
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    x = values(10, 128, 8192)
    result = nkisim.run(fixed, x, target="trn2")
    assert result.compiled.delay is not None
    storages = [st for st in result.recorder.storages if st.address is not None]
    assert [(st.partition, st.address) for st in storages] == [(0, 65536)]
    expected = nkisim.run(loads_first, x, target="trn2").outputs
    assert np.array_equal(result.outputs, expected)


def random_kernel(seed):
    """Tiles of 128, 64 and 32 partitions, 20 to 40 KiB each: loaded early, combined, stored late."""
    @nki.jit
    def kernel(x):
        rng = np.random.default_rng(seed)
        out = nl.ndarray((12, 128, 10240), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in range(int(rng.integers(7, 12))):
            rows = int(rng.choice([32, 64, 64, 128]))
            columns = int(rng.choice([5120, 10240]))
            tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i % 4, 0:rows, 0:columns])
            tiles.append(tile)
        for i in range(12):
            a, b = (tiles[int(rng.integers(len(tiles)))] for _ in range(2))
            rows, columns = min(a.shape[0], b.shape[0]), min(a.shape[1], b.shape[1])
            made = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=made, data1=a[0:rows, 0:columns], data2=b[0:rows, 0:columns],
                               op=nl.add)
            nisa.dma_copy(dst=out[i, 0:rows, 0:columns], src=made)
            tiles[int(rng.integers(len(tiles)))] = made
        return out
    return kernel


@pytest.mark.slow
def test_random_kernels_that_overflow_compute_the_same():
    x, helped = values(4, 128, 10240), 0
    for seed in range(24):
        kernel = random_kernel(seed)
        expected = nkisim.run(kernel, x, target="trn2", over_capacity=True, timing=False,
                              allow_unwritten=True)  # half of its output is never written
        try:
            result = nkisim.run(kernel, x, target="trn2", allow_unwritten=True)
        except nkisim.Error as problem:
            assert "SBUF is full" in str(problem)
            continue
        assert result.outputs.tobytes() == expected.outputs.tobytes(), seed
        assert result.peak[0, "SBUF"] <= CAPACITY
        helped += result.compiled.delay is not None
    assert helped >= 5
