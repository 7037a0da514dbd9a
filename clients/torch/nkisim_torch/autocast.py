"""Implements torch.autocast(device_type="neuron") with the casts that PyTorch documents for CUDA."""

import functools

import torch
from torch.utils._pytree import tree_map

_LOW = ("matmul", "mm", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm", "linear", "conv1d",
        "conv2d", "conv3d", "scaled_dot_product_attention")
_FULL = ("softmax.int", "log_softmax.int", "layer_norm", "group_norm", "nll_loss",
         "cross_entropy_loss", "mse_loss", "l1_loss", "exp", "log", "cumsum", "cumprod", "prod",
         "sum", "sum.dim_IntList", "norm.Scalar", "rsqrt", "reciprocal", "softplus")


def _operator(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _casting(operator, dtype_of):
    def call(*args, **kwargs):
        dtype = dtype_of()
        args, kwargs = tree_map(
            lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() and
            v.dtype != torch.float64 else v, (args, kwargs))
        with torch._C._ExcludeDispatchKeyGuard(
                torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operator(*args, **kwargs)

    return call


@functools.cache
def register():
    """The libraries that hold the casts; kept by the cache."""
    rest = torch.library.Library("_", "IMPL")  # noqa: TOR901
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    casts = torch.library.Library("aten", "IMPL")  # noqa: TOR901
    for names, dtype_of in ((_LOW, lambda: torch.get_autocast_dtype("neuron")),
                            (_FULL, lambda: torch.float32)):
        for name in names:
            casts.impl(name, _casting(_operator(name), dtype_of), "AutocastPrivateUse1")
    return rest, casts
