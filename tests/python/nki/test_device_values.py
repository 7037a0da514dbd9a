"""Tests that results equal the values that real devices gave, bit for bit.

Sums: tensor_reduce(add) over 128 and over 127 FP32 values on one NeuronCore of a trn1.2xlarge,
published in LaelaZorana/kernel-grader-mi300x-rocm-trainium-nki, dataset/nki_bins.jsonl (CC-BY-4.0,
commit 50e9a9d; fields "device" and "device_wrong_kernel_drop_one"): seed 3, the first 26 of 4,096
bins. The inputs come from the seed as its kernel-nki/histogram_nki.py draws them.
"""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

SUMS = {128: [
    58.494720458984375, 65.78350067138672, 61.448970794677734, 62.19142532348633,
    63.312965393066406, 64.03497314453125, 61.12638854980469, 65.78730773925781, 66.52725982666016,
    70.30947875976562, 61.32450866699219, 65.2213134765625, 61.5898323059082, 65.79043579101562,
    70.573974609375, 61.314090728759766, 63.96729278564453, 62.35927200317383, 61.603816986083984,
    64.96642303466797, 65.7822265625, 61.79776382446289, 61.273189544677734, 65.40885162353516,
    64.04685974121094, 58.685298919677734], 127: [
    57.9356689453125, 64.91173553466797, 60.484806060791016, 61.20821762084961, 63.068729400634766,
    63.67369842529297, 60.72279739379883, 65.42664337158203, 66.44422912597656, 69.97055053710938,
    60.45806121826172, 65.13555908203125, 61.09410095214844, 65.28266906738281, 69.80719757080078,
    60.81460189819336, 63.37142562866211, 61.70322799682617, 61.3442497253418, 64.58332824707031,
    64.83234405517578, 61.70149612426758, 61.1351203918457, 65.27732849121094, 63.147544860839844,
    58.34530258178711]}


def weights():
    rng = np.random.default_rng(3)
    rng.random((2, 128, 512), np.float32)  # the two operands of the publication's first kernel
    return rng.random((4096, 128), np.float32)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("count", SUMS)
def test_sums_of_a_row(count, target):
    def kernel(w):
        out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray(w.shape, dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=w)
        nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=(1,))
        nisa.dma_copy(dst=out, src=total)
        return out

    w = np.ascontiguousarray(weights()[:128, :count])
    found = nkisim.run(kernel, w, target=target).outputs[:, 0]
    expected = np.array(SUMS[count], np.float32)
    np.testing.assert_array_equal(found[:len(expected)], expected)
    sequential = np.zeros(128, np.float32)  # what the publication finds equal in all bins
    for column in w.T:
        sequential += column
    np.testing.assert_array_equal(found, sequential)


def test_the_order_of_additions_shows():
    """NumPy's pairwise sum, or AWS's simulator's, differs from the device's."""
    w = weights()[:26]
    assert np.count_nonzero(w.sum(1, dtype=np.float32) != np.array(SUMS[128], np.float32)) > 10


def test_the_engines_sine_beyond_pi():
    """sin(9.0) is about 27.65 on ScalarE (nki.api.shared, the note to the activation functions)."""
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nisa.activation(tile, nl.sin, tile)
        nl.store(out, tile)
        return out

    found = nkisim.run(kernel, np.full((1, 1), 9.0, np.float32)).outputs
    np.testing.assert_allclose(found, 27.65, atol=5e-3)
