"""Tests the host's memory and time for a simulated run, also of kernels that do not fit SBUF in
their own order.

The front end's work is counted in calls of functions, Python's and those written in C, which a busy machine does
not change. The compiler's part is not made of calls: its limit is a ratio of processor times, the best
of three each.
"""

import math
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest

import nkisim
from running import PEAK_BYTES, python

nkisim.install()

import neuronxcc.nki as legacy  # noqa: E402
import neuronxcc.nki.isa as oisa  # noqa: E402
import neuronxcc.nki.language as onl  # noqa: E402
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@pytest.mark.process
def test_values_looked_at_keep_no_others():
    """2,000 products in tiles of their own, the last one's values asked for inside the kernel: what
    the kernel holds no more has no memory (it was 0.5 GB here)."""
    script = PEAK_BYTES + textwrap.dedent("""
        import numpy as np, nkisim
        nkisim.install()
        import nki.isa as nisa, nki.language as nl

        def kernel(a, b):
            out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            x, y = nl.load(a), nl.load(b)
            first = nl.add(y, 1.0)
            for i in range(2000):
                tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_scalar(tile, y, op0=nl.multiply, operand0=float(i))
                if i in (1000, 1999):
                    assert tile.numpy()[3, 4] == i and first.numpy()[1, 1] == 2
            nl.store(out, tile)
            return out

        before = peak_bytes()
        ones = np.ones((128, 512), np.float32)
        out = nkisim.run(kernel, ones, ones, timing=False).outputs
        assert (out == 1999).all()
        print((peak_bytes() - before) / 2**20)
    """)
    done = python("-c", script)
    assert float(done.stdout) < 150


@pytest.mark.process
def test_a_run_takes_its_inputs_twice_and_its_outputs_once():
    """Inputs are in the caller's arrays and in the simulated HBM; the caller's array of an output is the memory
    that the simulated HBM has (each was there twice). SBUF, PSUM and marks of defined bytes take the rest."""
    script = PEAK_BYTES + textwrap.dedent("""
        import numpy as np, nkisim
        nkisim.install()
        import nki.isa as nisa, nki.language as nl

        def kernel(a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            for i in range(a.shape[0]):
                nl.store(out[i], nl.load(a[i]))
            return out

        before = peak_bytes()
        a = np.ones((128, 128, 2048), np.float32)
        result = nkisim.run(kernel, a)
        peak = peak_bytes() - before
        assert (result.outputs == a).all()
        print(peak / 2**20)
    """)
    done = python("-c", script)
    assert float(done.stdout) < 3 * 128 * 128 * 2048 * 4 / 2 ** 20 + 100


def test_an_output_that_the_caller_changes_is_still_what_the_run_gave(tmp_path):
    """Large outputs share their memory with the simulated HBM, page by page until somebody writes there."""
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(a.shape[0]):
            nl.store(out[i], nl.load(a[i]))
        return out, out

    a = np.arange(8 * 128 * 1024, dtype=np.float32).reshape(8, 128, 1024)
    result = nkisim.run(kernel, a)
    first, second = result.outputs
    first += 1
    assert np.array_equal(first, a + 1) and np.array_equal(second, a)
    result.save(tmp_path / "k.nisa")
    with np.load(tmp_path / "k.expected.npz") as expected:
        (kept,) = expected.values()
        assert np.array_equal(kept, a)
    again = nkisim.run(kernel, a).outputs[0]
    del result, second
    assert np.array_equal(first, a + 1) and np.array_equal(again, a)


@pytest.mark.process
def test_a_check_of_races_that_needs_values_shares_its_inputs():
    """Two cores that scatter the rows of indices: the program is executed before the run, on the same
    host memory (three times 128 MiB before)."""
    script = PEAK_BYTES + textwrap.dedent("""
        import numpy as np, nkisim
        nkisim.install()
        import nki.isa as nisa, nki.language as nl

        def kernel(x, index):
            out = nl.ndarray((8, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
            core = nl.program_id(0)
            tile = nl.zeros((4, 4096), dtype=nl.float32, buffer=nl.sbuf)
            for i in range(core, 64, 2):
                part = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=part, src=x[128 * i:128 * i + 128])
                nisa.tensor_tensor(dst=tile, data1=tile, data2=part[0:4], op=nl.add)
            rows = nl.load(index[core])
            nisa.dma_copy(dst=out.ap([[4096, 4], [1, 4096]], vector_offset=rows, indirect_dim=0),
                          src=tile)
            return out

        x = np.ones((8192, 4096), np.float32)
        index = np.arange(8, dtype=np.int32).reshape(2, 4, 1)
        before = peak_bytes()
        out = nkisim.run(kernel, x, index, grid=2, target="trn2", timing=False).outputs
        assert (np.asarray(out) == 32).all()
        print((peak_bytes() - before) / 2**20)
    """)
    done = python("-c", script)
    assert float(done.stdout) < 300


def calls_of(run):
    """Calls for an instruction of what `run()` returns."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(count)
        try:
            result = run()
        finally:
            sys.setprofile(None)
    return calls / result.instructions


def sums(tiles, width=1024):
    """Processor seconds for an instruction of legacy sums of three columns each, into `tiles` tiles that
    all stay live."""
    def kernel(x):
        out = onl.ndarray((tiles, 128, width), dtype=x.dtype, buffer=onl.shared_hbm)
        rows = onl.zeros((tiles, onl.par_dim(128), width + 2), dtype=x.dtype, buffer=onl.sbuf)
        made = onl.zeros((tiles, onl.par_dim(128), width), dtype=x.dtype, buffer=onl.sbuf)
        for i in range(tiles):
            rows[i] = onl.load(x[i])
        for i in range(tiles):
            for j in range(0, width, 4):
                made[i, :, j:j + 1] = oisa.tensor_reduce(np.add, rows[i, :, j:j + 3], axis=[1])
        for i in range(tiles):
            onl.store(out[i], value=made[i])
        return out

    x = np.ones((tiles, 128, width + 2), np.float32)
    best = math.inf
    for _ in range(3):
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = nkisim.run(kernel, x, legacy=True)
        best = min(best, (time.process_time() - begin) / result.instructions)
    return best


@pytest.mark.slow
def test_over_capacity_costs_no_more_per_instruction():
    sums(4)  # imports and caches
    assert sums(80) < 4 * sums(12)


def products(language, load, size):
    """A tiled product; `load` is how the generation takes a tile of an operand."""
    def kernel(a, b):
        out = language.ndarray((size, size), dtype=nl.float32, buffer=language.shared_hbm)
        for m in range(0, size, 128):
            for n in range(0, size, 512):
                total = language.zeros((128, 512), nl.float32, buffer=language.psum)
                for k in range(0, size, 128):
                    x, y = load(a, k, m, 128), load(b, k, n, 512)
                    if language is onl:
                        total += oisa.nc_matmul(x, y)
                    else:
                        nisa.nc_matmul(total, x, y)
                language.store(out[m:m + 128, n:n + 512], language.copy(total))
        return out

    a = np.ones((size, size), np.float32)
    kernel = legacy.jit(kernel) if language is onl else nki.jit(kernel)
    return calls_of(lambda: nkisim.shapes(kernel, a, a))


def by_index_tiles(tensor, row, column, width):
    rows, columns = onl.arange(128)[:, None], onl.arange(width)[None, :]
    return onl.load(tensor[row + rows, column + columns])


def by_slices(tensor, row, column, width):
    return nl.load(tensor[row:row + 128, column:column + width])


@pytest.mark.parametrize("size", [1024])
def test_index_tiles_record_about_as_fast_as_slices(size):
    """They took 5 to 50 times as long: 4,000 instructions a second."""
    products(onl, by_index_tiles, 512), products(nl, by_slices, 512)  # imports and caches
    assert products(onl, by_index_tiles, size) < 2.5 * products(nl, by_slices, size)


def seconds_of_launches(**options):
    """Processor seconds for ten launches of a kernel of three instructions; the best of three."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    x, best = np.ones((128, 4), np.float32), math.inf
    for _ in range(3):
        begin = time.process_time()
        latencies = {nkisim.run(kernel, x, target="trn2", **options).latency_ns for _ in range(10)}
        best = min(best, time.process_time() - begin)
        assert len(latencies) == 1
    return best, *latencies


def test_a_launch_reads_no_machine_description_again():
    """A built-in description is read once (3 of a launch's 5 ms); one with overrides is read for its run and
    does not stay."""
    plain, latency = seconds_of_launches()
    changed, longer = seconds_of_launches(overrides={"dma.hbm_read_latency": 5132})
    assert longer > latency + 2000
    assert plain < 0.7 * changed
    assert seconds_of_launches()[1] == latency


def test_an_instruction_of_slices_is_two_calls():
    """The function of nki.isa and one of the extension module: slices, operands and the line come from there
    (it was 39 calls)."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(2000):
            nisa.tensor_tensor(tile[:, 0:4], tile[:, 4:8], tile[0:128, nl.ds(8, 4)], nl.add)
        nl.store(out, tile)
        return out

    x = np.ones((128, 512), np.float32)
    assert calls_of(lambda: nkisim.shapes(kernel, x)) < 5


def test_an_older_api_instruction_is_few_calls():
    """Calls that give tiles: to slices, to names, and an operator. They were 43 calls each."""
    @legacy.jit
    def kernel(x):
        out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
        t = onl.load(x)
        for _ in range(400):
            t[:, 0:4] = oisa.tensor_tensor(t[:, 4:8], t[:, 8:12], np.add)
            y = oisa.activation(np.exp, t[:, 0:4])
            total = oisa.tensor_reduce(np.add, y, axis=[1])
            t[:, 12:16] = oisa.tensor_scalar(y, np.multiply, total)
            t[:, 16:20] = y * t[:, 0:4]
        onl.store(out, t)
        return out

    x = np.ones((128, 512), np.float32)
    assert calls_of(lambda: nkisim.shapes(kernel, x)) < 40


def stores_of_one_tile(x, count):
    """DMAs that read one tile and write one place: each has to wait for the one before."""
    out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
    tile = onl.load(x) * 2.0
    for _ in onl.affine_range(count):
        onl.store(out, tile)
    return out


def loads_of_written_rows(x, count):
    """DMAs that read a tensor in HBM that the kernel wrote, and overwrite rows of one tile."""
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.dma_copy(between, tile)
    for i in range(count):
        nisa.dma_copy(tile[i % 128:i % 128 + 1, :], between[i * 7 % 128:i * 7 % 128 + 1, :])
    nisa.dma_copy(out, tile)
    return out


def columns_of_one_tile(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in range(count):
        nisa.tensor_scalar(tile[:, i % 64:i % 64 + 1], tile[:, (i + 1) % 64:(i + 1) % 64 + 1], nl.add, 1.0)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("kernel", [stores_of_one_tile, loads_of_written_rows, columns_of_one_tile])
def test_time_grows_with_the_instructions(kernel):
    """Four times the instructions take at most eight times as long. Reads of one place by many DMAs
    had been compared with each other: 16 times."""
    x = np.zeros((128, 1024), np.float32)  # no DMA is over before the next instruction

    def seconds(count):
        def once():
            begin = time.process_time()
            nkisim.run(kernel, x, count, target="trn2", timing="only", legacy=kernel is stores_of_one_tile)
            return time.process_time() - begin
        return min(once() for _ in range(3))

    assert seconds(40_000) < 8 * seconds(10_000)
