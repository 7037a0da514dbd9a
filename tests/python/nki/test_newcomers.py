"""Tests fifty more mistakes of newcomers in both APIs: each is an error or a warning that says what to write."""

import importlib.util
import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import neuronxcc.nki as legacy  # noqa: E402

X = np.random.default_rng(0).random((128, 512)).astype(np.float32)
NEW = """import math
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    {}  # wrong
    nl.store(out, t)
    return out
"""
OLD = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    i, j = nl.arange(128)[:, None], nl.arange(512)[None, :]
    t = nl.load(x[i, j])
    {}  # wrong
    nl.store(out[i, j], t)
    return out
"""
#: The line, the rule (None: a warning) and a part of the message.
MISTAKES = [
    ("t = nl.ndarray(x.shape, dtype=nl.float, buffer=nl.sbuf)", "unsupported_call", "did you mean float32"),
    ("t = nl.ndarray(x.shape, dtype=nl.bf16, buffer=nl.sbuf)", "unsupported_call", "did you mean bfloat16?"),
    ("t = nl.ndarray(x.shape, dtype=np.float64, buffer=nl.sbuf)", "unknown_dtype", "use float32"),
    ("t = nl.ndarray(x.shape, dtype='half', buffer=nl.sbuf)", "unknown_dtype", "dtype is 'half'"),
    ("t = nl.ndarray(x.shape, dtype=t.dtype, buffer='dram')", "unknown_buffer", "one of sbuf, psum, hbm"),
    ("t = nl.ndarray((128, x.shape[1] / 2), dtype=t.dtype, buffer=nl.sbuf)", "tensor_shape", "a tuple of integers"),
    ("t = nl.ndarray(512, dtype=t.dtype, buffer=nl.sbuf)", "tensor_partitions", "within 0..127"),
    ("t = nl.zeros((256, 512), t.dtype, buffer=nl.sbuf)", "tensor_partitions", "128 rows at a time"),
    ("t = nl.zeros((128, 60000), t.dtype, buffer=nl.sbuf)[:, 0:512]", "over_capacity", "240000 bytes per partition"),
    ("nisa.dma_copy(dst=p, src=x)", "operand_memory", "dst is in PSUM; HBM or SBUF is required"),
    ("nisa.nc_matmul(dst=t, stationary=t[:, 0:128], moving=t)", "operand_memory", "dst is in SBUF; PSUM is required"),
    ("nisa.nc_matmul(dst=p, stationary=t, moving=t[:, 0:128])", "operand_size", "at most 128 columns (M)"),
    ("nisa.nc_matmul(dst=p[:, 0:128], stationary=t[:, 0:128], moving=t)", "operand_shape", "dst is"),
    ("nisa.nc_transpose(dst=column, data=t[:, 0:128], engine=nisa.engine.tensor)", "operand_shape",
     "[128 x 128] is required"),
    ("nl.tile_size.fmax", "unsupported_call", "did you mean pmax?"),
    ("t = np.array(x)", "tensor_required", "a tensor"),
    ("nisa.dma_copy(dst=np.zeros((128, 512), np.float32), src=x)", "tensor_required",
     "an array (128, 512) of float32;"),
    ("t = np.where(t > 0, t, 0)", "tensor_required", "nl.where(condition, x, y) is required"),
    ("t = np.clip(t, 0, 1)", "tensor_required", "nl.minimum(nl.maximum(tile, low), high) is required"),
    ("print(f'{t[0, 0]:.3f}')", "values_while_recording", "is used as a Python number"),
    ("t = nl.ndarray(128, 512, dtype=x.dtype, buffer=nl.sbuf)", "argument_count", "shape is one tuple"),
    ("t = nl.zeros(x.shape, buffer=nl.sbuf)", None, "nl.zeros is given no dtype"),
    ("t = nl.load(x[:, nl.ds(0, 256, 2)])", "argument_count", "3 arguments are given by place; ds(start, size)"),
    ("t = t[:, nl.arange(512)]", "partition_index", "nl.arange(columns)[None, :] is required"),
    ("nisa.tensor_tensor(dst=t, data1=t, data2=t, op='add')", None, "the text 'add' stands for an operator"),
    ("nisa.activation(dst=t, op='exp', data=t)", None, "nl.exp is required"),
    ("nisa.tensor_tensor(dst=t, data1=t, data2=t[0:1], op=nl.add)", "operand_shape", "nl.broadcast_to repeats a row"),
    ("nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=t)", "operand_size", "nisa.tensor_tensor takes two tiles"),
    ("t = nl.multiply(t, t[0, 0].item())", "unsupported_call", "values exist only on the device"),
    ("t = t if (t > 0).any() else nl.add(t, 1.0)", "unsupported_call", "a tensor has no any; use nl.max(tile, axis=1)"),
    ("t.add_(1.0)", "unsupported_call", "a tensor has no add_; use nl.add(tile, ...)"),
    ("t = t.exp_()", "unsupported_call", "a tensor has no exp_; use nl.exp(tile, ...)"),
    ("t = t // 2", "unsupported_call", "// of tensors; use nl.floor(nl.divide(x, y))"),
    ("t = divmod(t, 2)[0]", "unsupported_call", "divmod of tensors"),
    ("t = nl.where((t > 0.1) and (t < 0.5), t, 0.0)", None, "the truth of a tile"),
    ("t = max(t, 0.0)", None, "the truth of a tile"),
    ("t = nl.multiply(t, 1.0 if t[0, 0] < 0.5 else 2.0)", None, "the truth of a tile"),
    ("t = nl.multiply(t, math.exp(t[0, 0]))", "values_while_recording", "is used as a Python number"),
    ("t = t[:, ::-1]", "slice_out_of_bounds", "at least 1 is required"),
    ("t = t[:, [0, 5, 9]]", "view_offset", "an index is list"),
    ("t = t[t > 0]", "mask", "nl.where(condition, x, y)"),
    ("t = t[:, :, 0]", "slice_out_of_bounds", "at most 2 are possible"),
    ("t = t['data']", "view_offset", "an index is str"),
    ("t = nl.load(x[:, nl.ds(0)])", "argument_missing", "size is missing; ds(start, size) is required"),
    ("t = nl.load(x[:, nl.ds(256, 512)])", "slice_out_of_bounds", "slice 256:768"),
    ("column = nl.sum(t, axis=1, keepdim=True)", "argument_count", "keepdims is required"),
    ("t = nl.softmax(t, dim=-1)", "argument_count", "softmax(x, axis"),
    ("nisa.activation(dst=t, op='gelu_', data=t)", "python_value", "an activation function of nki.language"),
    ("nisa.activation(dst=t, op=nl.exp(t), data=t)", "python_value", "an activation function of nki.language"),
    ("nisa.tensor_tensor(dst=t, data1=t, data2=t, op=lambda a, b: a + b)", "python_value",
     "op is the function <lambda>"),
    ("nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add, engine='VectorE')", "unknown_engine",
     "nki.isa.engine (tensor, vector"),
    ("nisa.activation(dst=t, op=nl.exp, data=t, bias=t[0:1, 0:1])", "operand_size", "one column on 128 partitions"),
    ("nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply)", "argument_missing", "operand0 is missing"),
    ("nisa.tensor_scalar(dst=t, data=t, op0=nl.bitwise_and, operand0=7)", "operand_dtype", "an integer dtype"),
    ("nisa.tensor_reduce(dst=column, op=nl.add, data=t, axis=2)", "axes", "dimensions 1 to 1 of the tile"),
    ("nisa.memset(dst=t, value=x)", "python_value", "value is <x hbm"),
    ("t = nl.add(t, None)", "tensor_required", "a tile or a number"),
    ("t = nl.load('x')", "tensor_required", "src is str; a tensor is required"),
    ("nl.program_id(3)", "grid_axis", "the launch grid has 0 axes"),
    ("t = nl.exp(x)", None, "nl.load(...) of it is required"),
    ("nisa.tensor_copy(dst=t, src=t, engine=nisa.engine.vectr)", "unsupported_call",
     "engine has no vectr; did you mean vector?"),
    ("nisa.tensor_tensor(dst=t, data1=t, data2=t, op='multipy')", "python_value", "did you mean multiply?"),
    ("t = t.reshape((128, 512 / 4, 4))", "number_required", "a size of shape is the float 128.0"),
    ("nl.load(x)", None, "nothing reads the result of this function or operator"),
    ("nl.exp(t)", None, "nothing reads the result of this function or operator"),
    ("op = 'add'; nisa.tensor_tensor(dst=t, data1=t, data2=t, op=op)", None, "the text 'add' stands for an operator"),
    ("nisa.activation(dst=t, op=np.exp, data=t)", None, "numpy.exp is no operator of nki.isa"),
    ("nl.store(out.reshape((512, 128)), t)", None, "which is no transpose"),
    ("nisa.nc_matmul(dst=p, stationary=t[:, 0:128], moving=t, accumulate='no')", "python_value", "True or False"),
    ("t = nl.copy(t) if nl.sum(t, axis=1, keepdims='no') is None else t", "python_value", "True or False"),
    ("nisa.activation(dst=t, op=nl.exp, data=t, scale=nisa.engine.vector)", "python_value", "scale is engine.vector"),
    ("t = nl.copy('x')", "tensor_required", "x is 'x'; a tile is required"),
    ("nisa.dma_transpose(dst='t', src=t)", "tensor_required", "dst is 't'; a tensor"),
    ("t = nl.ndarray(None, dtype=t.dtype, buffer=nl.sbuf)", "python_value", "shape is None; a tuple of integers"),
    ("t = nl.ndarray(x.shape, dtype=t.dtype, buffer=nl.sbuf, name=3)", "python_value", "name is 3; a text"),
    ("t = nl.broadcast_to(column, 512)", "python_value", "shape is 512; a tuple of integers"),
]
OF_OLD = [
    ("t = nl.load(x[i, j], mask=(nl.arange(100)[None, :] < 50))", "mask", "shapes that broadcast are required"),
    ("t = nl.load(x[nl.arange(200)[:, None], j])", "tensor_partitions", "within 0..127"),
    ("t = nl.load(x[nl.arange(128), nl.arange(512)])", "index_tile_shape", "do not broadcast: 128 and 512"),
    ("t = nisa.nc_matmul(t, t)", "tensor_partitions", "within 0..127"),
    ("t = nisa.tensor_tensor(t, t, op='add')", None, "the text 'add' stands for an operator"),
    ("t = nisa.activation(nl.exp, t, biass=None)", None, "nisa.activation has no biass: it is ignored"),
    ("t = nl.zeros((128, 512), dtype=t.dtype, buffer=nl.PSUM)", "unsupported_call", "did you mean psum?"),
    ("nl.store(out[i, j])", "argument_missing", "value is missing"),
    ("t = nl.zeros((nl.par_dim(256), 64), dtype=nl.float32, buffer=nl.sbuf)", "tensor_partitions", "within 0..127"),
    ("nisa.activation(nl.exp, t)", None, "nothing reads the result of this function or operator"),
    ("t = nisa.tensor_tensor(t, nl.fp32, op=nl.add)", "tensor_required", "a tensor (nl.load of an array"),
    ("t = nisa.tensor_copy([t])", "tensor_required", "src is [<t sbuf[128 x 512] float32>]; a tensor"),
    ("t = nisa.activation(None, t)", "argument_missing", "op is None; a value is required"),
    ("t = nl.loop_reduce(t, op=max, loop_indices='i')", "python_value", "loop_indices is 'i'; an index of a loop"),
    ("t = nl.loop_reduce(t, op='largest', loop_indices=[0])", "python_value", "op is 'largest'; an ALU operator"),
    ("t = nisa.tensor_copy(t, engine='vector')", None, "nisa.engine.vector is required"),
    ("t = nl.zeros((128, 8), t.dtype, buffer=nki.compiler.sbuf.mod_alloc(base_addr='0'))", "python_value",
     "base_addr is '0'; an integer"),
]


def kernel_of(text, folder):
    path = folder / "k.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("newcomer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@pytest.mark.parametrize(("head", "line", "rule", "says"),
                         [(NEW, *row) for row in MISTAKES] + [(OLD, *row) for row in OF_OLD])
def test_a_mistake_is_reported_at_its_line(head, line, rule, says, tmp_path):
    text = head.format(line)
    kernel = (nki.jit if head is NEW else legacy.jit)(kernel_of(text, tmp_path))
    number = next(n for n, one in enumerate(text.splitlines(), 1) if one.endswith("# wrong"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if rule is None:
            kernel(X)
            assert any(says in str(w.message) and w.lineno == number for w in caught)
            return
        with pytest.raises(nkisim.Error) as problem:
            kernel(X)
    said = str(problem.value)
    assert (problem.value.rule, says in said) == (rule, True), said
    assert " at 0x" not in said and max(map(len, said.splitlines())) < 600
    # A tile that is stored as another value is known to be none where it is stored.
    assert problem.value.kernel_line in (number, number + 1)


def plain(x):
    import nki.language as nl
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def two(x, scale):
    return plain(x)


@pytest.mark.parametrize(("launch", "rule", "says"), [
    (lambda: nki.jit(two)(X), "argument_missing", "scale is missing; two(x, scale) is required"),
    (lambda: nki.jit(two)(X, X, X), "argument_count", "3 arguments are given by place; two(x, scale) is required"),
    (lambda: nki.jit(two)(X, scal=X), "argument_count", "scal is none of its arguments; two(x, scale) is required"),
    (lambda: nki.jit(plain)(2), "tensor_required", "a launch grid stands in brackets: kernel[2](x)"),
    (lambda: nki.jit(target="trn2")(plain), "option_value", "platform_target="),
    (lambda: nki.jit(plain, lnc=2), "option_value", "the launch grid, kernel[2](x)"),
    (lambda: plain(X), "outside_kernel", "call it from a function run with @nki.jit or nkisim.run"),
    (lambda: nki.jit(plain)[2.0](X), "launch_grid", "an integer of at least 1 along each axis"),
    (lambda: nki.jit(plain)[-1](X), "launch_grid", "the launch grid is (-1,)"),
    (lambda: nki.jit(plain)["2"](X), "launch_grid", "('2',)"),
    (lambda: nki.jit(plain)[2, (2,)](X), "launch_grid", "(2, (2,))"),
    (lambda: nki.jit(plain)[True](X), "launch_grid", "(True,)"),
    (lambda: nki.jit(plain, X), "option_value", "an array (128, 512) of float32; a function alone"),
    (lambda: nki.jit(3), "option_value", "a function alone"),
    (lambda: nki.jit(plain, platform_target="trn9"), "unknown_target", "'trn9'"),
    (lambda: nkisim.run(nki.jit(plain), X, target="trn4"), "unknown_target", "'trn4'"),
    (lambda: nkisim.run(plain, X, target="trn2", lnc=3), "launch_grid", "1 to 2 is required"),
    (lambda: nki.jit(plain)([[1.0, 2.0]]), "tensor_required", "[[1.0, 2.0]] has no shape; an array"),
    (lambda: nki.jit(plain)(3.0), "tensor_required", "3.0 has no shape"),
    (lambda: nki.jit(plain)(None), "tensor_required", "None has no shape"),
    (lambda: nki.jit(plain)("x.npy"), "tensor_required", "has no shape"),
    (lambda: nki.jit(plain)(X.astype(np.complex64)), "unknown_dtype", "complex64"),
    (lambda: nki.jit(plain)(X[:0]), "tensor_shape", "dimension 0"),
])
def test_a_wrong_launch(launch, rule, says):
    with pytest.raises(nkisim.Error) as problem:
        launch()
    assert (problem.value.rule, says in str(problem.value)) == (rule, True), problem.value


HELPERS = """import nki.isa as nisa
import nki.language as nl


def copied(t):
    r = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=r, src=t)
    return r


def twice(t):
    return copied(copied(t))


def kernel(x):
    return twice(nl.load(x))
"""


def test_a_mistake_in_a_helper_names_the_calls_that_led_there(tmp_path):
    with pytest.raises(nkisim.Error, match="the shape of src") as problem:
        nki.jit(kernel_of(HELPERS, tmp_path))(X)
    path = str(tmp_path / "k.py")
    assert problem.value.kernel_line == 7 and problem.value.callers == ((path, 12), (path, 16))
    assert f"called at {path}:12\n  called at {path}:16" in str(problem.value)


def test_a_mode_that_no_release_has_is_a_warning():
    with pytest.warns(UserWarning, match="mode='simulaton' is none of nki.jit.*did you mean simulation?"):
        nki.jit(plain, mode="simulaton")


def test_a_grid_of_more_programs_than_a_logical_core_has_cores():
    with pytest.warns(UserWarning, match="the launch grid has 4 programs.*or kernel[(]...[)] is required"):
        nkisim.run(plain, X, grid=4, allow_races=True)


def test_a_grid_of_numpy_integers_and_of_none():
    assert np.array_equal(nki.jit(plain)[np.int64(1)](X), X)
    assert np.array_equal(nki.jit(plain)[0](X), X)  # one instance, as AWS's samples have it
