"""Builds programs that measure one isolated instruction, from a measurement's parameters."""
from . import single
from .common import P, Program

#: The parameters that an instruction needs apart from its tiles.
FIXED = {"nc_stream_shuffle": {"shuffle_mask": list(range(31, -1, -1))},
         "tensor_tensor_scan": {"initial": 0.0, "op0": "multiply", "op1": "add"},
         "affine_select": {"channel_multiplier": 1, "on_false_value": 0.0, "cmp_op": "greater_equal"},
         "tensor_tensor": {"op": "add"}, "tensor_reduce": {"axis": [1]}, "memset": {"value": 1.0}}
#: The parameters that full-size inputs go to; `data` where none is said.
INPUTS = {"tensor_copy": ("src",), "tensor_tensor": ("data1", "data2"), "nc_stream_shuffle": ("src",),
          "tensor_tensor_scan": ("data0", "data1"), "affine_select": ("on_true_tile",), "memset": ()}
PRODUCTS = 256  # in a stream: the limit of the first window counts little


def program(op, columns, dtype="float32", out=None, source="sbuf", to="sbuf", other=None,
            function=None, engine=None, bias=False, scale=False):
    """bias, scale: by a tile of one column; other: dtype of a second input, which is in SBUF."""
    if op == "nc_matmul":
        return single.products(dtype=dtype, columns=columns, count=PRODUCTS)
    t = Program(op, "trn2")
    tile = {"sbuf": t.sbuf, "psum": t.psum}
    args = dict(FIXED.get(op, {}))
    for name, space, kind in zip(INPUTS.get(op, ("data",)), (source, "sbuf"), (dtype, other or dtype)):
        args[name] = tile[space](name, (P, columns), kind)
    args["dst"] = tile[to]("dst", (P, 1 if op == "tensor_reduce" else columns), out)
    if op == "affine_select":
        args["pattern"] = [-1, columns]
    for name, wanted in (("bias", bias), ("scale", scale)):
        if wanted:
            args[name] = t.sbuf(name, (P, 1), "float32")
    if function:
        args["op"] = function
    if engine:
        args["engine"] = engine
    getattr(t, op)(**args)
    return t
