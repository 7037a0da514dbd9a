"""Writes one program per instruction, to compare the simulator's speed with that of NumPy."""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "traces"))
from builder import Trace  # noqa: E402
from generators import normal, numpy_dtype  # noqa: E402

P, WIDTH = 128, 512

# name: (dtype of a and b, instruction, its other arguments, the same with NumPy). a and b are
# [128, 512] tiles, s is one column; NumPy computes in float32 and stores the result in the dtype.
OPS = {
    "tensor_tensor": ("float32", dict(data1="a", data2="b", op="add"), lambda a, b, s: a + b),
    "tensor_tensor_bf16": ("bfloat16", dict(data1="a", data2="b", op="multiply"),
                           lambda a, b, s: a * b),
    "tensor_scalar": ("float32", dict(data="a", op0="subtract", operand0="s", op1="multiply",
                                      operand1=2.0, engine="vector"),
                      lambda a, b, s: (a - s) * np.float32(2)),
    "tensor_copy_cast": ("float32", dict(src="a", engine="vector"), lambda a, b, s: a),
    "activation_exp": ("float32", dict(op="exp", data="a"), lambda a, b, s: np.exp(a)),
    "activation_tanh": ("float32", dict(op="tanh", data="a"), lambda a, b, s: np.tanh(a)),
    "activation_gelu": ("float32", dict(op="gelu_apprx_tanh", data="a"), lambda a, b, s:
                        np.float32(0.5) * a * (1 + np.tanh(np.float32(0.7978846) *
                                                           (a + np.float32(0.044715) * a * a * a)))),
    "tensor_reduce": ("float32", dict(op="add", data="a", axis=[1]),
                      lambda a, b, s: a.sum(axis=1, keepdims=True)),
    "reciprocal": ("float32", dict(data="a"), lambda a, b, s: 1 / a),
    "tensor_tensor_scan": ("float32", dict(data0="a", data1="b", initial=0.0, op0="multiply",
                                           op1="add"), None),
    "nc_matmul": ("bfloat16", dict(stationary="w", moving="a", accumulate=False), "matmul"),
    "nc_transpose": ("float32", dict(data="w", engine="tensor"), "transpose"),
    "dma_copy": ("float32", dict(src="a"), lambda a, b, s: a.copy()),
}


def instruction_of(name):
    """"activation_exp" is a case of the instruction activation."""
    known = ("tensor_tensor_scan", "tensor_tensor", "tensor_scalar", "tensor_copy", "activation",
             "tensor_reduce")
    return next((op for op in known if name.startswith(op)), name)


def write(path, name, repeat):
    """A trace that runs the operation `repeat` times in a loop."""
    dtype, args, _ = OPS[name]
    t = Trace(name, f"{repeat} times {name}", locations=False)
    op = instruction_of(name)
    tiles = {"a": (P, WIDTH), "b": (P, WIDTH), "s": (P, 1), "w": (P, P)}
    for seed, (tile, shape) in enumerate(tiles.items()):
        kind = "float32" if tile == "s" else dtype
        source = t.input(f"{tile}_hbm", shape, kind, generator="normal", seed=seed)
        t.dma_copy(dst=t.sbuf(tile, shape, kind), src=source)
    if op in ("nc_matmul", "nc_transpose"):
        dst = t.psum("dst", (P, WIDTH if op == "nc_matmul" else P))
    elif op == "tensor_reduce":
        dst = t.sbuf("dst", (P, 1), dtype)
    else:
        dst = t.sbuf("dst", (P, WIDTH), "bfloat16" if name.endswith("cast") else dtype)
    with t.loop(0, repeat):
        getattr(t, op)(dst=dst, **args)
    Path(path).write_text(t.text(), encoding="utf-8")


def numpy_call(name):
    """The same arithmetic as a function without arguments, or None where NumPy has no such thing."""
    dtype, _, formula = OPS[name]
    dtype = numpy_dtype(dtype)

    def make(shape, seed):
        return normal(int(np.prod(shape)), seed).reshape(shape).astype(np.float32)

    a, b, s, w = (make(shape, n).astype(dtype)
                  for n, shape in enumerate(((P, WIDTH), (P, WIDTH), (P, 1), (P, P))))
    s = s.astype(np.float32)
    if formula is None:
        return None
    if formula == "matmul":
        return lambda: w.astype(np.float32).T @ a.astype(np.float32)
    if formula == "transpose":
        return lambda: w.T.copy()
    if name.endswith("cast"):
        return lambda: a.astype(numpy_dtype("bfloat16"))
    if dtype == np.float32:
        return lambda: formula(a, b, s)
    return lambda: formula(a.astype(np.float32), b.astype(np.float32), s).astype(dtype)
