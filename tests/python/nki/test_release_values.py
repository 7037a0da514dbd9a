"""Tests instruction values that a release of the SDK changed: NKISIM_SDK, or the program file,
selects the release.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


def quantize(x):
    data = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.sbuf)
    src = nl.ndarray((32, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=src, src=x)
    nisa.quantize_mx(dst=data, src=src, dst_scale=scale)
    values = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.shared_hbm)
    scales = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=values, src=data)
    nisa.dma_copy(dst=scales, src=scale)
    return values, scales


def reference(x, exponent):
    """OCP's scale where the largest magnitude gets `exponent`, and e4m3fn values that saturate."""
    groups = x.astype(np.float64).reshape(4, 8, 16, 4)
    top = np.floor(np.log2(np.abs(groups).max(axis=(1, 3))))
    scaled = groups / 2.0 ** (top - exponent)[:, None, :, None]
    values = np.clip(scaled, -448, 448).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    return values.reshape(32, 64), (top - exponent + 127).astype(np.uint8)


@pytest.mark.parametrize("sdk, exponent", [("2.28", 8), ("2.30", 8), ("2.31", 7), ("", 7)])
def test_scale_of_quantize_mx(monkeypatch, tmp_path, sdk, exponent):
    monkeypatch.setenv("NKISIM_SDK", sdk)
    x = (np.random.default_rng(5).normal(size=(32, 64)) * 100).astype(ml_dtypes.bfloat16)
    values, scales = reference(x, exponent)
    result = nkisim.run(quantize, x, target="trn3")
    assert np.array_equal(np.asarray(result.outputs[1]), scales)
    got = np.asarray(result.outputs[0]).view(ml_dtypes.float8_e4m3fn).reshape(32, 64)
    assert np.array_equal(got.astype(np.float32), values.astype(np.float32))

    path = tmp_path / "k.jsonl"
    result.save(path)
    header = json.loads(path.read_text().splitlines()[0])
    assert header.get("sdk") == (sdk if exponent == 8 else "2.31" if sdk else None)
