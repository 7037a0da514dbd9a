"""Runs kernels that nki-samples removed in 2026, from a checkout of commit 0898a77, and checks
their results.

Most run the checkout's own tests, at smaller shapes than its parameters where these take minutes.
"""

import importlib
import sys
import types

import numpy as np
from case_table import bf16, case, close, module, rng


def _own_test(root, name, method, *args):
    """Calls a test of the checkout's test/unit with these parameters; it asserts by itself."""
    sys.path[:0] = [str(root / "src"), str(root / "test" / "unit")]
    tests = importlib.import_module(name)
    if hasattr(tests, "get_target_string"):  # asks the machine's firmware
        tests.get_target_string = lambda: "trn2"
    np.random.seed(0)
    holder = next(v for k, v in vars(tests).items() if k.startswith("Test"))
    getattr(holder(), method)(True, *args)


def _cases(test, method, **parameters):
    for name, make in parameters.items():
        case("retired", name)(
            lambda root, make=make: _own_test(root, test, method, *make(_language())))


def _language():
    import neuronxcc.nki.language as nl

    return nl


F32 = np.float32
_cases("test_flash_attn_fwd", "test_flash_attn_fwd_numerical",
       flash_fwd_training=lambda nl: (1, 2, 1024, 1024, 128, F32, True, -1, True, 512, 1, False),
       flash_fwd=lambda nl: (1, 1, 1024, 2048, 128, F32, True, -1, False, 1024, None, True),
       flash_fwd_bf16=lambda nl: (1, 1, 512, 1024, 64, nl.bfloat16, False, -1, False, 512, None,
                                  False),
       flash_fwd_window=lambda nl: (1, 1, 1024, 1024, 128, F32, True, 256, False, 512, None, False))
_cases("test_flash_attn_bwd", "test_flash_attn_bwd_numerical",
       flash_bwd=lambda nl: (1, 2, 2, 1024, 128, F32, -1, False),
       flash_bwd_grouped_sinks=lambda nl: (1, 2, 1, 1024, 128, F32, 128, True))
_cases("test_SD_attention_small_head", "test_attention_for_SD_numberic",
       sd_attention=lambda nl: (1, 1024, 128, F32),
       sd_attention_bf16=lambda nl: (1, 1024, 128, nl.bfloat16))
_cases("test_allocated_SD_attention_small_head", "test_allocated_attention_for_SD_numberic",
       allocated_sd_attention=lambda nl: (1, 2048, 128, F32),
       allocated_sd_attention_bf16=lambda nl: (1, 4096, 128, nl.bfloat16))
_cases("test_double_row_matmul", "test_double_row_matmul_numerical",
       double_row_matmul=lambda nl: (256, 4096, 1024, nl.bfloat16, 2, 2, 16))
_cases("test_resize_nearest", "test_resize_nearest_for_numberic",
       resize_nearest=lambda nl: (1, 30, 20, 1280, 1, 59, 38, 1280, nl.bfloat16))
_cases("test_rmsnorm_qkv", "test_allocated_rmsnorm_qkv_numeric",
       rmsnorm_qkv=lambda nl: (1, 128, 512, 512, np.float16),
       rmsnorm_qkv_bf16=lambda nl: (1, 512, 1024, 384, nl.bfloat16))
_cases("test_select_and_scatter", "test_select_and_scatter_for_numeric",
       select_and_scatter=lambda nl: (8, 64, 112, 112, 56, 56, F32))
_cases("test_adaptive_avg_pool2d", "test_adaptive_avg_pool2d_numerical",
       adaptive_avg_pool2d=lambda nl: (1, 64, 56, 56, 7, F32),
       adaptive_avg_pool2d_bf16=lambda nl: (3, 96, 24, 24, (6, 6), nl.bfloat16),
       adaptive_avg_pool2d_uneven=lambda nl: (1, 256, 13, 13, 6, F32),
       adaptive_avg_pool2d_large=lambda nl: (2, 2048, 32, 32, (3, 3), F32))


def _tutorial(root, name):
    for missing in ("torch_xla", "torch_xla.core", "torch_xla.core.xla_model"):
        sys.modules.setdefault(missing, types.ModuleType(missing))
    return module(root / "src" / "nki_samples" / "tutorials" / name)


@case("retired")
def softmax(root):
    x = rng().random((200, 300), np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    kernels = _tutorial(root, "softmax/softmax_nki_kernels.py")
    close(kernels.nki_softmax_kernel(x), e / e.sum(1, keepdims=True), 1e-4, 1e-6)


def _layernorm(root, name):
    r = rng()
    x, gamma, beta = (r.random(s, np.float32) for s in ((200, 256), 256, 256))
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    kernels = _tutorial(root, "layernorm/layernorm_nki_kernel.py")
    close(getattr(kernels, name)(x, 1e-5, gamma, beta), expected * gamma + beta, 1e-3, 1e-4)


for _name in ("nki_layernorm_kernel_v1", "nki_layernorm_kernel_v2"):
    case("retired", _name)(lambda root, name=_name: _layernorm(root, name))


@case("retired")
def rmsnorm(root):
    r = rng()
    x, gamma = r.random((200, 256), np.float32), r.random(256, np.float32)
    kernels = _tutorial(root, "rmsnorm/rmsnorm_nki_kernels.py")
    expected = x / np.sqrt((x * x).mean(1, keepdims=True)) * gamma
    close(kernels.nki_rmsnorm_kernel(x, gamma), expected, 1e-3, 1e-4)


@case("retired")
def sd_attention_tutorial(root):
    r = rng()
    q, k, v = (r.random((1024, 64), np.float32) for _ in range(3))
    kernels = _tutorial(root, "sd_attention/sd_attention_nki_kernels.py")
    close(kernels.fused_self_attn_for_SD_small_head_size(q, k, v), kernels.cpu_golden_attn(q, k, v))


@case("retired")
def contributed_cumsum(root):
    kernels = module(root / "contributed" / "neuron-team-kernels" / "cumsum.py")
    x = bf16(rng().random((256, 300)))
    y = np.zeros_like(x)
    import neuronxcc.nki as nki

    nki.simulate_kernel(kernels.cumsum, x, y, axis=1)
    close(y, np.cumsum(x.astype(np.float32), 1), 2e-2, 1e-1)
