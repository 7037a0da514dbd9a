"""Tests the compiler passes for kernels of neuronxcc.nki, on kernels small enough to work out by
hand.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

P, MIB = 128, 1 << 20


def values(*shape, dtype=np.float32):
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


def steps(result):
    return {name: number for name, number, _ in result.compiled.steps}


def text(result, name):
    return {step: what for step, _, what in result.compiled.steps}[name]


def core(result):
    return next(iter(result.summary.values()))


def busy(result):
    return sum(core(result)[f"{e}_engine_active_time"] for e in ("vector", "scalar"))


@nki.jit
def turned(x):
    """Eight transposes, copied side by side into one tile."""
    out = nl.ndarray((P, 8, P), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, wide = nl.load(x), nl.ndarray((P, 8, P), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(8):
        wide[:, i, :] = nl.copy(nisa.nc_transpose(tile[:, i * P:(i + 1) * P]))
    nl.store(out, wide)
    return out


def test_four_transposes_leave_a_bank_by_one_copy():
    x = values(P, 8 * P)
    merged = nkisim.run(turned, x, target="trn2")
    assert steps(merged)["merge"] == 6  # a bank of 2 KiB holds four of 512 bytes: 8 copies, 2 left
    assert np.array_equal(merged.outputs, x.reshape(P, 8, P).transpose(2, 1, 0))
    kept = nkisim.run(turned, x, target="trn2", compiler={"merge": "none"})
    assert steps(kept)["merge"] == 0 and kept.instructions == merged.instructions + 6
    # Two copies of 512 columns hold their engines for less than eight of 128.
    assert busy(merged) < busy(kept)
    assert steps(nkisim.run(turned, x, target="trn1"))["merge"] == 0


def test_copies_out_of_psum_go_to_scalar_on_trn1_and_to_both_on_trn2():
    x = values(P, 8 * P)
    old = nkisim.run(turned, x, target="trn1")
    assert steps(old)["engines"] == 8
    assert core(old)["vector_engine_active_time"] == 0 < core(old)["scalar_engine_active_time"]
    assert np.array_equal(old.outputs, x.reshape(P, 8, P).transpose(2, 1, 0))
    new = nkisim.run(turned, x, target="trn2", compiler={"merge": "none"})
    assert min(core(new)["vector_engine_active_time"], core(new)["scalar_engine_active_time"]) > 0
    one = nkisim.run(turned, x, target="trn2", compiler={"merge": "none", "engines": "default"})
    assert core(one)["scalar_engine_active_time"] == 0
    assert new.latency_us < one.latency_us


def scaled(steps_of_arithmetic):
    """So many sums and products of ScalarE's kind with each tile of [128, 512], and a maximum."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(8):
            tile = nl.load(x[i])
            most = nisa.tensor_reduce(op=nl.max, data=tile, axis=1)
            for step in range(steps_of_arithmetic):
                first = ((nl.add, 1.5), (nl.multiply, most), (nl.multiply, -0.5))[step % 3]
                then = {"op1": nl.add, "operand1": most} if step % 3 == 2 else {}
                tile = nisa.tensor_scalar(tile, op0=first[0], operand0=first[1],
                                          reverse0=step % 3 == 0, **then)
            nl.store(out[i], tile)
        return out
    return kernel


def test_sums_and_products_with_scalars_go_to_scalar_on_trn1_unless_it_is_the_busiest():
    x = values(8, P, 512)
    for count in (3, 12):
        moved = nkisim.run(scaled(count), x, target="trn1")
        kept = nkisim.run(scaled(count), x, target="trn1", compiler={"engines": "default"})
        assert moved.outputs.tobytes() == kept.outputs.tobytes()
        assert core(kept)["scalar_engine_instruction_count"] == 8  # the triggers of its stores
        if count == 3:  # DMAs take longer than all of them: VectorE keeps the maxima,
            assert steps(moved)["engines"] == 3 * 8  # and fills one constant
            assert core(moved)["vector_engine_active_time"] < 0.3 * core(
                kept)["vector_engine_active_time"]
        else:  # 12 of 524 ns each per tile against a DMA of 2 us: both engines have some
            assert 4 * 8 < steps(moved)["engines"] < 11 * 8
            longest = max(core(moved)[f"{e}_engine_active_time"] for e in ("vector", "scalar"))
            assert longest < 0.7 * core(kept)["vector_engine_active_time"]
            assert moved.latency_us < kept.latency_us


def softmax(tiles, linked=False):
    """The softmax of every row of so many tiles; linked: with the largest maximum so far."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((tiles, P, 256), dtype=x.dtype, buffer=nl.shared_hbm)
        most = None
        for i in nl.static_range(tiles):
            tile = nl.load(x[i])
            parts = nl.ndarray((P, 2), dtype=nl.float32, buffer=nl.sbuf)
            parts[:, 0] = nisa.tensor_reduce(op=nl.max, data=tile, axis=1)
            parts[:, 1] = nl.copy(most if linked and i else parts[:, 0])
            most = nisa.tensor_reduce(op=nl.max, data=parts, axis=1)
            powers = nisa.activation(op=nl.exp, data=nl.subtract(tile, most))
            total = nisa.reciprocal(nisa.tensor_reduce(op=nl.add, data=powers, axis=1))
            nl.store(out[i], nisa.tensor_scalar(powers, op0=nl.multiply, operand0=total))
        return out
    return kernel


@pytest.mark.parametrize("tiles, linked, saved", [
    (4, False, 2 * 3),   # the second maximum and the reciprocal, once for all four
    (11, False, 2 * 9),  # for eight at once at most, then for three
    (4, True, 3)])       # each maximum needs the one before: the reciprocals alone
def test_statistics_of_several_tiles_are_found_at_once(tiles, linked, saved):
    x = values(tiles, P, 256)
    merged = nkisim.run(softmax(tiles, linked), x, target="trn2")
    kept = nkisim.run(softmax(tiles, linked), x, target="trn2", compiler={"rows": "none"})
    assert merged.outputs.tobytes() == kept.outputs.tobytes()
    powers = np.exp(x - (np.maximum.accumulate(x.max(2), 0) if linked else x.max(2))[:, :, None])
    assert np.allclose(merged.outputs, powers / powers.sum(2, keepdims=True), rtol=1e-5)
    assert steps(merged)["rows"] == saved and steps(kept)["rows"] == 0
    assert kept.instructions == merged.instructions + saved


def test_a_narrow_store_is_cast_first():
    @nki.jit
    def narrowed(x):
        out = nl.ndarray((P, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), 1.0))
        return out

    x = values(P, 512)
    cast = nkisim.run(narrowed, x, target="trn2")
    kept = nkisim.run(narrowed, x, target="trn2", compiler={"casts": "dma"})
    assert steps(cast)["casts"] == 1 and cast.instructions == kept.instructions + 1
    assert cast.outputs.tobytes() == kept.outputs.tobytes() == (x + 1).astype(
        ml_dtypes.bfloat16).tobytes()
    assert core(cast)["hbm_write_bytes"] == P * 512 * 2


def kept_alive(make):
    """Six tiles of 32 KiB per partition, made by `make`, all needed again after all were."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((6, P, 8192), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [make(x[i]) for i in range(6)]
        total = nl.add(tiles[0], tiles[1])
        for tile in tiles[2:]:
            total[...] = nl.add(total, tile)
        for i in range(6):
            nl.store(out[i], nl.multiply(tiles[i], total))
        return out
    return kernel


@nki.jit
def weighted(x, g):
    """Four tiles, each times a row that is repeated over the partitions in every iteration."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.load(g)
    for i in nl.affine_range(4):
        tile = nl.load(x[i * P:(i + 1) * P])
        nl.store(out[i * P:(i + 1) * P], nl.multiply(tile, row.broadcast_to((P, 1024))))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_row_is_repeated_over_the_partitions_once(target):
    """Each of 4 iterations has 2 products and 2 copies (ACTIVATE on trn1); those of the first are left."""
    x, g = values(4 * P, 1024), values(1, 1024)
    shared = nkisim.run(weighted, x, g, target=target)
    assert steps(shared)["share"] == 3 * 4
    assert core(shared)["hardware_flops"] == 2 * 1 * P * 1024
    assert np.array_equal(shared.outputs, x * g)
    each = nkisim.run(weighted, x, g, target=target, compiler={"share": "none"})
    assert core(each)["hardware_flops"] == 4 * 2 * P * 1024



@pytest.mark.parametrize("loads", [True, False])
def test_what_does_not_fit_is_loaded_again_or_spilled(loads):
    kernel = kept_alive(nl.load if loads else lambda rows: nl.add(nl.load(rows), 1.0))
    x = values(6, P, 8192)
    made = x if loads else x + np.float32(1)
    total = made[0] + made[1]
    for tile in made[2:]:
        total = total + tile
    result = nkisim.run(kernel, x, target="trn1")
    assert np.array_equal(result.outputs, made * total)
    assert result.peak[0, "SBUF"] <= 192 * 1024
    # Three quarters of SBUF hold four tiles: when the sum is done two of the six at most next to it
    # and a product. The other four, 4 MiB each, come back: from where they came, or stored before,
    # each once at most.
    more = core(result)["hbm_read_bytes"] // MIB - 6 * 4
    saved = core(result)["hbm_write_bytes"] // MIB - 6 * 4
    if loads:
        assert (saved, more) == (0, 16)
        assert "0 MiB spilled, 0 MiB reloaded, 16 MiB loaded again" in text(result, "fit")
    else:
        assert 16 <= saved <= 24 and more >= 16
        assert f"{saved} MiB spilled, {more} MiB reloaded, 0 MiB loaded" in text(result, "fit")
    counted = [core(result)[f"spill_{what}_bytes"] // MIB for what in ("save", "reload")]
    assert counted == ([0, 0] if loads else [saved, more])  # the program's own loads are not counted
    with pytest.warns(UserWarning, match="over capacity"):
        nkisim.run(kernel, x, target="trn1", compiler={"spill": "none"}, timing=False)


@nki.jit
def turned_by_blocks(x):
    """A matrix transposed in blocks of [128, 128]: rows of 512 bytes, a transfer each way per block."""
    out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // P):
        for j in nl.affine_range(x.shape[1] // P):
            rows, columns = slice(i * P, (i + 1) * P), slice(j * P, (j + 1) * P)
            nl.store(out[columns, rows], nl.transpose(nl.load(x[rows, columns])))
    return out


def test_static_descriptors_come_from_many_queues(monkeypatch):
    x = values(1024, 1024)
    made = {kind: nkisim.run(turned_by_blocks, x, target="trn2", compiler={"descriptors": kind})
            for kind in ("dynamic", "static")}
    for result in made.values():
        assert np.array_equal(result.outputs, x.T)
    dynamic, static = core(made["dynamic"]), core(made["static"])
    assert (dynamic["static_dma_size"], dynamic["software_dynamic_dma_size"]) == (0, 2 * x.nbytes)
    assert (static["static_dma_size"], static["software_dynamic_dma_size"]) == (2 * x.nbytes, 0)
    assert static["dma_queue_count"] == 16 > dynamic["dma_queue_count"]
    assert text(made["static"], "queues").endswith("128 by static descriptors")
    flagged = nki.jit(turned_by_blocks.func, additional_compile_opt="-O1 --disable-dge")
    assert nkisim.run(flagged, x, target="trn2").latency_us == made["static"].latency_us
    asked = nkisim.run(flagged, x, target="trn2", compiler={"descriptors": "dynamic"})
    assert asked.latency_us == made["dynamic"].latency_us
    monkeypatch.setenv("NEURON_CC_FLAGS", "--disable-dge --model-type=transformer")
    assert np.array_equal(turned_by_blocks(x), x.T)
    assert core(turned_by_blocks.result)["dma_queue_count"] == 16
    monkeypatch.setenv("NKISIM_DESCRIPTORS", "dynamic")
    assert core(nkisim.run(turned_by_blocks, x, target="trn2"))["static_dma_size"] == 0
    # On the chip 86 us, and 31 with --disable-dge.
    assert made["dynamic"].latency_us == pytest.approx(86, rel=0.15)
    assert made["static"].latency_us == pytest.approx(31, rel=0.3)
    assert made["static"].latency_us > 2 * x.nbytes / 435e3  # the DMA engines' limit


@nki.jit
def twice(x):
    """Every block of rows doubled into HBM, loaded from there and doubled again."""
    half = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = [slice(i * P, (i + 1) * P) for i in range(x.shape[0] // P)]
    for rows in blocks:
        nl.store(half[rows], nl.multiply(nl.load(x[rows]), 2.0))
    for rows in blocks:
        nl.store(out[rows], nl.multiply(nl.load(half[rows]), 2.0))
    return out


@pytest.mark.parametrize("blocks, columns, left", [
    (8, 128, 1),    # 64 KiB each: eight are one transfer of 512 KiB
    (5, 512, 3),    # 256 KiB each: by two, and one alone
    (4, 1024, 4),   # 512 KiB each
    (4, 64, 1),     # rows of 256 bytes are the shortest that are merged
    (4, 63, 4)])
def test_neighbouring_rows_are_one_transfer(blocks, columns, left):
    x = values(blocks * P, columns)
    merged = nkisim.run(twice, x, target="trn2")
    kept = nkisim.run(twice, x, target="trn2", compiler={"transfers": "none"})
    assert np.array_equal(merged.outputs, 4 * x) and np.array_equal(kept.outputs, 4 * x)
    saved = 3 * (blocks - left)  # both stores, and the loads of what the first stored
    assert steps(merged)["transfers"] == saved and steps(kept)["transfers"] == 0
    assert kept.instructions == merged.instructions + saved
    for figure in ("hbm_read_bytes", "hbm_write_bytes"):
        assert core(merged)[figure] == core(kept)[figure] == 2 * x.nbytes
    static = nkisim.run(twice, x, target="trn2", compiler={"descriptors": "static"})
    assert steps(static)["transfers"] == steps(nkisim.run(twice, x, target="trn1"))["transfers"] == 0


def test_rows_with_a_gap_between_them_stay_transfers_of_their_own():
    @nki.jit
    def apart(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for first in (0, 1):
            for i in range(first, 8, 2):
                nl.store(out[i * P:(i + 1) * P], nl.add(nl.load(x[i * P:(i + 1) * P]), 1.0))
        return out

    x = values(8 * P, P)
    result = nkisim.run(apart, x, target="trn2")
    assert steps(result)["transfers"] == 0 and np.array_equal(result.outputs, x + np.float32(1))


def test_blocks_of_columns_stay_transfers_of_their_own():
    result = nkisim.run(turned_by_blocks, values(256, 256), target="trn2")
    assert steps(result)["transfers"] == 0


@pytest.mark.parametrize("back", [1, 2, 3])
def test_transfers_that_wait_for_one_another_stay_apart(back):
    """Each block of eight is loaded after the one `back` before it was stored."""
    @nki.jit
    def chained(x):
        out = nl.ndarray((8 * P, P), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(back):
            nl.store(out[i * P:(i + 1) * P], nl.load(x[i * P:(i + 1) * P]))
        for i in range(back, 8):
            tile = nl.load(out[(i - back) * P:(i - back + 1) * P])
            nl.store(out[i * P:(i + 1) * P], nl.add(tile, 1.0))
        return out

    x = values(3 * P, P)
    expected = np.split(x, 3)[:back]
    for i in range(back, 8):
        expected.append(expected[i - back] + np.float32(1))
    result = nkisim.run(chained, x, target="trn2")
    assert np.array_equal(result.outputs, np.concatenate(expected))
    # The first loop's stores are one; the second's loads and stores go by `back` iterations.
    tiles = 8 - back
    assert steps(result)["transfers"] == back - 1 + 2 * (tiles - -(-tiles // back))


def test_a_tile_larger_than_its_memory_is_an_error():
    @nki.jit
    def whole(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    free = 192 * 1024
    fits = values(P, free // 4)
    assert np.array_equal(nkisim.run(whole, fits, target="trn1").outputs, fits)
    x = values(P, free // 4 + 1)
    with pytest.raises(nkisim.Error, match=f"has {free + 4} bytes per partition; at most {free}, "
                                           "all of SBUF, is required of one tile"):
        nkisim.run(whole, x, target="trn1")
    assert np.array_equal(nkisim.run(whole, x, target="trn1", over_capacity=True).outputs, x)
