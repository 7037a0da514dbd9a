"""Random programs of two cores with dynamic loops and meetings: values, also while recording."""

import random

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

QUARTER, HALF = np.float32(0.25), np.float32(0.5)


def received(me, mine):
    other = nl.ndarray(mine.shape, mine.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    return other


def shared(me, mine):
    both = nl.ndarray((2, *mine.shape), mine.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(both[me], mine)
    nisa.core_barrier(both, (0, 1))
    return nl.add(mine, nl.load(both[1 - me]))


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


#: name -> (what a core does, what becomes of both tiles)
STEPS = {
    "add": (lambda me, t, c: nl.add(t, 1.0), lambda a, n: a + 1),
    "swap": (lambda me, t, c: received(me, t), lambda a, n: a[::-1]),
    "share": (lambda me, t, c: shared(me, t), lambda a, n: a + a[::-1]),
    "count": (lambda me, t, c: counted(t, c, 1), lambda a, n: a + QUARTER * n),
    "count twice": (lambda me, t, c: counted(t, c, 2), lambda a, n: a + QUARTER * n),
    "while": (lambda me, t, c: until_zero(t, c), lambda a, n: a - HALF * n),
    "exchange": (lambda me, t, c: exchanged(me, t), lambda a, n: 2 * (a + a[::-1])),
}


@pytest.mark.parametrize("seed", range(25))
def test_values_at_every_step_and_at_the_end(seed):
    draw = random.Random(seed)
    steps = [draw.choice(list(STEPS)) for _ in range(draw.randrange(3, 9))]
    counts = np.array([[draw.randrange(4)], [draw.randrange(4)]], np.int32)
    x = np.random.default_rng(seed).uniform(-1, 1, (2, 16, 8)).astype(np.float32)
    seen = []

    def kernel(x, counts, look):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, count = nl.load(x[me]), nl.load(counts[me:me + 1])
        for at, name in enumerate(steps):
            tile = STEPS[name][0](me, tile, count)
            if look:
                seen.append((at, me, tile.numpy()))
        nl.store(out[me], tile)
        return out

    expected = [x]
    for name in steps:
        expected.append(STEPS[name][1](expected[-1], counts[:, :, None]))
    plain, looked = (nkisim.run(kernel, x, counts, look, grid=2) for look in (False, True))
    for result in (plain, looked):
        np.testing.assert_allclose(result.outputs, expected[-1], rtol=1e-5, atol=1e-5)
    assert plain.latency_ns == looked.latency_ns
    assert len(seen) == 2 * len(steps)
    for at, core, values in seen:
        np.testing.assert_allclose(values, expected[at + 1][core], rtol=1e-5, atol=1e-5)
