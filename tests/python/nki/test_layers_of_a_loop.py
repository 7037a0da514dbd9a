"""Tests nkisim.run(..., layers=N), which derives the time of many model layers from few, against a
run of all layers.
"""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

ROWS, WIDTH = 4096, 256


def layer(x, scale):
    """x * scale, row by row, to another tensor in HBM."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    weight = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=scale)
    for at in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(at, 128), :])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weight, op=nl.multiply)
        nisa.dma_copy(dst=out[nl.ds(at, 128), :], src=tile)
    return out


def counted(x, scale, layers):
    for _ in range(layers):
        x = layer(x, scale)
    return x


def listed(x, scales):
    for scale in scales:
        x = layer(x, scale)
    return x


def stacked(x, scales):
    for n in range(scales.shape[0]):
        x = layer(x, scales[n])
    return x


def growing(x, scale, layers):
    for n in range(layers):
        for _ in range(1 + n):
            x = layer(x, scale)
    return x


def shape(*sizes):
    return nkisim.Shape(sizes, "float32")


X, SCALE = shape(ROWS, WIDTH), shape(128, WIDTH)


def timed(kernel, *args, **options):
    return nkisim.run(kernel, *args, target="trn2", timing="only", **options)


@pytest.mark.parametrize("layers", [96, 160])
def test_few_layers_give_the_time_of_all(layers):
    found = timed(counted, X, SCALE, layers=layers)
    every = timed(counted, X, SCALE, layers=layers, exact=True)
    assert found.steady and not every.steady and every.simulated == [layers] and every.error == 0
    assert sum(found.simulated) < layers / 2
    assert found.latency_us == pytest.approx(every.latency_us, rel=0.002)
    assert found.error <= 0.002
    # All layers, run as a kernel that knows nothing of this.
    plain = timed(lambda x, scale: counted(x, scale, layers), X, SCALE)
    assert every.latency_ns == plain.latency_ns
    assert f"of {layers} layers (from runs of 2, 4, 8" in found.report() and found.outputs is None


def test_by_hand():
    """Latencies of 30, 51 and 90 for 2, 4 and 8 layers. Their line by least squares (means 14/3 and 57): the sum of
    (x - 14/3) (y - 57) is 186 and that of (x - 14/3)^2 is 56/3, so 279/28 = 9.9643 a layer and 57 + 279/28 * 82/3 for
    32 layers. It is off by -0.4286, 0.6429 and -0.2143, whose squares are 0.6429 together."""
    found = nkisim.LayersResult(32, {2: 30.0, 4: 51.0, 8: 90.0}, None)
    assert found.layer_ns == pytest.approx(279 / 28) and found.latency_ns == pytest.approx(57 + 279 / 28 * 82 / 3)
    spread = (1 / 3 + (82 / 3) ** 2 / (56 / 3)) ** 0.5
    assert found.error == pytest.approx(6.314 * 0.642857 ** 0.5 * spread / found.latency_ns, rel=1e-4)
    assert found.latency_us == found.latency_ns / 1e3 and found.layer_us == found.layer_ns / 1e3


def test_lists_and_stacks_are_cut():
    whole = timed(counted, X, SCALE, layers=96)
    assert timed(listed, X, [shape(128, WIDTH) for _ in range(96)], layers=96).steady
    by_list = timed(listed, X, nkisim.per_layer([SCALE] * 96), layers=96)
    assert by_list.latency_ns == whole.latency_ns
    for stack in (shape(96, 128, WIDTH), np.zeros((96, 128, WIDTH), np.float32)):
        found = timed(stacked, X, nkisim.per_layer(stack), layers=96)
        assert found.steady and found.latency_us == pytest.approx(whole.latency_us, rel=0.01)
    made = timed(stacked, X, nkisim.per_layer(lambda n: shape(n, 128, WIDTH)), layers=96)
    assert made.latency_ns == found.latency_ns


def test_what_is_not_steady_is_run_whole():
    x = shape(256, WIDTH)
    found = timed(growing, x, SCALE, layers=20)
    assert not found.steady and found.simulated[-1] == 20
    assert found.latency_ns == timed(lambda x, scale: growing(x, scale, 20), x, SCALE).latency_ns
    assert "every layer simulated" in found.report()


@pytest.mark.parametrize("layers", [1, 5, 13, 14])
def test_few_layers_are_all_run(layers):
    found = timed(counted, shape(256, WIDTH), SCALE, layers=layers)
    assert found.simulated == [layers] and not found.steady


def test_on_ranks():
    def kernel(x, scale, layers):
        for _ in range(layers):
            x = layer(x, scale)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            ncc.all_reduce([x], [out], ncc.ReplicaGroup([list(range(4))]), nl.add)
            x = out
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    found = timed(kernel, X, SCALE, layers=32, ranks=4)
    assert found.steady and len(found.result) == 4
    assert found.latency_us == pytest.approx(timed(kernel, X, SCALE, layers=32, ranks=4, exact=True).latency_us,
                                             rel=0.002)


def test_values_need_every_layer():
    x, scale = np.ones((256, WIDTH), np.float32), np.full((128, WIDTH), 2, np.float32)
    result = nkisim.run(counted, x, scale, layers=3, target="trn2")  # the kernel's own parameter
    np.testing.assert_array_equal(result.outputs, 8 * x)
    with pytest.raises(nkisim.Error, match='timing="only" is required') as problem:
        nkisim.run(listed, x, [scale] * 3, layers=3, target="trn2")
    assert problem.value.rule == "layer_arguments"


def test_what_cannot_be():
    for kernel, args, layers, words in (
            (layer, (X, SCALE), 32, "nothing says how the kernel comes to 32 layers"),
            (counted, (X, SCALE), 0, "layers is 0; at least 1"),
            (stacked, (X, nkisim.per_layer(shape(31, 128, WIDTH))), 32, "per_layer has 31 parts"),
            (listed, (X, nkisim.per_layer([SCALE] * 31)), 32, "per_layer has 31 parts")):
        with pytest.raises(nkisim.Error, match=words):
            timed(kernel, *args, layers=layers)
