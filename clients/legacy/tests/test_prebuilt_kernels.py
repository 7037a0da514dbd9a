"""Tests the ready-made kernels neuronxcc.nki.kernels against NumPy in float64, and against torch if
installed.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

from neuronxcc.nki import baremetal, simulate_kernel  # noqa: E402
from neuronxcc.nki import kernels  # noqa: E402
from neuronxcc.nki.kernels.attention import FlashConfig, flash_attn_bwd, flash_fwd  # noqa: E402
from neuronxcc.nki.kernels.vision import (resize_nearest_fixed_dma_kernel,  # noqa: E402
                                          select_and_scatter_kernel)

RNG = np.random.default_rng(11)
#: Products in bfloat16 (2^-8 of each factor) and in float32.
TOLERANCE = {True: 1e-2, False: 1e-5}
SHORT = FlashConfig(seq_tile_size=512)


def draw(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def attention(q, k, v, causal=False, scale=None, bias=None):
    """q, k: (b, h, d, s); v: (b, h, s, d). Output (b, h, s, d), lse (b, h, s), weights."""
    q, k, v = (np.asarray(t, np.float64) for t in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = np.einsum("bhdq,bhdk->bhqk", q, k) * (scale or q.shape[2] ** -0.5)
    scores = scores if bias is None else scores + bias
    if causal:
        past = np.arange(scores.shape[2])[:, None] >= np.arange(scores.shape[3])
        scores = np.where(past, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    weights = weights / total
    return weights @ v, (top + np.log(total))[..., 0], weights


def lse_layout(lse):
    b, h, s = lse.shape
    return lse.reshape(b, h, s // 128, 128).transpose(0, 1, 3, 2)


@pytest.mark.parametrize("heads, kv_heads, queries, keys, tile, causal, mixed, bias", [
    (1, 1, 512, 512, 512, False, False, False),
    (2, 1, 256, 1024, 512, True, False, False),  # queries of one head of keys; several tiles
    (2, 2, 1024, 512, 512, True, True, False),
    (1, 1, 384, 2048, 2048, False, True, True),
    (1, 1, 512, 1024, 1024, True, False, True)])
def test_flash_fwd(heads, kv_heads, queries, keys, tile, causal, mixed, bias):
    q, k = draw(2, heads, 32, queries), draw(2, kv_heads, 32, keys)
    v, b = draw(2, kv_heads, keys, 32), draw(2, heads, queries, keys) if bias else None
    o, lse = flash_fwd[2, kv_heads](q, k, v, None, b, use_causal_mask=causal, mixed_precision=mixed,
                                    config=FlashConfig(seq_tile_size=tile))
    expected, expected_lse, _ = attention(q, k, v, causal, bias=b)
    np.testing.assert_allclose(o, expected, atol=TOLERANCE[mixed])
    np.testing.assert_allclose(lse, lse_layout(expected_lse), atol=TOLERANCE[mixed])
    assert o.dtype == lse.dtype == np.float32


def test_flash_fwd_for_inference_with_v_across_and_a_scale():
    q, k, v = draw(1, 1, 64, 512), draw(1, 1, 64, 512), draw(1, 1, 64, 512)
    config = FlashConfig(seq_tile_size=512, training=False, should_transpose_v=True)
    o = flash_fwd[1, 1](q, k, v, None, None, 0.5, False, False, config=config)
    np.testing.assert_allclose(o, attention(q, k, v.swapaxes(2, 3), scale=0.5)[0], atol=1e-5)
    narrow = [t.astype(ml_dtypes.bfloat16) for t in (q, k, v)]
    o = flash_fwd[1, 1](*narrow, None, None, 0.5, False, config=config)
    expected = attention(*narrow[:2], narrow[2].swapaxes(2, 3), scale=0.5)[0]
    assert o.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(o.astype(np.float64), expected, atol=1e-2)


def test_flash_fwd_as_2_20_called_it():
    q, k, v = draw(1, 2, 64, 512), draw(1, 2, 64, 512), draw(1, 2, 512, 64)
    o, lse = np.zeros((1, 2, 512, 64), np.float32), np.zeros((1, 2, 128, 4), np.float32)
    expected, expected_lse, _ = attention(q, k, v, True)
    simulate_kernel(baremetal(flash_fwd)[1, 2], q, k, v, None, o, lse, mixed_precision=False,
                    config=SHORT)
    np.testing.assert_allclose(o, expected, atol=1e-5)
    np.testing.assert_allclose(lse, lse_layout(expected_lse), atol=1e-5)
    o[:] = 0
    flash_fwd[1, 2](q, k, v, None, o=o, mixed_precision=False, config=SHORT)
    np.testing.assert_allclose(o, expected, atol=1e-5)


def gradients(q, k, v, dy, causal, scale=None, bias=None):
    """(dq, dk, dv), all (b, h, d, s), from the chain rule written out. v: (b, h, d, s)."""
    group, scale = q.shape[1] // k.shape[1], scale or q.shape[2] ** -0.5
    _, _, weights = attention(q, k, v.swapaxes(2, 3), causal, scale, bias)
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    slope = np.einsum("bhdq,bhdk->bhqk", dy.astype(np.float64), wide_v)
    slope = weights * (slope - (slope * weights).sum(-1, keepdims=True)) * scale
    dq = np.einsum("bhqk,bhdk->bhdq", slope, wide_k)
    dk, dv = np.einsum("bhqk,bhdq->bhdk", slope, q), np.einsum("bhqk,bhdq->bhdk", weights, dy)
    shape = (q.shape[0], k.shape[1], group, *k.shape[2:])
    return dq, dk.reshape(shape).sum(2), dv.reshape(shape).sum(2)


@pytest.mark.parametrize("heads, kv_heads, causal, mixed, bias", [
    (1, 1, False, False, False), (2, 2, True, False, False), (2, 1, True, True, False),
    (1, 1, True, False, True)])
def test_flash_attn_bwd(heads, kv_heads, causal, mixed, bias):
    q, dy = draw(1, heads, 64, 1024), draw(1, heads, 64, 1024)
    k, v = draw(1, kv_heads, 64, 1024), draw(1, kv_heads, 64, 1024)
    b = draw(1, heads, 1024, 1024) if bias else None
    o, lse, _ = attention(q, k, v.swapaxes(2, 3), causal, bias=b)
    o, lse = o.swapaxes(2, 3).astype(np.float32), lse_layout(lse).astype(np.float32)
    found = flash_attn_bwd[1, kv_heads](q, k, v, np.ascontiguousarray(o), dy, lse, None, b,
                                        use_causal_mask=causal, mixed_precision=mixed)
    for gradient, expected in zip(found, gradients(q, k, v, dy, causal, bias=b)):
        np.testing.assert_allclose(gradient, expected, atol=2 * TOLERANCE[mixed])


def test_flash_attn_bwd_as_2_20_called_it():
    q, k, v, dy = (draw(1, 1, 32, 512) for _ in range(4))
    o, lse, _ = attention(q, k, v.swapaxes(2, 3), scale=0.3)
    o = np.ascontiguousarray(o.swapaxes(2, 3), np.float32)
    outs = [np.zeros_like(q) for _ in range(3)]
    flash_attn_bwd[1, 1](q, k, v, o, dy, lse_layout(lse).astype(np.float32), None, *outs, False,
                         False, softmax_scale=0.3)
    for gradient, expected in zip(outs, gradients(q, k, v, dy, False, 0.3)):
        np.testing.assert_allclose(gradient, expected, atol=2e-5)


@pytest.mark.process
def test_forward_and_backward_are_torchs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Flash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            o, lse = flash_fwd[1, 2](q, k, v.swapaxes(2, 3).contiguous(), None,
                                     mixed_precision=False, config=SHORT)
            o = o.swapaxes(2, 3).contiguous()
            ctx.save_for_backward(q, k, v, o, lse)
            return o

        @staticmethod
        def backward(ctx, dy):
            q, k, v, o, lse = ctx.saved_tensors
            return flash_attn_bwd[1, 2](q, k, v, o, dy.contiguous(), lse, None,
                                        use_causal_mask=True)

    ours = [torch.from_numpy(draw(1, 2, 64, 512)).requires_grad_() for _ in range(3)]
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    found = Flash.apply(*ours)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(t.swapaxes(2, 3) for t in theirs), is_causal=True).swapaxes(2, 3)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    for out in (found, expected):
        (out * out).sum().backward()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad, atol=5e-5, rtol=0)


@pytest.mark.parametrize("d, causal, mixed", [(64, False, True), (128, True, False)])
def test_stable_diffusion_attention(d, causal, mixed):
    q, k, v = draw(2, d, 512), draw(2, 512, d), draw(2, 512, d)
    expected = attention(q[:, None], k.swapaxes(1, 2)[:, None], v[:, None], causal, 0.125)[0][:, 0]
    found = kernels.fused_self_attn_for_SD_small_head_size[2](q, k, v, causal, mixed)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE[mixed])
    out = np.zeros_like(v)
    kernels.fused_self_attn_for_SD_small_head_size[2](q, k, v, out, causal, mixed_percision=mixed)
    np.testing.assert_array_equal(out, found)
    found = kernels.allocated_fused_self_attn_for_SD_small_head_size[2](
        q, np.ascontiguousarray(k.swapaxes(1, 2)), v, causal, mixed)
    np.testing.assert_allclose(found, expected.swapaxes(1, 2), atol=TOLERANCE[mixed])


@pytest.mark.parametrize("dtype, columns", [(np.float16, 512), (ml_dtypes.bfloat16, 640)])
def test_rms_norm_qkv(dtype, columns):
    hidden, weights = draw(2, 128, 256, dtype=dtype) * dtype(3), draw(256, columns, dtype=dtype)
    found = kernels.allocated_fused_rms_norm_qkv(hidden, weights)
    x, w = hidden.astype(np.float64), weights.astype(np.float64)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) @ w
    assert found.dtype == dtype and found.shape == (2, 128, columns)
    # The normalised rows are rounded to the type (half a unit of 2^-7 or 2^-10 each), then 256 products
    # added, whose sum is rounded again.
    unit = {np.float16: 2.0 ** -11, ml_dtypes.bfloat16: 2.0 ** -8}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=unit * 16 * 3, rtol=unit)
    assert np.abs(expected).max() > 30


@pytest.mark.process
@pytest.mark.parametrize("size, out_size", [((30, 20), (59, 38)), ((150, 7), (131, 9))])
def test_resize_nearest(size, out_size):
    data = draw(2, *size, 16)
    shape = (2, *out_size, 16)
    h, w = (np.floor(np.arange(n) * m / n).astype(int) for n, m in zip(out_size, size))
    expected = data[:, h][:, :, w]
    np.testing.assert_array_equal(resize_nearest_fixed_dma_kernel[2](data, shape), expected)
    out = np.zeros(shape, np.float32)
    resize_nearest_fixed_dma_kernel[2](data, out)
    np.testing.assert_array_equal(out, expected)
    try:
        import torch
    except ImportError:
        return
    theirs = torch.nn.functional.interpolate(torch.from_numpy(data).permute(0, 3, 1, 2),
                                             size=out_size, mode="nearest")
    np.testing.assert_array_equal(theirs.permute(0, 2, 3, 1), expected)


def scatter(operand, source):
    """The definition, element by element."""
    out = np.zeros_like(operand)
    for n, c, h, w in np.ndindex(source.shape):
        rows = slice(max(2 * h - 1, 0), 2 * h + 2)
        columns = slice(max(2 * w - 1, 0), 2 * w + 2)
        window = operand[n, c, rows, columns]
        i, j = np.unravel_index(np.argmax(window), window.shape)
        out[n, c, rows.start + i, columns.start + j] += source[n, c, h, w]
    return out


def test_select_and_scatter():
    operand, source = draw(2, 130, 12, 12), draw(2, 130, 6, 6)
    operand[:, :, 3:6, 3:6] = 0.5  # ties go to the first
    np.testing.assert_allclose(select_and_scatter_kernel(operand, source), scatter(operand, source),
                               atol=1e-6)
    odd = np.ascontiguousarray(operand[:, :3, :11, :7]), np.ascontiguousarray(source[:, :3, :, :4])
    out = np.zeros_like(odd[0])
    select_and_scatter_kernel(*odd, out)
    np.testing.assert_allclose(out, scatter(*odd), atol=1e-6)


@pytest.mark.process
def test_select_and_scatter_is_the_gradient_of_torchs_pooling():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.from_numpy(draw(1, 8, 16, 16)).requires_grad_()
    gradient = torch.from_numpy(draw(1, 8, 8, 8))
    torch.nn.functional.max_pool2d(x, 3, 2, 1).backward(gradient)
    found = select_and_scatter_kernel(x.detach(), gradient)
    torch.testing.assert_close(found, x.grad, atol=1e-6, rtol=0)


@pytest.mark.parametrize("call, message", [
    (lambda: flash_fwd[1, 1](draw(1, 1, 64, 512), draw(1, 1, 64, 512), draw(1, 1, 512, 64), None),
     "512 queries and 512 keys; multiples of 128 and of seq_tile_size"),
    (lambda: flash_fwd[1, 1](*[draw(1, 1, 64, 512)] * 3, None, dropout_p=0.1),
     "dropout_p is 0.1; 0 is required"),
    (lambda: select_and_scatter_kernel(draw(1, 1, 8, 8), draw(1, 1, 8, 8)),
     r"source is \[1, 1, 8, 8\]; \[1, 1, 4, 4\] is required"),
    (lambda: resize_nearest_fixed_dma_kernel[1](draw(1, 8, 8, 4), (1, 9, 9, 5)),
     "batches and channels must be equal")])
def test_what_they_do_not_take(call, message):
    with pytest.raises(ValueError, match=message):
        call()
