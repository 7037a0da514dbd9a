"""Tests a beginner's mistakes: each ends in one message with its rule, its line and a correction."""

import inspect
import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.random.default_rng(0).random((128, 512)).astype(np.float32)
MISTAKES = []


def mistake(rule, *says, arrays=(X,)):
    """A kernel whose line that ends in `# wrong` breaks a rule; what the message says, `...` between."""
    def keep(kernel):
        MISTAKES.append(pytest.param(kernel, rule, says, arrays, id=kernel.__name__))
        return kernel
    return keep


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


@mistake("argument_missing", "op is missing; tensor_tensor(dst, data1, data2, op",
         "it writes dst, a tile such as nl.ndarray")
def result_instead_of_dst(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, nisa.tensor_tensor(t, t, nl.add))  # wrong
    return out


@mistake("argument_missing", "dst is missing; activation(dst, op, data", "gives none back")
def no_dst(x):
    out, t = hbm(x.shape), nl.load(x)
    y = nisa.activation(op=nl.exp, data=t)  # wrong
    nl.store(out, y)
    return out


@mistake("tensor_required", "value is NkiInstruction", "the dst that was written")
def result_of_an_instruction(x):
    out, t = hbm(x.shape), nl.load(x)
    y = nisa.tensor_copy(dst=nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf), src=t)
    nl.store(out, y)  # wrong
    return out


@mistake("argument_count", "dim is none of its arguments; tensor_reduce(dst, op, data, axis")
def keyword_of_torch(x):
    out, t = hbm((128, 1)), nl.load(x)
    nisa.tensor_reduce(dst=t[:, 0:1], op=nl.add, data=t, dim=1)  # wrong
    nl.store(out, t[:, 0:1])
    return out


@mistake("argument_count", "bufer is none of its arguments; buffer is required")
def keyword_misspelt(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, bufer=nl.shared_hbm)  # wrong
    nl.store(out, nl.load(x))
    return out


@mistake("argument_missing", "y is missing; add(x, y, dtype, mask) is required")
def sum_of_one(x):
    out = hbm(x.shape)
    nl.store(out, nl.add(nl.load(x)))  # wrong
    return out


@mistake("argument_missing", "axis is missing; sum(x, axis, dtype, keepdims, mask, negate) is required")
def sum_of_no_axis(x):
    out = hbm((128, 1))
    nl.store(out, nl.sum(nl.load(x)))  # wrong
    return out


@mistake("argument_missing", "shape is missing; reshape(shape) is required")
def reshape_to_nothing(x):
    y = x.reshape()  # wrong
    return y


@mistake("operand_memory", "dst is on chip and value in HBM", "the other way it is load(src)")
def store_the_other_way(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(t, out)  # wrong
    return out


@mistake("broadcast", "sbuf[128 x 512] float32> does not broadcast to (128, 256)", "a slice of it")
def store_of_too_much(x):
    out = hbm((128, 256))
    nl.store(out, nl.load(x))  # wrong
    return out


@mistake("tensor_required", "np.concatenate is called with", "each part is written as a slice (nisa.tensor_copy)")
def tiles_joined_by_numpy(x):
    out, t = hbm((128, 1024)), nl.load(x)
    nl.store(out, np.concatenate([t, t], 1))  # wrong
    return out


@mistake("tensor_required", "np.sum is called with", "nl.sum(tile, axis=1) is required")
def sum_by_numpy(x):
    out, t = hbm((128, 1)), nl.load(x)
    nl.store(out, np.sum(t, axis=1))  # wrong
    return out


@mistake("values_while_recording", "is used as a Python number")
def list_at_a_tile(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, nl.multiply(t, [1.0, 2.0][t[0, 0]]))  # wrong
    return out


@mistake("values_while_recording", "is used as a Python number")
def iterations_over_a_tile(x):
    out, t = hbm(x.shape), nl.load(x)
    for _ in range(t[0, 0]):  # wrong
        t = nl.add(t, 1.0)
    nl.store(out, t)
    return out


@mistake("argument_count", "data is given twice")
def positions_and_names(x):
    out, t = hbm(x.shape), nl.load(x)
    nisa.tensor_scalar(t, t, data=t, op0=nl.add, operand0=1.0)  # wrong
    nl.store(out, t)
    return out


@mistake("tensor_required", "np.exp is called with", "nl.exp(...) is required")
def numpy_on_a_tile(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, np.exp(t))  # wrong
    return out


@mistake("tensor_required", "np.maximum is called with <x hbm", "nl.maximum(...) is required")
def numpy_on_an_argument(x):
    out = hbm(x.shape)
    nl.store(out, np.maximum(x, 0))  # wrong
    return out


@mistake("tensor_iterated", "a tensor is iterated", "index them")
def pythons_sum(x):
    out, t = hbm((128, 1)), nl.load(x)
    nl.store(out, sum(t))  # wrong
    return out


@mistake("unsupported_call", "a tensor has no sum; use nl.sum(tile, axis=1)")
def method_of_numpy(x):
    out, t = hbm((128, 1)), nl.load(x)
    nl.store(out, t.sum(axis=1))  # wrong
    return out


@mistake("unsupported_call", "a tensor has no T; use nl.transpose(tile), or nisa.nc_transpose(dst, tile)")
def attribute_of_numpy(x):
    out, t = hbm((512, 512)), nl.load(x)
    nl.store(out, nl.matmul(t.T, t))  # wrong
    return out


@mistake("unsupported_call", "@ of tensors; use nl.matmul(x, y, transpose_x=True)")
def operator_of_numpy(x):
    out, t = hbm((512, 512)), nl.load(x)
    nl.store(out, t @ t)  # wrong
    return out


@mistake("unsupported_call", "nki.language has no relu6; use nl.minimum(nl.relu(x), 6.0)")
def function_of_torch(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, nl.relu6(t))  # wrong
    return out


@mistake("unsupported_call", "nki.isa has no tensor_tenser; did you mean tensor_tensor?")
def misspelt(x):
    out, t = hbm(x.shape), nl.load(x)
    nisa.tensor_tenser(t, t, t, nl.add)  # wrong
    nl.store(out, t)
    return out


@mistake("values_while_recording", "is used as a Python number", "nl.multiply(x, tile), operand0=tile")
def number_of_a_tile(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, nl.multiply(t, float(t[0, 0])))  # wrong
    return out


@mistake("register_arithmetic", "arithmetic on a register", "nisa.register_* or scalar_offset")
def arithmetic_on_a_loop_register(x):
    out = hbm(x.shape)
    for i in nl.dynamic_range(4):
        nl.store(out[:, 0:128], nl.load(x[:, i * 128:(i + 1) * 128]))  # wrong
    return out


@mistake("tensor_partitions", "load: <b hbm[512] float32> is of one dimension", "x.reshape((1, 512)), a row",
         arrays=(X, X[0]))
def bias_along_the_row(x, b):
    out = hbm(x.shape)
    nl.store(out, nl.add(nl.load(x), nl.load(b)))  # wrong
    return out


@mistake("broadcast", "shapes (128, 64) and (64, 1) do not broadcast", "x.reshape((1, 64)) in HBM is a row",
         arrays=(X[:, :64], X[0, :64]))
def short_bias_along_the_row(x, b):
    out = hbm(x.shape)
    nl.store(out, nl.add(nl.load(x), nl.load(b)))  # wrong
    return out


@mistake("tensor_partitions", "placed on partitions 0..255; a partition range within 0..127",
         "x[i * 128:(i + 1) * 128]", arrays=(np.vstack([X, X]),))
def too_many_rows(x):
    out = hbm(x.shape)
    nl.store(out, nl.load(x))  # wrong
    return out


@mistake("operand_memory", "dst is in HBM; SBUF or PSUM is required")
def compute_in_hbm(x):
    out = hbm(x.shape)
    nisa.tensor_scalar(dst=out, data=x, op0=nl.add, operand0=1.0)  # wrong
    return out


@mistake("operand_memory", "src is in PSUM; HBM or SBUF is required")
def store_from_psum(x):
    out, t = hbm((128, 512)), nl.load(x)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=t[:, 0:128], moving=t)
    nisa.dma_copy(dst=out, src=p)  # wrong
    return out


@mistake("both_in_psum", "data1 and data2 are both in PSUM; at least one in SBUF is required")
def add_two_products(x):
    out, t = hbm((128, 512)), nl.load(x)
    p, q = (nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(2))
    nisa.nc_matmul(dst=p, stationary=t[:, 0:128], moving=t)
    nisa.nc_matmul(dst=q, stationary=t[:, 0:128], moving=t)
    nisa.tensor_tensor(dst=t, data1=p, data2=q, op=nl.add)  # wrong
    nl.store(out, t)
    return out


@mistake("operand_size", "stationary is sbuf[128 x 512] float32; at most 128 columns (M) is required")
def product_too_wide(x):
    out, t = hbm((128, 512)), nl.load(x)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=t, moving=t)  # wrong
    nl.store(out, p)
    return out


@mistake("partitions_differ", "moving is sbuf[128 x 512] float32; 64 partitions, as stationary has")
def product_of_other_lengths(x):
    out, t = hbm((128, 512)), nl.load(x)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=t[0:64, 0:128], moving=t)  # wrong
    nl.store(out, p)
    return out


@mistake("operand_dtype", "stationary is int32; one of float32,", arrays=(np.ones((128, 128), np.int32),))
def product_of_integers(x):
    out, t = hbm(x.shape), nl.load(x)
    nl.store(out, nl.matmul(t, t, transpose_x=True))  # wrong
    return out


@mistake("slice_out_of_bounds", "slice 512:768 of dimension 1 is out of bounds", "has 512 there")
def one_tile_too_many(x):
    out = hbm(x.shape)
    for i in range(3):
        nl.store(out[:, i * 256:(i + 1) * 256], nl.load(x[:, 0:256]))  # wrong
    return out


@mistake("number_required", "a slice stop is the float 256.0; an integer is required")
def half_by_a_slash(x):
    out, n = hbm(x.shape), x.shape[1] / 2
    nl.store(out[:, 0:n], nl.load(x)[:, 0:256])  # wrong
    return out


@mistake("operand_shape", "dst is sbuf[128 x 256] float32; the shape of src, sbuf[128 x 512] float32, is required")
def copy_into_another_shape(x):
    out, t = hbm((128, 256)), nl.load(x)
    d = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=d, src=t)  # wrong
    nl.store(out, d)
    return out


@mistake("start_partition", "16 partitions from partition 5; start partition 0, 32, 64 or 96")
def rows_from_anywhere(x):
    out, t = hbm((16, 512)), nl.load(x)
    d = nl.ndarray((16, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=d, src=t[5:21])  # wrong
    nl.store(out, d)
    return out


@mistake("axes", "axis is 0, which includes the partition dimension 0; free dimensions are required")
def sum_over_partitions(x):
    out, t = hbm((1, 512)), nl.load(x)
    nisa.tensor_reduce(dst=t[0:1], op=nl.add, data=t, axis=0)  # wrong
    nl.store(out, t[0:1])
    return out


@mistake("python_value", "op is 'plus'; an ALU operator of nki.language is required")
def operator_by_a_wrong_name(x):
    out, t = hbm(x.shape), nl.load(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op="plus")  # wrong
    nl.store(out, t)
    return out


@mistake("mask", "is subscripted by a tile of truth values; nl.where(condition, x, y)")
def assignment_by_truth(x):
    out, t = hbm(x.shape), nl.load(x)
    t[nl.greater(t, 0.5)] = 0.0  # wrong
    nl.store(out, t)
    return out


@mistake("unsupported_call", "mask= was removed in NKI 0.2; slice the operands")
def mask_of_the_old_api(x):
    out, t = hbm(x.shape), nl.load(x)
    nisa.tensor_copy(dst=t, src=t, mask=nl.arange(128)[:, None] < 64)  # wrong
    nl.store(out, t)
    return out


@mistake("kernel_result", "the kernel returns <t sbuf[128 x 512] float32>; a tensor in HBM is required",
         "nl.ndarray with buffer=nl.shared_hbm")
def returns_a_tile(x):
    t = nl.load(x)  # wrong
    return t


@mistake("kernel_result", "neither returns a tensor nor writes one of its arguments",
         "return the tensor in nl.shared_hbm")
def returns_nothing(x):  # wrong
    out = hbm(x.shape)
    nl.store(out, nl.load(x))


@mistake("tensor_required", "src is list; a tensor (np.array of the list, as an argument of the kernel) is required",
         arrays=([[1.0] * 4] * 4,))
def list_for_an_array(x):
    out = hbm((4, 4))
    nl.store(out, nl.load(x))  # wrong
    return out


@mistake("over_capacity", "PSUM is full: p needs 32768 bytes per partition", "16384 exist")
def psum_too_small(x):
    out, t = hbm(x.shape), nl.load(x)
    p = nl.ndarray((128, 8192), dtype=nl.float32, buffer=nl.psum)  # wrong
    nisa.memset(p, 0.0)
    nisa.tensor_copy(t, p[:, 0:512])
    nl.store(out, t)
    return out


def wrong_line(kernel):
    """The number of the line marked so; a decorated function begins at its first decorator."""
    lines, first = inspect.getsourcelines(kernel)
    (at,) = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# wrong")]
    return at


@pytest.mark.parametrize(("kernel", "rule", "says", "arrays"), MISTAKES)
def test_a_mistake(kernel, rule, says, arrays):
    with pytest.raises(nkisim.Error) as caught:
        nki.jit(kernel)(*arrays)
    problem = caught.value
    assert problem.rule == rule, problem
    for part in says:
        assert part in str(problem)
    assert problem.kernel_file == __file__
    # A kernel that gives nothing back is named by its first line, which is its decorator's.
    at = {wrong_line(kernel), inspect.getsourcelines(kernel)[1]} if kernel is returns_nothing else {wrong_line(kernel)}
    assert problem.kernel_line in at
    frames = [entry.path.name for entry in caught.traceback]
    assert set(frames) <= {"test_beginners.py", "kernel.py"}  # the last is the call itself


def test_there_are_thirty():
    assert len(MISTAKES) >= 30


def branch_on_a_value(x):
    out, t = hbm(x.shape), nl.load(x)
    if t[0, 0] > 0:  # wrong
        t = nl.add(t, 1.0)
    nl.store(out, t)
    return out


def one_bias_for_each_row_or_column(x, b):
    out = hbm(x.shape)
    nl.store(out, nl.add(nl.load(x), nl.load(b)))  # wrong
    return out


@pytest.mark.parametrize(("kernel", "arrays", "says"), [
    (branch_on_a_value, (X,), "nl.where(condition, x, y)"),
    (one_bias_for_each_row_or_column, (X[:, :128], X[0, :128]), "x.reshape((1, 128)) in HBM loads it as a row")])
def test_a_warning(kernel, arrays, says):
    with pytest.warns(UserWarning) as caught:
        nki.jit(kernel)(*arrays)
    reported = [w for w in caught if "would broadcast" not in str(w.message)]  # the device's gate: test_refusals
    assert [(str(w.message).count(says), w.filename, w.lineno) for w in reported] == [(1, __file__, wrong_line(kernel))]


def test_a_bias_of_rows_that_cannot_be_columns_is_no_mistake():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="nl.add of shapes .* would broadcast")
        found = nki.jit(one_bias_for_each_row_or_column)(X, X[:, 3].copy())
    np.testing.assert_array_equal(found, X + X[:, 3:4])
