"""One public kernel per case, run on small shapes against NumPy.

    python tests/conformance/cases.py GROUP NAME ROOT

A case takes the checkout's root and raises if the kernel's result is wrong. References are written
here from the kernels' documented meaning unless the checkout has its own.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np

import nkisim

nkisim.install()
CASES = {}


def case(group, name=None):
    def add(function):
        CASES.setdefault(group, {})[name or function.__name__] = function
        return function

    return add


def module(path):
    """A kernel file as a module; its folder is importable, as for a script."""
    path = Path(path)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    out = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = out
    spec.loader.exec_module(out)
    return out


def rng():
    return np.random.default_rng(0)


def close(found, expected, rtol=1e-2, atol=1e-2):
    np.testing.assert_allclose(np.asarray(found).astype(np.float64),
                               np.asarray(expected).astype(np.float64), rtol=rtol, atol=atol)


def bf16(array):
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16)


# ---- shared between the SDK's examples and nki-samples ---------------------------------------
def _matmul(root, name, shape):
    kernels = module(root / "matrix_multiplication" / "matrix_multiplication_nki_kernels.py")
    m, k, n = shape
    lhs, rhs = bf16(rng().random((m, k))), bf16(rng().random((k, n)))
    out = getattr(kernels, name)(np.ascontiguousarray(lhs.T), rhs)
    close(out, lhs.astype(np.float32) @ rhs.astype(np.float32), 1e-2, 1e-2)


_MATMULS = {"nki_matmul_basic_": (64, 128, 512), "nki_matmul_tiled_": (256, 256, 1024),
            "nki_matmul_hoist_load_": (256, 256, 1024),
            "nki_matmul_block_free_dimension_": (512, 256, 1024),
            "nki_matmul_fully_optimized_": (2048, 1024, 1024)}


def _mamba(root, name):
    kernels = module(root / "fused_mamba" / "mamba_nki_kernels.py")
    r = rng()
    batch, channels, state, length = 1, 256, 16, 512
    delta, u = (r.random((batch, channels, length), np.float32) * 0.1 for _ in range(2))
    a = -r.random((channels, state), np.float32)
    b, c = (r.random((batch, state, length), np.float32) for _ in range(2))
    h = np.zeros((batch, channels, state), np.float32)
    expected = np.zeros((batch, channels, length), np.float32)
    for t in range(length):
        decay = np.exp(delta[:, :, t, None] * a[None])
        h = decay * h + (delta[:, :, t] * u[:, :, t])[:, :, None] * b[:, None, :, t]
        expected[:, :, t] = (h * c[:, None, :, t]).sum(-1)
    close(getattr(kernels, name)(delta, u, a, b, c), expected, 1e-3, 1e-3)


def _avgpool(root):
    kernels = module(root / "average_pool2d" / "average_pool2d_nki_kernels.py")
    x = rng().random((2, 6, 6), np.float32)
    out = kernels.tensor_avgpool_kernel(x, 2)
    close(out, x.reshape(2, 3, 2, 3, 2).mean((2, 4)), 1e-5, 1e-6)


def _transpose(root):
    kernels = module(root / "transpose2d" / "transpose2d_nki_kernels.py")
    x = rng().random((5, 3 * 4), np.float32)
    out = kernels.tensor_transpose2D_kernel_(x, shape2D=(3, 4))
    close(out, x.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12), 0, 0)


def _register_tutorials(group, folder):
    for name, shape in _MATMULS.items():
        case(group, name)(lambda root, n=name, s=shape: _matmul(root / folder, n, s))
    for name in ("mamba_v1", "mamba_v2", "mamba_v3"):
        case(group, name)(lambda root, n=name: _mamba(root / folder, n))
    case(group, "average_pool2d")(lambda root: _avgpool(root / folder))
    case(group, "transpose2d")(lambda root: _transpose(root / folder))


_SDK, _SAMPLES = "nki/examples", "src/nki_samples/tutorials"
_register_tutorials("sdk", _SDK)
_register_tutorials("samples", _SAMPLES)


# ---- aws-neuron-sdk nki/examples -------------------------------------------------------------
def _sdk(root, name):
    return module(root / _SDK / name)


@case("sdk")
def getting_started(root):
    kernel = _sdk(root, "getting_started_baremetal.py").nki_tensor_add_kernel
    a = np.ones((4, 3), np.float16)
    close(kernel(a, a), a + a, 0, 0)


@case("sdk")
def simulate_example(root):
    _sdk(root, "simulate/nki_simulate_example.py")  # asserts for itself


@case("sdk")
def tensor_addition(root):
    kernel = _sdk(root, "tensor_addition/tensor_addition_nki_kernels.py").nki_tensor_add
    a, b = (rng().random((256, 1024), np.float32) for _ in range(2))
    close(kernel(a, b), a + b, 0, 0)


@case("sdk")
def index_case_1(root):
    x = bf16(np.arange(20, dtype=np.float32).reshape(4, 5))
    even, odd = _sdk(root, "index-case-1.py").tensor_split_kernel_(x)
    close(even, x[:, 0::2], 0, 0)
    close(odd, x[:, 1::2], 0, 0)


@case("sdk")
def index_case_3(root):
    x = rng().random((128, 6, 6), np.float32)
    out = _sdk(root, "index-case-3.py").tensor_maxpool_kernel_(x, 3)
    close(out, x.reshape(128, 2, 3, 2, 3).max((2, 4)), 0, 0)


@case("sdk")
def layout_pass(root):
    x = bf16(np.ones((128, 512), np.float32))
    out = _sdk(root, "layout-pass.py").tensor_exp_kernel_(x)
    close(out, np.exp(x.astype(np.float32)))


@case("sdk")
def layout_violation(root):
    """The documents show this kernel as the one that must be refused."""
    kernel = _sdk(root, "layout-violation.py").tensor_exp_kernel_
    try:
        kernel(bf16(np.ones((256, 512), np.float32)))
    except nkisim.Error as problem:
        assert "128" in str(problem) or "partition" in str(problem), problem
        return
    raise AssertionError("a tile of 256 partitions was accepted")


# ---- aws-neuron-sdk and nki-samples: MX ------------------------------------------------------
def _mx(folder, name):
    """The four kernels with the folder's own NumPy goldens (its driver needs torch_xla)."""
    import ml_dtypes

    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn3"
    sys.path.insert(0, str(folder))
    kernels, tools = module(folder / "mx_kernels.py"), module(folder / "mx_cpu_utils.py")
    import nki.language as nl

    np.random.seed(0)
    host, packed = ml_dtypes.float8_e5m2, nl.float8_e5m2_x4
    make = tools.generate_stabilized_mx_data
    if name == "copy_strided" or name == "packed_scale":
        st, mv = make(host, (512, 128))[0], make(host, (512, 512))[0]
        kernel = (kernels.kernel_copy_strided_quantize_matmul_mx if name == "copy_strided" else
                  kernels.kernel_copy_strided_quantize_matmul_mx_packed_scale)
        for use_tensor_copy in (True, False):
            out = kernel(bf16(st), bf16(mv), packed, use_tensor_copy)
            close(out, st.T @ mv, 5e-2, 5e-2)
        return
    _, _, st, st_scale = make(host, (128, 512))
    if name == "offline":
        _, _, mv, mv_scale = make(host, (128, 2048))
        out = kernels.kernel_offline_quantized_mx_matmul(st, st_scale, mv, mv_scale, packed)
    else:
        data = make(host, (128, 2048))[0]
        mv, mv_scale = tools.quantize_mx_golden(data, host)
        out = kernels.kernel_on_device_quantize_matmul_mx(st, st_scale, bf16(data), packed, packed)
    golden = tools.nc_matmul_mx_golden(st, mv, st_scale, mv_scale, host, host)
    close(out, golden, 5e-2, 5e-2)


for _n in ("offline", "on_device", "copy_strided", "packed_scale"):
    case("sdk", f"mxfp_matmul_{_n}")(
        lambda root, n=_n: _mx(root / "nki/deep-dives/src/mxfp-matmul", n))
    if _n != "packed_scale":  # only the SDK's copy has it
        case("samples", f"mxfp_matmul_{_n}")(
            lambda root, n=_n: _mx(root / _SAMPLES / "mxfp-matmul", n))


# ---- nki-samples -----------------------------------------------------------------------------
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


# ---- nki-autotune kernel_library -------------------------------------------------------------
def _tuned(root, path, shapes, reference, transpose=False):
    kernels = module(root / "kernel_library" / path)
    from nkisim import Kernel

    kernel = [v for v in vars(kernels).values() if isinstance(v, Kernel)][0]
    r = rng()
    args = [bf16(r.standard_normal(s)) for s in shapes]
    close(kernel(*args), reference(*[a.astype(np.float32) for a in args]), 5e-2, 2.0)


@case("autotune")
def matmul_lhsT_rhs(root):
    _tuned(root, "matmul/lhsT_rhs/kernel_hand_90.92mfu.py", [(2048, 2048)] * 2,
           lambda a, b: a.T @ b)


@case("autotune")
def matmul_lhs_rhs(root):
    _tuned(root, "matmul/lhs_rhs/kernel_handtuned_89.26mfu.py", [(2048, 2048)] * 2,
           lambda a, b: a @ b)


@case("autotune")
def rmsnorm_matmul(root):
    def reference(a, b):
        return a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) @ b

    _tuned(root, "rmsnorm_matmul/kernel_hand_online.py", [(2048, 2048)] * 2, reference)


# ---- nki-library -----------------------------------------------------------------------------
def library(root, name, attribute=None):
    """A member of nkilib, imported as the repository's own tests do."""
    for folder in (root / "src" / "nkilib_src", root / "src"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    found = importlib.import_module(f"nkilib.{name}")
    return getattr(found, attribute or name.rsplit(".", 1)[1])


@case("library")
def cumsum(root):
    x = rng().standard_normal((130, 3000)).astype(np.float32)
    close(library(root, "core.cumsum.cumsum")(x), np.cumsum(x.astype(np.float64), 1), 1e-3, 1e-2)


def _rope_reference(x, cos, sin):
    half = x.shape[0] // 2
    low, high = x[:half], x[half:]
    cos, sin = cos[:, :, None], sin[:, :, None]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin])


def _rope(root, lnc):
    kernel = library(root, "core.embeddings.rope", "RoPE")
    r = rng()
    x = r.standard_normal((128, 2, 4, 128)).astype(np.float32)
    angle = r.random((64, 2, 128)) * 6
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = kernel[lnc](x, cos, sin, lnc_shard=lnc > 1)
    close(out, _rope_reference(x, cos, sin), 1e-5, 1e-5)


case("library", "rope")(lambda root: _rope(root, 1))
case("library", "rope_lnc2")(lambda root: _rope(root, 2))


@case("library")
def rope_hf(root):
    kernel = library(root, "core.embeddings.rope_hf")
    r = rng()
    q, k = r.standard_normal((1, 4, 256, 128)), r.standard_normal((1, 2, 256, 128))
    q, k = q.astype(np.float32), k.astype(np.float32)
    angle = r.random((256, 64)) * 6
    cos = np.cos(np.concatenate([angle, angle], 1)).astype(np.float32)
    sin = np.sin(np.concatenate([angle, angle], 1)).astype(np.float32)
    q_out, k_out = np.zeros_like(q), np.zeros_like(k)
    kernel[2](q, k, q_out, k_out, cos, sin)
    for x, out in ((q, q_out), (k, k_out)):
        turned = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        close(out, x * cos + turned * sin, 1e-5, 1e-5)


def _norm_tkg(root, name, reference, lnc):
    norm = library(root, f"core.subkernels.{name}")
    import nki
    import nki.language as nl

    batch, tokens, hidden = 2, 4, 1024

    @nki.jit
    def kernel(x, gamma):
        out = nl.ndarray((128, batch * tokens, hidden // 128), dtype=x.dtype,
                         buffer=nl.shared_hbm)
        norm(x, gamma, out)
        return out

    r = rng()
    x = r.standard_normal((batch, tokens, hidden)).astype(np.float32)
    gamma = r.random((1, hidden)).astype(np.float32)
    expected = reference(x) * gamma
    # [H0, BxS, H1]; every core holds one contiguous share of H
    expected = expected.reshape(batch * tokens, lnc, 128, hidden // 128 // lnc)
    expected = expected.transpose(2, 0, 1, 3).reshape(128, batch * tokens, hidden // 128)
    close(kernel[lnc](x, gamma), expected, 1e-3, 1e-3)


def _rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def _layer(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


case("library", "rmsnorm_tkg")(lambda root: _norm_tkg(root, "rmsnorm_tkg", _rms, 1))
case("library", "rmsnorm_tkg_lnc2")(lambda root: _norm_tkg(root, "rmsnorm_tkg", _rms, 2))
case("library", "layernorm_tkg")(lambda root: _norm_tkg(root, "layernorm_tkg", _layer, 1))
case("library", "layernorm_tkg_lnc2")(lambda root: _norm_tkg(root, "layernorm_tkg", _layer, 2))


def _attention_cte(root, lnc, length, width):
    kernel = library(root, "core.attention.attention_cte")
    r = rng()
    q, v = (bf16(r.standard_normal((1, length, width))) for _ in range(2))
    k = bf16(r.standard_normal((1, width, length)))
    scale = width ** -0.5
    scores = q[0].astype(np.float32) @ k[0].astype(np.float32) * scale
    scores[np.triu_indices(length, 1)] = -np.inf
    scores = np.exp(scores - scores.max(1, keepdims=True))
    expected = scores / scores.sum(1, keepdims=True) @ v[0].astype(np.float32)
    close(kernel[lnc](q, k, v, scale=scale)[0], expected, 5e-2, 5e-2)


case("library", "attention_cte")(lambda root: _attention_cte(root, 1, 512, 128))
case("library", "attention_cte_d64")(lambda root: _attention_cte(root, 1, 1024, 64))
case("library", "attention_cte_lnc2")(lambda root: _attention_cte(root, 2, 1024, 128))


@case("library", "qkv")
def _qkv(root):
    kernel = library(root, "core.qkv.qkv")
    r = rng()
    x = bf16(r.standard_normal((1, 256, 1024)) * 0.1)
    w = bf16(r.standard_normal((1024, 384)) * 0.1)
    close(kernel[1](x, w)[0], x[0].astype(np.float32) @ w.astype(np.float32), 5e-2, 5e-2)


@case("library")
def output_projection_cte(root):
    kernel = library(root, "core.output_projection.output_projection_cte.output_projection_cte")
    r = rng()
    x, w = bf16(r.random((1, 2, 128, 512))), bf16(r.random((256, 1024)))
    expected = np.einsum("bnds,ndh->bsh", x.astype(np.float32),
                         w.astype(np.float32).reshape(2, 128, 1024))
    close(kernel[2](x, w), expected, 2e-2, 2e-2)


@case("library")
def output_projection_tkg(root):
    kernel = library(root, "core.output_projection.output_projection_tkg")
    r = rng()
    x, w = bf16(r.random((128, 2, 2, 4))), bf16(r.random((256, 1024)))
    expected = np.einsum("dbns,ndh->bsh", x.astype(np.float32),
                         w.astype(np.float32).reshape(2, 128, 1024)).reshape(8, 1024)
    close(np.asarray(kernel[1](x, w)).reshape(8, 1024), expected, 2e-2, 2e-2)


@case("library")
def conv1d(root):
    kernel = library(root, "experimental.conv.conv1d")
    r = rng()
    x = r.standard_normal((2, 64, 200)).astype(np.float32)
    w = r.standard_normal((3, 64, 96)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
    close(kernel(x, w, padding=(1, 1)), np.einsum("bclk,kco->bol", windows, w), 1e-3, 1e-3)


@case("library")
def find_nonzero_indices(root):
    kernel = library(root, "core.subkernels.find_nonzero_indices")
    r = rng()
    x = (r.random((1024, 16)) < 0.2).astype(np.float32)
    indices, counts = kernel[2](x)
    indices, counts = np.asarray(indices), np.asarray(counts).reshape(-1)
    for c in range(16):
        expected = np.flatnonzero(x[:, c])
        assert counts[c] == len(expected), (c, counts[c], len(expected))
        np.testing.assert_array_equal(indices[c, :len(expected)], expected)


@case("library")
def indexed_flatten(root):
    kernel = library(root, "core.subkernels.indexed_flatten")
    rows, tokens, block, length = 4, 1024, 16, 8192
    x = rng().integers(0, 1000, (rows, tokens)).astype(np.int32)
    offsets = np.array([0, 80, 200, 320], np.int32)
    expected = np.full(length, -1, np.int32)
    for row, at in zip(x, offsets):
        expected[at * block:at * block + tokens] = row
    close(kernel[2](x, block, length, offsets), expected, 0, 0)


def _cascaded_max(root, lnc, shape):
    kernel = library(root, "core.max.cascaded_max")
    x = rng().standard_normal(shape).astype(np.float32)
    values, indices = kernel[lnc](x)
    close(np.asarray(values).reshape(-1), x.max(-1).reshape(-1), 0, 0)
    close(np.asarray(indices).reshape(-1), x.argmax(-1).reshape(-1), 0, 0)


case("library", "cascaded_max")(lambda root: _cascaded_max(root, 1, (1, 1, 16384)))
case("library", "cascaded_max_lnc2")(lambda root: _cascaded_max(root, 2, (2, 2, 16384)))


@case("library")
def dynamic_elementwise_add(root):
    kernel = library(root, "experimental.dynamic_shapes.dynamic_elementwise_add")
    a, b = (bf16(rng().random((512, 1024))) for _ in range(2))
    out = kernel(a, b, np.array([[3]], np.int32))
    expected = (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    close(out[:384], expected[:384], 1e-2, 0)


def main():
    group, name, root = sys.argv[1:4]
    CASES[group][name](Path(root))


if __name__ == "__main__":
    sys.modules["cases"] = sys.modules["__main__"]  # what retired.py adds to
    import retired  # noqa: F401

    main()
