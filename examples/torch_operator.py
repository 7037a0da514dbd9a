"""Defines a PyTorch operator and its backward pass, both as NKI kernels: y = x sigmoid(x)."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def silu_forward(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    gate = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=gate, op=nl.sigmoid, data=tile)
    nisa.tensor_tensor(dst=gate, data1=gate, data2=tile, op=nl.multiply)
    nl.store(out, gate)
    return out


@nki.jit
def silu_backward(x, gradient):
    """gradient * s * (1 + x (1 - s)) with s = sigmoid(x)."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    above = nl.load(gradient)
    gate = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    slope = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=gate, op=nl.sigmoid, data=tile)
    nisa.tensor_scalar(dst=slope, data=gate, op0=nl.multiply, operand0=-1.0, op1=nl.add,
                       operand1=1.0)
    nisa.tensor_tensor(dst=slope, data1=slope, data2=tile, op=nl.multiply)
    nisa.scalar_tensor_tensor(dst=slope, data=slope, op0=nl.add, operand0=1.0, op1=nl.multiply,
                              operand1=gate)
    nisa.tensor_tensor(dst=slope, data1=slope, data2=above, op=nl.multiply)
    nl.store(out, slope)
    return out


def operator():
    """The torch.autograd.Function; needs PyTorch."""
    import torch

    class Silu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return silu_forward(x)

        @staticmethod
        def backward(ctx, *gradients):
            (x,), (gradient,) = ctx.saved_tensors, gradients
            return silu_backward(x, gradient.contiguous())

    return Silu.apply


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def forward_reference(x):
    return x * sigmoid(x)


def backward_reference(x, gradient):
    s = sigmoid(x)
    return gradient * s * (1 + x * (1 - s))


def cases():
    def inputs(rng):
        return [rng.standard_normal((128, 256)).astype(np.float32)]

    return [Case("silu, forward", silu_forward, forward_reference, inputs),
            Case("silu, backward", silu_backward, backward_reference,
                 lambda rng: inputs(rng) + inputs(rng))]


def with_torch():
    """Gradients through the operator against PyTorch's own."""
    import torch

    x = torch.randn(128, 256, requires_grad=True)
    ours, = torch.autograd.grad(operator()(x).square().sum(), x)
    theirs, = torch.autograd.grad(torch.nn.functional.silu(x).square().sum(), x)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main(cases())
    try:
        import torch  # noqa: F401
    except ImportError:
        print("PyTorch is not installed: the operator is not run")
    else:
        with_torch()
        print("the gradient through torch.autograd.Function matches PyTorch's")
