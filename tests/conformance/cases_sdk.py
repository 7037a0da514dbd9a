"""Runs kernels of aws-neuron-sdk, and tutorials and MX kernels that nki-samples has too, and
compares them with NumPy.
"""

import os
import sys

import numpy as np

import nkisim

from case_table import bf16, case, close, module, rng


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
