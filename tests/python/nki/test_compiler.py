"""Tests the compiler's switches: the instructions that each one moves, and that no value depends on
it.
"""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

DEFAULTS = {"schedule": "list", "dma_queues": "auto", "clears": "drop", "broadcasts": "tensor",
            "reuse": "results", "rename": "loads", "loads": "needed"}
OFF = {"schedule": "program", "loads": "program", "dma_queues": "one", "clears": "keep", "broadcasts": "vector",
       "reuse": "none", "rename": "none"}


@nki.jit
def one_buffer(x):
    """Loads into one tile, copies, stores: 8 times."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(8):
        result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128:(i + 1) * 128, :])
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=result)
    return out


@nki.jit
def cleared_product(a, b):
    """Two sums over K in one bank each, cleared before."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 4, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 4, 512), dtype=b.dtype, buffer=nl.sbuf)
    for k in range(4):
        nisa.dma_copy(dst=left[:, k, :], src=a[k * 128:(k + 1) * 128, :])
        nisa.dma_copy(dst=right[:, k, :], src=b[k * 128:(k + 1) * 128, :])
    sums = nl.ndarray((128, 2, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=sums, value=0.0)
    for half in range(2):
        for k in range(4):
            nisa.nc_matmul(dst=sums[:, half, :], stationary=left[:, k, :], moving=right[:, k, :])
    first = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=first, src=sums[:, 0, :])
    nisa.tensor_tensor(dst=first, data1=first, data2=sums[:, 1, :], op=nl.add)
    nisa.dma_copy(dst=out, src=first)
    return out


@nki.jit
def repeated_row(x, row):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    one = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=one, src=row)
    every = nl.broadcast_to(one, x.shape)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=every, op=nl.multiply)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def invariant_square(x):
    """The same square in every step, until its operand is loaded again."""
    out = nl.ndarray((4, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:128, :])
    for i in range(4):
        square = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        shifted = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        if i == 3:
            nisa.dma_copy(dst=tile[:, 0:32], src=x[128:256, 0:32])
        nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_scalar(dst=shifted, data=square, op0=nl.add, operand0=float(i))
        nisa.dma_copy(dst=out[i], src=shifted)
    return out


def arguments(kernel):
    rng = np.random.default_rng(3)
    shapes = {invariant_square: [(256, 64)], one_buffer: [(1024, 512)], cleared_product: [(512, 128), (512, 512)],
              repeated_row: [(128, 512), (1, 512)]}[kernel]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def run(kernel, target="trn2", **switches):
    return nkisim.run(kernel, *arguments(kernel), target=target, compiler=switches)


def _core(result):
    """The summary of the only core."""
    return next(iter(result.summary.values()))


@pytest.mark.parametrize("kernel", [one_buffer, cleared_product, repeated_row, invariant_square])
def test_no_switch_changes_a_bit(kernel):
    expected = run(kernel, **OFF).outputs.tobytes()
    assert run(kernel).outputs.tobytes() == expected
    for name, value in DEFAULTS.items():
        assert run(kernel, **{**OFF, name: value}).outputs.tobytes() == expected, name


def test_loads_run_ahead_of_stores_and_of_the_tile_they_overwrite():
    renamed = run(one_buffer)
    assert renamed.compiled.renamed == 7  # the second to the eighth load
    assert renamed.compiled.moved >= 7
    assert "instructions moved before earlier ones" in renamed.report()
    kept = run(one_buffer, rename="none")
    assert kept.compiled.renamed == 0
    in_order = run(one_buffer, **OFF)
    assert in_order.compiled.moved == 0 and "schedule" not in in_order.report()
    # One load, copy and store after the other: 8 round trips. Overlapped: little more than one.
    split = run(one_buffer, rename="none", dma_queues="split")  # triggers as in_order's
    assert renamed.latency_us < split.latency_us < in_order.latency_us
    assert renamed.latency_us < 0.4 * kept.latency_us
    assert renamed.latency_us < 0.4 * in_order.latency_us


@nki.jit
def needed_last_loaded_first(x):
    """Sixteen tiles are loaded; what is computed first needs the last of them."""
    out = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf) for _ in range(16)]
    for i, tile in enumerate(tiles):
        nisa.dma_copy(dst=tile, src=x[i * 128:(i + 1) * 128, :])
    total = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for tile in reversed(tiles):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def test_loads_are_issued_as_they_are_needed():
    x = np.arange(16 * 128 * 2048, dtype=np.float32).reshape(-1, 2048) % 7
    found = {how: nkisim.run(needed_last_loaded_first, x, target="trn2", compiler={"loads": how})
             for how in ("auto", "needed", "program")}
    assert len({r.outputs.tobytes() for r in found.values()}) == 1
    assert found["auto"].latency_us == found["needed"].latency_us
    # A sum takes about 2 us, a load of 1 MiB 2.8: sums run in parallel with the loads, or after all of them.
    assert found["program"].latency_us - found["needed"].latency_us > 14 * 1.9


def test_a_tile_read_in_parts_keeps_its_storage():
    """Four loads of one tile that two instructions read by halves: the next load waits for both."""
    @nki.jit
    def by_halves(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(4):
            result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128:(i + 1) * 128, :])
            for half in (slice(0, 256), slice(256, 512)):
                nisa.tensor_scalar(dst=result[:, half], data=tile[:, half], op0=nl.multiply,
                                   operand0=2.0)
            nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=result)
        return out

    x = np.ones((512, 512), np.float32)
    found = {how: nkisim.run(by_halves, x, target="trn2", compiler={"rename": how})
             for how in ("auto", "whole", "loads")}
    assert [r.compiled.renamed for r in found.values()] == [0, 0, 3]
    assert found["loads"].latency_us < found["auto"].latency_us == found["whole"].latency_us


def test_a_tile_with_an_address_stays_one_tile():
    @nki.jit
    def fixed(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf, address=(0, 4096))
        for i in range(4):
            nisa.dma_copy(dst=tile, src=x[i * 128:(i + 1) * 128, :])
            nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=tile)
        return out

    x = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)
    result = nkisim.run(fixed, x, target="trn2")
    assert result.compiled.renamed == 0
    assert np.array_equal(result.outputs, x)
    assert result.peak[0, "SBUF"] == 4096 + 2048


def test_a_gather_that_may_skip_rows_keeps_its_tile():
    @nki.jit
    def gather(x, index):
        out = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        rows = nl.ndarray((64, 1), dtype=index.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=index)
        tile = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0)
        nisa.dma_copy(dst=tile, src=x.ap([[32, 64], [1, 32]], vector_offset=rows),
                      oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.random.default_rng(2).standard_normal((100, 32)).astype(np.float32)
    index = np.arange(0, 192, 3, dtype=np.int32).reshape(64, 1)  # rows beyond 99 are skipped
    expected = np.where(index < 100, x[np.minimum(index[:, 0], 99)], -1)
    result = nkisim.run(gather, x, index, target="trn2")
    assert result.compiled.renamed == 0
    assert np.array_equal(result.outputs, expected)


def test_the_clear_before_an_overwriting_product_is_dropped():
    dropped, kept = run(cleared_product), run(cleared_product, clears="keep")
    assert (dropped.compiled.dropped, kept.compiled.dropped) == (1, 0)
    assert dropped.instructions == kept.instructions - 1


def test_a_clear_that_is_read_stays():
    @nki.jit
    def half(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(dst=bank, value=0.0)
        nisa.nc_matmul(dst=bank[:, 0:128], stationary=tile, moving=tile)
        copy = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=bank)
        nisa.dma_copy(dst=out, src=copy)
        return out

    x = np.random.default_rng(1).standard_normal((128, 128)).astype(np.float32)
    result = nkisim.run(half, x, target="trn2")
    assert result.compiled.dropped == 0
    assert not result.outputs[:, 128:].any()


def test_what_was_computed_before_is_read_again():
    once, always = run(invariant_square), run(invariant_square, reuse="none")
    assert (once.compiled.reused, always.compiled.reused) == (2, 0)  # the load between ends it
    assert once.instructions == always.instructions - 2


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])  # trn1 copies by an activation
def test_a_repeated_row_is_read_in_psum(target):
    by_product = run(repeated_row, target)
    by_shuffles = run(repeated_row, target, broadcasts="vector")
    x, row = arguments(repeated_row)
    np.testing.assert_array_equal(by_product.outputs, x * row)
    assert by_product.compiled.forwarded == 1
    # memset of the ones, two passes avoided by is_stationary_onezero: one nc_matmul, no copy.
    assert by_product.instructions == 3 + 1 + 1 + 1
    assert by_shuffles.instructions == 3 + 4 + 1
    count = "vector_engine_instruction_count"
    assert _core(by_product)[count] < _core(by_shuffles)[count]


@pytest.mark.parametrize("queues, engine", [("one", "sync"), ("split", "scalar"),
                                            ("software", "gpsimd")])
def test_stores_are_triggered_by_the_chosen_engine(queues, engine, tmp_path):
    result = run(one_buffer, dma_queues=queues)
    lines = open(result.save(tmp_path / "k.jsonl"), encoding="utf-8").read().splitlines()
    stores = [line for line in lines if '"i":"dma_copy"' in line and '"src":"x[' not in line]
    assert len(stores) == 8
    assert all(f'"engine":"{engine}"' in line for line in stores)


def test_unknown_switches_are_refused():
    with pytest.raises(nkisim.Error, match="no switch 'order'"):
        run(one_buffer, order="list")
    with pytest.raises(nkisim.Error, match="schedule is 'fast'; one of list, program"):
        run(one_buffer, schedule="fast")


def test_the_environment_gives_the_defaults(monkeypatch):
    monkeypatch.setenv("NKISIM_SCHEDULE", "program")
    assert run(one_buffer).compiled.moved == 0
    assert run(one_buffer, schedule="list").compiled.moved > 0


def test_time_without_values():
    full = run(one_buffer)
    timed = nkisim.run(one_buffer, *arguments(one_buffer), target="trn2", timing="only")
    assert timed.outputs is None and timed.latency_ns == full.latency_ns


def test_dynamic_loops_are_scheduled_within_their_body():
    @nki.jit
    def loop(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(4):
            tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            twice = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[nl.ds(i * 1 if isinstance(i, int) else i, 1), :, :])
            nisa.tensor_tensor(dst=twice, data1=tile, data2=tile, op=nl.add)
            nisa.dma_copy(dst=out[nl.ds(i, 1), :, :], src=twice)
        return out

    x = np.random.default_rng(5).standard_normal((4, 128, 512)).astype(np.float32)
    expected = nkisim.run(loop, x, target="trn2", compiler=OFF).outputs
    assert np.array_equal(nkisim.run(loop, x, target="trn2").outputs, expected)
    assert np.array_equal(expected, 2 * x)
