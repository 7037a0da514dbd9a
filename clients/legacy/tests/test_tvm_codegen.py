"""Tests neuronxcc.nki kernels in the forms that Apache TVM's code generator for Trainium emits
(src/backend/trn/codegen, whose tests compare text alone): each of its instructions once, against
NumPy. The kernels are of our own.
"""

import math

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

HEAD = """\
import neuronxcc.nki.language as nl
from neuronxcc.nki import baremetal, benchmark, simulate_kernel, trace
import numpy as np
import neuronxcc.nki.isa as nisa
import math
import neuronxcc.nki as nki
import neuronxcc.nki.typing as nt
import neuronxcc.nki.compiler as ncc
@nki.compiler.enable_stack_allocator
@nki.compiler.skip_middle_end_transformations
@baremetal(experimental_flags='enable-mutable-parameter',
           additional_compile_opt='--internal-skip-backend-allocation-opt-nki')
def tile_kernel(x_ptr, y_ptr: nt.mutable_tensor, ):
  y_ptr_buffer = y_ptr.reshape([{size}])
  x_ptr_buffer = x_ptr.reshape([8192])
  x_sbuf_ptr = nl.ndarray(shape=[128, 64], dtype=np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
  y_sbuf_ptr = nl.ndarray(shape=[128, {columns}], dtype=np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=256))
  z_sbuf_ptr = nl.ndarray(shape=[128, 64], dtype=np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=512))
  p = nl.arange(128)
  f = nl.arange(64)
  x_sbuf_ptr[p[:, None, ], f[None, :, ]] = nl.load(x_ptr_buffer[((p[:, None, ] * 64) + f[None, :, ])])
"""
TAIL = """\
  q = nl.arange(128)
  g = nl.arange({columns})
  nl.store(y_ptr_buffer[((q[:, None, ] * {columns}) + g[None, :, ])], y_sbuf_ptr[q[:, None, ], g[None, :, ]])
  return y_ptr
"""
X = "x_sbuf_ptr[p[:, None, ], f[None, :, ]]"
Y = "y_sbuf_ptr[p[:, None, ], f[None, :, ]]"
FIRST = "y_sbuf_ptr[p[:, None, ], 0]"
Z = "z_sbuf_ptr[p[:, None, ], f[None, :, ]]"
PSUM = ("ncc.psum.mod_alloc(base_bank=0, base_addr=0, num_bank_tiles=(1,))", "nl.psum")


def product(buffer):
    return f"""\
  id_ptr = nl.ndarray(shape=[128, 128], dtype=nl.bfloat16, buffer=ncc.sbuf.mod_alloc(base_addr=1024))
  identity_np = nl.shared_constant(np.identity(128, dtype=np.int8), dtype=nl.bfloat16)
  k = nl.arange(128)
  id_ptr[p[:, None, ], k[None, :, ]] = nl.load(identity_np[p[:, None, ], k[None, :, ]])
  half_ptr = nl.ndarray(shape=[128, 64], dtype=nl.bfloat16, buffer=ncc.sbuf.mod_alloc(base_addr=1536))
  half_ptr[p[:, None, ], f[None, :, ]] = nisa.tensor_copy({X})
  sum_ptr = nl.ndarray(shape=[1, nl.par_dim(128), 64], dtype=np.float32, buffer={buffer})
  sum_ptr[0, p[:, None, ], f[None, :, ]] = 0.000000e+00
  for t in nl.sequential_range(3, body_no_reorder=True):
    sum_ptr[0, p[:, None, ], f[None, :, ]] += nisa.nc_matmul(id_ptr[p[:, None, ], k[None, :, ]],
                                                             half_ptr[p[:, None, ], f[None, :, ]])
  {Y} = nisa.tensor_copy(sum_ptr[0, p[:, None, ], f[None, :, ]])
"""


def half(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


#: Name -> (lines, what comes of x by NumPy, columns of the result, tolerance)
FORMS = {
    "load and store": (f"  {Y} = nisa.tensor_copy({X})\n", lambda x: x, 64, 0),
    "activation": (f"  {Y} = nisa.activation(op=nki.language.exp, data={X},bias=None, scale=5.000000e-01)\n",
                   lambda x: np.exp(x * 0.5), 64, 1e-5),
    "square root": (f"  {Y} = nisa.activation(op=nki.language.sqrt, data={X},bias=None, scale=1.000000e+00)\n",
                    np.sqrt, 64, 1e-5),
    "reciprocal": (f"  {Y} = nisa.reciprocal({X})\n", lambda x: 1 / x, 64, 1e-6),
    "two tensors": (f"  {Y} = nisa.tensor_tensor({X}, {X}, op=nki.language.multiply)\n", lambda x: x * x, 64, 0),
    "reversed scalar": (f"  {Y} = nisa.tensor_scalar({X}, operand0=1.000000e+00, op0=nki.language.subtract, "
                        "reverse0=True)\n", lambda x: 1 - x, 64, 0),
    "two scalars": (f"  {Y} = nisa.tensor_scalar(data={X}, operand0=2.000000e+00, op0=nki.language.multiply, "
                    "reverse0=False, operand1=3.000000e+00, op1=nki.language.add, reverse1=False)\n",
                    lambda x: x * 2 + 3, 64, 0),
    "scalar, tensor, tensor": (
        f"  {Y} = nisa.scalar_tensor_tensor(data={X}, operand0=2.000000e+00, op0=nki.language.multiply, "
        f"reverse0=False, operand1={X}, op1=nki.language.maximum, reverse1=False)\n", lambda x: np.maximum(2 * x, x),
        64, 0),
    "reduction": (f"  {FIRST} = nisa.tensor_reduce(data={X}, op=nki.language.maximum, negate=True, axis=[1])\n",
                  lambda x: -x.max(1, keepdims=True), 1, 0),
    "activation and reduction": (
        f"  zero_ptr = nl.ndarray(shape=[128, 1], dtype=np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=2048))\n"
        f"  zero_ptr[p[:, None, ], 0] = 0.000000e+00\n"
        f"  {Z} = nisa.activation_reduce(data={X}, op=nki.language.exp, reduce_op=nki.language.add, "
        f"reduce_res={FIRST}, bias=zero_ptr[p[:, None, ], 0], scale=1.000000e+00)\n",
        lambda x: np.exp(x).sum(1, keepdims=True), 1, 1e-5),
    "scalar and reduction": (
        f"  {Z} = nisa.tensor_scalar_reduce(data={X}, op0=nki.language.add, operand0=1.000000e+00, "
        f"reduce_op=nki.language.add, reduce_res={FIRST}, reverse0=False)\n",
        lambda x: (x + 1).sum(1, keepdims=True), 1, 1e-5),
    "selection": (f"  {Y} = nisa.affine_select(pred=(p[:, None, ] >= f[None, :, ]), on_true_tile={X}, "
                  "on_false_value=-math.inf)\n",
                  lambda x: np.where(np.arange(128)[:, None] >= np.arange(64), x, -math.inf), 64, 0),
    "mask": (f"  {Y} = 7.000000e+00\n  {Y} = nisa.tensor_copy({X}, mask=(f[None, :, ] < 10))\n",
             lambda x: np.where(np.arange(64) < 10, x, 7), 64, 0),
    "product, allocated": (product(PSUM[0]), lambda x: 3 * half(x), 64, 0),
    "product": (product(PSUM[1]), lambda x: 3 * half(x), 64, 0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_tvm_emits(form, tmp_path):
    lines, reference, columns, tolerance = FORMS[form]
    path = tmp_path / "emitted.py"
    path.write_text(HEAD.format(size=128 * columns, columns=columns) + lines + TAIL.format(columns=columns))
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    x = np.random.default_rng(5).uniform(0.25, 2, (128, 64)).astype(np.float32)
    y = np.zeros((128, columns), np.float32)
    returned = space["tile_kernel"](x, y)
    np.testing.assert_allclose(y, reference(x), rtol=tolerance)
    np.testing.assert_array_equal(returned, y)
