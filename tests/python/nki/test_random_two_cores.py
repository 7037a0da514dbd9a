"""Tests random programs of two cores with dynamic loops and barriers, while other transfers are
under way. Values are compared with NumPy, and runs with timing bit for bit with runs without.

NKISIM_FUZZ_PROGRAMS=N python tests/python/nki/test_random_two_cores.py compares N programs.
"""

import os
import random
import sys

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

QUARTER, HALF = np.float32(0.25), np.float32(0.5)


def received(me, mine, dma_engine=nisa.dma_engine.dma, clear=False, source=None):
    other = nl.ndarray(mine.shape, mine.dtype, buffer=nl.sbuf)
    if clear:
        nisa.memset(other, value=-7.0)
    source = 1 - me if source is None else source
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=source, pipe_id=0,
                  dma_engine=dma_engine)
    return other


def sent_then_overwritten(me, mine, dma_engine):
    """One core overwrites what it sent at once, while the other still loads."""
    other = received(me, mine, dma_engine)
    nisa.memset(mine, value=99.0)
    return nl.add(other, nl.multiply(mine, 0.0))


def one_way(me, mine):
    """Core 0 gets core 1's tile; core 1 its own."""
    return received(me, mine, source=1)


def shared(me, mine, engine=nisa.engine.gpsimd):
    both = nl.ndarray((2, *mine.shape), mine.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(both[me], mine)
    nisa.core_barrier(both, (0, 1), engine=engine)
    return nl.add(mine, nl.load(both[1 - me]))


def other_transfers(draw, big, kept):
    """Transfers that nothing waits for, on any kind of queue, of any size."""
    for _ in range(draw.randrange(4)):
        columns = draw.choice([8, 512, 2048])
        mode, engine = draw.choice([(nisa.dge_mode.hwdge, nisa.engine.sync),
                                    (nisa.dge_mode.hwdge, nisa.engine.scalar),
                                    (nisa.dge_mode.swdge, None),
                                    (nisa.dge_mode.none, None)])
        tile = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
        chosen = {} if engine is None else {"engine": engine}
        nisa.dma_copy(tile, big[:, 0:columns], dge_mode=mode, **chosen)
        if draw.random() < 0.5:
            nisa.dma_copy(kept[:, 0:columns], tile)


def counted(tile, count, inner):
    """Adds a quarter as many times as the core's count says."""
    bound = nisa.register_alloc(count)
    for _ in nl.dynamic_range(0, bound):
        for _ in nl.dynamic_range(0, inner):
            nisa.tensor_scalar(tile, tile, nl.add, float(QUARTER / inner))
    return tile


def until_zero(tile, count):
    left = nl.copy(count)
    register = nisa.register_alloc(left)
    while register:
        nisa.tensor_scalar(tile, tile, nl.subtract, 0.5)
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        nisa.register_load(register, left)
    return tile


def exchanged(me, tile):
    for _ in nl.dynamic_range(0, 2):
        nisa.tensor_tensor(tile, tile, received(me, tile), nl.add)
    return tile


GPSIMD = nisa.dma_engine.gpsimd_dma
#: name -> (what a core does, what becomes of both tiles)
STEPS = {
    "swap by gpsimd": (lambda me, t, c: received(me, t, GPSIMD), lambda a, n: a[::-1]),
    "swap cleared": (lambda me, t, c: received(me, t, clear=True), lambda a, n: a[::-1]),
    "swap overwritten": (lambda me, t, c: sent_then_overwritten(me, t, nisa.dma_engine.dma),
                         lambda a, n: a[::-1]),
    "gpsimd overwritten": (lambda me, t, c: sent_then_overwritten(me, t, GPSIMD),
                           lambda a, n: a[::-1]),
    "one way": (lambda me, t, c: one_way(me, t), lambda a, n: np.stack([a[1], a[1]])),
    "share on sync": (lambda me, t, c: shared(me, t, nisa.engine.sync), lambda a, n: a + a[::-1]),
    "share on vector": (lambda me, t, c: shared(me, t, nisa.engine.vector),
                        lambda a, n: a + a[::-1]),
    "add": (lambda me, t, c: nl.add(t, 1.0), lambda a, n: a + 1),
    "swap": (lambda me, t, c: received(me, t), lambda a, n: a[::-1]),
    "share": (lambda me, t, c: shared(me, t), lambda a, n: a + a[::-1]),
    "count": (lambda me, t, c: counted(t, c, 1), lambda a, n: a + QUARTER * n),
    "count twice": (lambda me, t, c: counted(t, c, 2), lambda a, n: a + QUARTER * n),
    "while": (lambda me, t, c: until_zero(t, c), lambda a, n: a - HALF * n),
    "exchange": (lambda me, t, c: exchanged(me, t), lambda a, n: 2 * (a + a[::-1])),
}


def random_program(seed):
    """(kernel, its arguments but the last, the tiles after each step)."""
    draw = random.Random(seed)
    steps = [draw.choice(list(STEPS)) for _ in range(draw.randrange(3, 9))]
    counts = np.array([[draw.randrange(4)], [draw.randrange(4)]], np.int32)
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (2, 16, 8)).astype(np.float32)
    big = rng.uniform(-1, 1, (128, 2048)).astype(np.float32)

    def kernel(x, counts, big, seen):
        me = nl.program_id(0)
        traffic = random.Random(f"{seed}/{me}")  # each core its own
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        kept = nl.ndarray((2, *big.shape), big.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(kept[me], big)
        tile, count = nl.load(x[me]), nl.load(counts[me:me + 1])
        for at, name in enumerate(steps):
            other_transfers(traffic, big, kept[me])
            tile = STEPS[name][0](me, tile, count)
            if seen is not None:
                seen.append((at, me, tile.numpy()))
        nl.store(out[me], tile)
        return out, kept

    expected = [x]
    for name in steps:
        expected.append(STEPS[name][1](expected[-1], counts[:, :, None]))
    return kernel, (x, counts, big), expected


@pytest.mark.parametrize("seed", range(25))
def test_values_at_every_step_and_at_the_end(seed):
    kernel, inputs, expected = random_program(seed)
    seen = []
    plain, looked = (nkisim.run(kernel, *inputs, look, grid=2) for look in (None, seen))
    for result in (plain, looked):
        np.testing.assert_allclose(result.outputs[0], expected[-1], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(result.outputs[1], np.stack([inputs[2]] * 2))
    assert plain.latency_ns == looked.latency_ns
    assert len(seen) == 2 * (len(expected) - 1)
    for at, core, values in seen:
        np.testing.assert_allclose(values, expected[at + 1][core], rtol=1e-5, atol=1e-5)


def differences(seeds):
    """The seeds whose timed run leaves other bytes than the untimed one."""
    wrong = []
    for seed in seeds:
        kernel, inputs, _ = random_program(seed)
        target = ("trn2", "trn3")[seed % 2]
        timed, plain = (nkisim.run(kernel, *inputs, None, grid=2, target=target, timing=timing)
                        for timing in (True, False))
        if any(a.tobytes() != b.tobytes() for a, b in zip(timed.outputs, plain.outputs)):
            wrong.append(seed)
    return wrong


@pytest.mark.slow
def test_timed_and_untimed_leave_the_same_bytes():
    assert differences(range(1000, 1060)) == []


if __name__ == "__main__":
    found = differences(range(int(os.environ.get("NKISIM_FUZZ_PROGRAMS", "1000"))))
    print(len(found), "differences", found[:20])
    sys.exit(bool(found))
