"""Runs kernels of the repository nki-samples, and compares each with NumPy."""

import sys
import types

import numpy as np

from case_table import bf16, case, close, module, rng

_SAMPLES = "src/nki_samples/tutorials"


def _attention(root, name, length):
    kernels = module(root / _SAMPLES / "attention_fwd_performance" / "attention_kernels.py")
    r = rng()
    q, k, v = ((r.random((128, length), np.float32) - 0.5) * 2 for _ in range(3))
    scores = q.T @ k
    scores = np.exp(scores - scores.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    close(getattr(kernels, name)(q, k, v), scores @ v.T, 1e-3, 1e-2)


for _n in ("v1", "v2"):
    case("samples", f"attn_fwd_{_n}")(lambda root, n=_n: _attention(root, f"attn_fwd_{n}", 128))
for _n in ("v3", "v4", "v5", "v6", "v7", "v8", "v8a", "v9", "v10", "v11"):
    case("samples", f"attn_fwd_{_n}")(lambda root, n=_n: _attention(root, f"attn_fwd_{n}", 1024))


@case("samples", "tensor_addition")
def _sample_addition(root):
    kernels = module(root / _SAMPLES / "tensor_addition" / "tensor_addition_nki_kernels.py")
    a, b = (rng().random((256, 1024), np.float32) for _ in range(2))
    close(kernels.nki_tensor_add(a, b), a + b, 0, 0)


@case("samples", "spmd_tensor_addition")
def _sample_spmd(root):
    kernels = module(root / _SAMPLES / "tensor_addition" / "spmd_tensor_addition_nki_kernels.py")
    a, b = (rng().random((256, 1024), np.float32) for _ in range(2))
    close(kernels.nki_tensor_add(a, b), a + b, 0, 0)


@case("samples", "spmd_multiple_nc_tensor_addition")
def _sample_spmd_nc(root):
    kernels = module(root / _SAMPLES / "tensor_addition" /
                     "spmd_multiple_nc_tensor_addition_nki_kernels.py")
    a, b = (rng().random((512, 2048), np.float32) for _ in range(2))
    close(kernels.nki_tensor_add_nc2(a, b), a + b, 0, 0)


@case("samples")
def contributed_matmul(root):
    kernel = module(root / "contributed" / "matmul.py").matmul
    import neuronxcc.nki as nki

    r = rng()
    a, b = r.random((1024, 512), np.float32), r.random((1024, 2048), np.float32)
    close(nki.simulate_kernel(kernel, a, b), a.T @ b, 1e-2, 1e-2)


def _stub_torch():
    """The contributed files import torch for their references, which are written here instead."""
    try:
        import torch  # noqa: F401
    except ImportError:
        for name in ("torch", "torch.nn", "torch.nn.functional", "torch_xla", "torch_xla.core",
                     "torch_xla.core.xla_model"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["torch"].nn = sys.modules["torch.nn"]
        sys.modules["torch.nn"].functional = sys.modules["torch.nn.functional"]
        sys.modules["torch_xla"].core = sys.modules["torch_xla.core"]
        sys.modules["torch_xla.core"].xla_model = sys.modules["torch_xla.core.xla_model"]


@case("samples")
def contributed_maxpooling(root):
    _stub_torch()
    kernel = module(root / "contributed" / "maxpooling.py").max_pooling_2d_stride_1
    x = rng().random((200, 160), np.float32)
    close(kernel(x, 3), np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max((2, 3)), 0, 0)


def _twice(x, axis):
    """Linear interpolation to twice the size along `axis`, as torch's interpolate."""
    n = x.shape[axis]
    at = np.maximum((np.arange(2 * n) + 0.5) / 2 - 0.5, 0)
    low = at.astype(int)
    high = np.minimum(low + 1, n - 1)
    shape = [1] * x.ndim
    shape[axis] = -1
    weight = (at - low).reshape(shape)
    return np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight


@case("samples")
def contributed_interpolate_bilinear(root):
    _stub_torch()
    kernel = module(root / "contributed" / "interpolate_bilinear_fwd.py")
    x = rng().random((2, 64, 32, 32), np.float32)
    close(kernel.interpolate_bilinear_2x_fwd(x), _twice(_twice(x, 2), 3), 1e-2, 1e-4)


@case("samples")
def contributed_interpolate_trilinear(root):
    _stub_torch()
    kernel = module(root / "contributed" / "interpolate_trilinear_fwd.py")
    x = rng().random((1, 64, 8, 16, 16), np.float32)
    close(kernel.interpolate_trilinear_2x_fwd(x), _twice(_twice(_twice(x, 2), 3), 4), 1e-2, 1e-4)


@case("samples")
def contributed_pipelined_attention(root):
    """The file runs itself on import; only the kernel is taken, at its one size of 16k tokens."""
    path = root / "contributed" / "pipelined_attention.py"
    source = path.read_text()
    kernels = types.ModuleType("pipelined_attention")
    exec(compile(source[:source.index("bs=1\n")], str(path), "exec"), kernels.__dict__)
    r = rng()
    q, k = (bf16(r.random((1, 128, 16384))) for _ in range(2))
    v = bf16(r.random((1, 16384, 128)))
    out = kernels.flash_fwd[0](q, k, v, mixed_precision=True, softmax_scale=0.125,
                               use_causal_mask=False)
    rows = slice(0, 256)
    scores = q[0, :, rows].astype(np.float32).T @ k[0].astype(np.float32) * 0.125
    scores = np.exp(scores - scores.max(1, keepdims=True))
    expected = scores / scores.sum(1, keepdims=True) @ v[0].astype(np.float32)
    close(out[0, rows], expected, 0, 1e-2)
