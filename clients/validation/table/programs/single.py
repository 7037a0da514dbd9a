"""Builds programs of one instruction, a chain or a repetition of it, or one DMA, for single
measured figures.
"""
from .common import P, Program


def _tile(t, name, shape, space, dtype):
    return t.psum(name, shape, dtype) if space == "psum" else t.sbuf(name, shape, dtype)


def instruction(name, target="trn2", shape=(P, 512), source="psum", dtype="float32", to="sbuf",
                out=None, count=1, chained=False, tensor_op=None, **args):
    """`count` times one instruction with an operand in `source`; chained: each reads the last."""
    t = Program(name, target)
    src = _tile(t, "src", shape, source, dtype)
    out_shape = (shape[0], 1) if name == "tensor_reduce" else shape
    dst = src if chained else _tile(t, "dst", out_shape, to, out or dtype)
    parameter = {"tensor_copy": "src", "tensor_tensor": "data1"}.get(name, "data")
    operands = {} if name == "memset" else {parameter: src}
    if name == "tensor_tensor":
        operands["data2"] = t.sbuf("other", shape, dtype)
    if tensor_op:
        operands["op0" if name == "tensor_scalar" else "op"] = tensor_op
    for _ in range(count):
        getattr(t, name)(dst=dst, **operands, **args)
    return t


def products(target="trn2", dtype="float32", columns=512, weights=P, count=1, banks=4):
    """A train of nc_matmul, every one with new weights."""
    t = Program("nc_matmul", target)
    left = t.sbuf("l", (P, weights), dtype)
    right = t.sbuf("r", (P, columns), dtype)
    bank = t.ring("bank", banks, (weights, 512), space="psum")
    for _ in range(count):
        t.nc_matmul(dst=bank()[:, 0:columns], stationary=left, moving=right, accumulate=False)
    return t


def loads(target="trn2", shape=(P, 512), dtype="float32", count=1, engine=None, store=False,
          **more):
    """`count` independent DMAs between HBM and SBUF."""
    t = Program("dma_copy", target)
    x = t.input("x", (count * shape[0], shape[1]), dtype)
    for i in range(count):
        tile = t.sbuf(f"t{i}", shape, dtype)
        part = x[i * shape[0]:(i + 1) * shape[0], :]
        t.dma_copy(dst=part if store else tile, src=tile if store else part, engine=engine, **more)
    return t


def load_exp_store(target="trn2", shape=(4, 4096), dtype="bfloat16", engine="gpsimd"):
    """The DMA overview's example: one load, exp, one store."""
    t = Program("exp", target)
    x, y = t.input("x", shape, dtype), t.output("y", shape, dtype)
    a, b = t.sbuf("a", shape, dtype), t.sbuf("b", shape, dtype)
    t.dma_copy(dst=a, src=x, engine=engine)
    t.activation(dst=b, op="exp", data=a)
    t.dma_copy(dst=y, src=b, engine=engine)
    return t
