"""Defines fifty small kernel tasks for search programs that learn: ten operations in five shapes,
each with a reference and a kernel text that parameters complete.

A task's parameters are what decides the time of such kernels: how wide a tile is, which engine works on it, what
the result is kept in. Some of them are against the rules, some give wrong values, and the fastest differs from
task to task.
"""

import itertools

_REFERENCE = '''"""{name}"""
import numpy as np

SEEDS, RTOL, ATOL = (0, 1), {rtol}, {atol}


def inputs(seed):
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform({low}, {high}, {shape}).astype(np.float32) for _ in range({count}))


def reference({arguments}):
    return {formula}
'''
_KERNEL = '''import nki, nki.isa as nisa, nki.language as nl

WIDTH = {width}


@nki.jit
def kernel({arguments}):
    rows, columns = x.shape
    out = nl.ndarray((rows, {columns}), dtype=x.dtype, buffer=nl.shared_hbm)
    for top in nl.affine_range(0, rows, 128):
        for left in nl.affine_range(0, columns, WIDTH):
            part = (nl.ds(top, 128), nl.ds(left, WIDTH))
{loads}
            y = nl.ndarray((128, {wide}), dtype=nl.{dtype}, buffer=nl.sbuf)
            nisa.{body}
            nl.store(out[nl.ds(top, 128), nl.ds({at}, {wide})], y)
    return out
'''
#: Operation: arguments, NumPy's formula, the instruction, whether a row becomes one number, what its engines are.
_OPERATIONS = {
    "exp": ("x", "np.exp(x)", "activation(dst=y, op=nl.exp, data=x_)", False, None),
    "tanh": ("x", "np.tanh(x)", "activation(dst=y, op=nl.tanh, data=x_)", False, None),
    "square": ("x", "x * x", "activation(dst=y, op=nl.square, data=x_)", False, None),
    "scale": ("x", "3 * x + 1", "tensor_scalar(dst=y, data=x_, op0=nl.multiply, operand0=3.0, op1=nl.add, "
              "operand1=1.0, engine={engine})", False, ("vector", "scalar", "gpsimd")),
    "relu": ("x", "np.maximum(x, 0)", "tensor_scalar(dst=y, data=x_, op0=nl.maximum, operand0=0.0, engine={engine})",
             False, ("vector", "scalar", "gpsimd")),
    "copy": ("x", "x", "tensor_copy(dst=y, src=x_, engine={engine})", False, ("vector", "scalar", "gpsimd")),
    "add": ("x, z", "x + z", "tensor_tensor(dst=y, data1=x_, data2=z_, op=nl.add, engine={engine})", False,
            ("vector", "gpsimd", "scalar")),
    "product": ("x, z", "x * z", "tensor_tensor(dst=y, data1=x_, data2=z_, op=nl.multiply, engine={engine})", False,
                ("vector", "gpsimd", "scalar")),
    "row_sum": ("x", "x.sum(axis=1, keepdims=True)", "tensor_reduce(dst=y, op=nl.add, data=x_, axis=1)", True, None),
    "row_max": ("x", "x.max(axis=1, keepdims=True)", "tensor_reduce(dst=y, op=nl.maximum, data=x_, axis=1)", True,
                None),
}
SHAPES = ((128, 256), (128, 1024), (256, 512), (512, 512), (256, 2048))
WIDTHS = (128, 256, 512, 1024, 2048)
DTYPES = ("float32", "bfloat16")


class Task:
    """One task. `name`; `reference`: the text of a reference file; `parameters`: {name: the values it may have};
    `baseline`: the values of a kernel that is not tuned."""

    def __init__(self, operation, shape):
        arguments, formula, self._body, self._reduces, engines = _OPERATIONS[operation]
        self.name = f"{operation}_{shape[0]}x{shape[1]}"
        self._arguments = arguments
        self.reference = _REFERENCE.format(name=self.name, arguments=arguments, formula=formula, shape=shape,
                                           count=arguments.count(",") + 1, low=-1, high=1, rtol=1e-3, atol=1e-3)
        self.parameters = {"width": WIDTHS, "dtype": DTYPES, **({"engine": engines} if engines else {})}
        self.baseline = {"width": shape[1] if self._reduces else 128, "dtype": "float32",
                         **({"engine": engines[0]} if engines else {})}

    def source(self, parameters):
        """The text of the kernel that parameters complete. Raises KeyError and ValueError for what are none."""
        for name, values in self.parameters.items():
            if parameters[name] not in values:
                raise ValueError(f"{name} is {parameters[name]!r}; one of {values} is required")
        loads = "\n".join(f"            {n}_ = nl.load({n}[part])" for n in self._arguments.split(", "))
        engine = f"nisa.engine.{parameters['engine']}" if "engine" in parameters else ""
        return _KERNEL.format(arguments=self._arguments, width=parameters["width"], dtype=parameters["dtype"],
                              columns=1 if self._reduces else "columns", wide=1 if self._reduces else "WIDTH",
                              at=0 if self._reduces else "left", loads=loads, body=self._body.format(engine=engine))


def tasks():
    """The fifty, in an order that never changes."""
    return [Task(operation, shape) for operation, shape in itertools.product(_OPERATIONS, SHAPES)]
