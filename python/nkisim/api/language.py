"""Implements nki.language: tensors, loops, program ids, and functions that become instructions."""

import builtins
import os
import sys

import numpy as np

from .. import _core, lowering
from ..isa import instructions as isa
from ..lowering import (broadcast_to, dropout, gather_flattened, load, load_transpose2d, matmul,
                        rms_norm, softmax, store, transpose, where)
from ..record.launch import nc, spmd_dim
from ..record.loop_state import OnceRecorded
from ..record.ordering import no_reorder
from ..record.operations import OPS
from ..record.recorder import current, state
from ..record.refusals import report_refused
from ..record.targets import default_target
from ..values import dtypes, grids, hostcast
from ..values.dtypes import (bfloat16, bool_, float4_e2m1fn_x4, float8_e3m4, float8_e4m3,
                             float8_e4m3fn, float8_e4m3fn_x4, float8_e5m2, float8_e5m2_x4,
                             float8_e8m0fnu, float16, float32, int8, int16, int32, int64, tfloat32, uint8,
                             uint16, uint32)
from ..values.errors import (KernelTypeError, KernelValueError, check_spelling, fail, fail_on, hint,
                             kernel_frame)
from ..values.findings import of_tracer
from ..values.grids import NkiBlockGrid, NkiGrid, NkiTileGrid, blocks, tiles
from ..values.index import arange, mgrid
from ..values.nkiobject import NKIObject
from ..values.optokens import TOKENS, token
from ..values.register import NkiScalar, VirtualRegister
from ..values.region import Region
from ..values.storage import Buffer, buffer_of, hbm, private_hbm, psum, sbuf, shared_hbm
from ..values.tensor import NkiTensor, ds, require_tensor
from ..values.views import plain_int

DType = dtypes.DType
MemoryRegion = Buffer
for _buffer in (sbuf, psum, hbm, private_hbm, shared_hbm):
    setattr(MemoryRegion, str(_buffer), _buffer)
tensor = NkiTensor
float8e4, float8e5 = float8_e4m3, float8_e5m2

_CALLED = ("all", "copy", "max", "mean", "min", "prod", "sum", "var")
for _name, _function in lowering.FUNCTIONS.items():
    globals()[_name] = token(_name, _function)
for _name, _op in TOKENS.items():
    globals().setdefault(_name, _op)
for _name in _CALLED:
    globals()[_name] = token(_name, getattr(lowering, _name))


class _Fp32:
    """nl.fp32: limits of float32."""

    min = float(np.finfo(np.float32).min)
    max = float(np.finfo(np.float32).max)


fp32 = _Fp32


class _TileSize:
    """nl.tile_size: limits of the target."""

    pmax = 128
    gemm_stationary_fmax = 128
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    @staticmethod
    def _machine():
        if state.recorder is not None:
            return state.recorder.machine
        return _core.machine(default_target(), os.environ.get("NKISIM_CONFIG", ""))

    @property
    def gemm_moving_fmax(self):
        return 512

    @property
    def psum_bank_fmax_bytes(self):
        return self._machine()["psum_partition_bytes"] // self._machine()["psum_banks"]

    @property
    def psum_bank_fmax(self):
        return self.psum_bank_fmax_bytes // 4

    psum_fmax = psum_bank_fmax

    @property
    def psum_num_banks(self):
        return self._machine()["psum_banks"]

    @property
    def sbuf_fmax_bytes(self):
        return self._machine()["sbuf_partition_bytes"]

    total_available_sbuf_size = sbuf_fmax_bytes

    @property
    def sbuf_size_bytes(self):
        return 128 * self.sbuf_fmax_bytes

    @property
    def sbuf_fmax(self):
        return self.sbuf_fmax_bytes // 4


tile_size = _TileSize()


def is_hbm(buffer):
    """True if a buffer or the name of one is in HBM."""
    return buffer_of(buffer).space == 0


def is_sbuf(buffer):
    """True if a buffer or the name of one is SBUF."""
    return buffer_of(buffer).space == 1


def is_psum(buffer):
    """True if a buffer or the name of one is PSUM."""
    return buffer_of(buffer).space == 2


def is_on_chip(buffer):
    """True if a buffer or the name of one is SBUF or PSUM."""
    return buffer_of(buffer).space != 0


class ParDim(int):
    """The size that nl.par_dim gives, which remembers that it was marked."""


def par_dim(size):
    """The size itself: since NKI 0.1 the first dimension on chip is the partition dimension."""
    hint("nl.par_dim is of neuronxcc.nki; since NKI 0.1 the first dimension on chip is the "
         "partitions, and the size alone says the same")
    return ParDim(plain_int(size, "the size of nl.par_dim"))


# ---- tensors ---------------------------------------------------------------------------------
def _shape(shape):
    if isinstance(shape, int):
        return (shape,)
    if any(type(s) is ParDim for s in shape[1:]):
        fail("legacy_dimensions",
             "nl.par_dim marks another dimension than the first; since NKI 0.1 the first dimension "
             "on chip is always the partitions, and a dimension before it (a block dimension) is a "
             "Python list of tensors", "ndarray", KernelValueError)
    try:
        return tuple([s if type(s) is int else s.__index__() for s in shape])
    except (TypeError, AttributeError):
        fail_on("tensor_shape", "shape", repr(shape), "a tuple of integers", "ndarray",
                KernelTypeError)


def _float32(call):
    """The dtype where a kernel gives none, which is reported."""
    report_refused("dtype_missing", call=call)
    return float32


def ndarray(shape, dtype=None, buffer=sbuf, name="", address=None, **_ignored):
    """A tensor whose values are not written yet; on chip the first dimension is the partitions.

    `address` is (partition, byte), in HBM (byte,); without one the compiler places the tensor. `buffer` may be a
    nl.Region: then the tensor is a view of its bytes. `...` stands for nl.sbuf.
    """
    if _ignored:
        check_spelling(_ignored)
    if buffer is ...:
        buffer = sbuf
    if dtype is None:
        dtype = _float32("ndarray")
    if isinstance(buffer, Region):
        return buffer.view(dtype, _shape(shape), name)
    return current().ndarray(_shape(shape), dtypes.resolve(dtype), buffer or sbuf, name or "",
                             address)


def full(shape, fill_value, dtype=None, buffer=sbuf, name=""):
    """A tensor with every element `fill_value`; on chip by memset."""
    out = ndarray(shape, dtype or _float32("full"), buffer, name)
    lowering.fill(out, fill_value)
    return out


def zeros(shape, dtype=None, buffer=sbuf, name="", **_ignored):
    """A tensor of zeros."""
    if _ignored:
        check_spelling(_ignored)
    return full(shape, 0, dtype or _float32("zeros"), buffer, name)


def ones(shape, dtype=None, buffer=sbuf, name=""):
    """A tensor of ones."""
    return full(shape, 1, dtype or _float32("ones"), buffer, name)


def zeros_like(x, dtype=None, buffer=None, name=""):
    """Zeros with the shape of `x`, and its dtype and buffer unless others are given."""
    require_tensor(x, "x", "zeros_like")
    return full(x.shape, 0, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name="", *, transpose_axes=None, address=None):
    """An unwritten tensor or grid with the geometry of `x`, and its dtype and buffer unless others are
    given. A grid's gaps are left out. transpose_axes: an SBUF destination of a later dma_transpose."""
    if not isinstance(x, NkiGrid):
        require_tensor(x, "x", "empty_like")
    buffer, dtype = buffer_of(buffer or x.buffer), dtype or x.dtype

    def allocate(shape):
        return ndarray(shape, dtype, buffer, name, address)

    if transpose_axes is not None and buffer is not sbuf:
        fail_on("operand_memory", "buffer", buffer, "nl.sbuf with transpose_axes", "empty_like",
                KernelValueError)
    if isinstance(x, NkiGrid):
        made = grids.like(x, allocate, transpose_axes, buffer.space != 0)
        extent = made.tile_shape[0]
    else:
        shape = x.shape if transpose_axes is None else grids.transposed(x.shape, transpose_axes, x.ndim)
        made, extent = None, shape[0]
    if transpose_axes is not None and extent > tile_size.pmax:
        fail_on("tensor_partitions", "the free extent that becomes the partitions", extent,
                f"at most {tile_size.pmax}", "empty_like", KernelValueError)
    return allocate(shape) if made is None else made


def _grid_buffer(buffer, call):
    if not isinstance(buffer, Buffer):
        fail_on("unknown_buffer", "buffer", repr(buffer), "a MemoryRegion", call, KernelTypeError)
    return buffer.space != 0


def alloc_tiles(*, tile_shape, element_shape, buffer, dtype, address=None, name=""):
    """A new grid of tiles: in HBM the elements as in any tensor, on chip tile behind tile, each with the
    space of a whole one."""
    on_chip = _grid_buffer(buffer, "alloc_tiles")
    return grids.alloc_tiles(lambda shape: ndarray(shape, dtype, buffer, name, address), tile_shape,
                             element_shape, on_chip)


def alloc_blocks(*, tile_shape, block_shape, element_shape, buffer, dtype, address=None, name=""):
    """The same, by blocks of `block_shape` tiles, which do not change the order of the tiles."""
    on_chip = _grid_buffer(buffer, "alloc_blocks")
    return grids.alloc_blocks(lambda shape: ndarray(shape, dtype, buffer, name, address), tile_shape,
                              block_shape, element_shape, on_chip)


def rand(shape, dtype=float32, buffer=sbuf, name=""):
    """A tensor of uniform random numbers in [0, 1)."""
    out = ndarray(shape, dtype, buffer, name)
    lowering.random_fill(out)
    return out


def random_seed(seed):
    """Seeds the generators behind rand and dropout: an integer or a [P, 1] tensor of int32."""
    if not isinstance(seed, NkiTensor):
        report_refused("seed_of_number")
        seed = full((1, 1), plain_int(seed, "seed"), dtype=int32)
    isa.set_rng_seed(seed)


def shared_constant(constant, dtype=None):
    """A tensor in HBM with the values of an array, or of the .npy file of that name."""
    if isinstance(constant, str):
        constant = np.load(constant)
    array = np.asarray(constant)
    if dtype is not None:
        array = array.astype(dtypes.resolve(dtype).dtype)
    if array.ndim == 0:
        array = array.reshape(1)
    return current().constant(array, "constant")


def shared_identity_matrix(n, dtype=uint8, dst=None):
    """The n x n identity matrix in SBUF, in `dst` if one is given."""
    n, dtype = plain_int(n, "n"), dtypes.resolve(dtype)
    if not 1 <= n <= tile_size.pmax:
        fail_on("argument_value", "n", n, "1 to 128", "shared_identity_matrix", KernelValueError)
    identity = shared_constant(np.eye(n, dtype=np.float32).astype(dtype.dtype))
    out = ndarray((n, n), dtype, sbuf, "identity") if dst is None else dst
    lowering.copy_into(out, identity)
    return out


def expand_dims(x, axis):
    """The view of `x` with dimensions of size 1 at `axis`, an integer or several."""
    require_tensor(x, "x", "expand_dims")
    axes = axis if isinstance(axis, (list, tuple)) else (axis,)
    n = x.ndim + len(axes)
    for a in sorted(a if a >= 0 else a + n for a in (plain_int(a, "axis") for a in axes)):
        x = x.expand_dim(a)
    return x


def static_cast(x, dtype):
    """A cast: of a host array on the host, of a tile on the device."""
    if isinstance(x, NkiTensor):
        return lowering.copy(x, dtype=dtype)
    return hostcast.static_cast(x, dtypes.resolve(dtype))


def device_print(print_prefix, tensor):
    """Prints a tensor when the simulated program comes to this place."""
    recorder = current()
    if "device_print" in OPS:
        names = OPS["device_print"][1]
        prefix = next((n for n in names if "prefix" in n), "print_prefix")
        recorder.call("device_print", **{prefix: str(print_prefix), "tensor": tensor})
    else:
        recorder.print(f"{print_prefix} {tensor.numpy()}")


# ---- loops and identity ----------------------------------------------------------------------
def _range(start, stop=None, step=1):
    """A loop: unrolled with integer bounds, of the device where a bound is a register."""
    if stop is None:
        start, stop = 0, start
    if isinstance(start, VirtualRegister) or isinstance(stop, VirtualRegister):
        return dynamic_range(start, stop, step)
    return builtins.range(_bound(start), _bound(stop), _bound(step))


def _bound(value):
    try:
        return value.__index__()
    except (TypeError, AttributeError):
        fail_on("loop_bound", "a loop bound", repr(value), "an integer or a register",
                kind=KernelTypeError)


def affine_range(start, stop=None, step=1, **_ignored):
    """A loop without dependences between iterations; iterations are recorded one after the other."""
    if _ignored:
        check_spelling(_ignored)
    return _range(start, stop, step)


def sequential_range(start, stop=None, step=1, **_ignored):
    """A loop whose iterations depend on each other."""
    if _ignored:
        check_spelling(_ignored)
    return _range(start, stop, step)


def static_range(start, stop=None, step=1, **_ignored):
    """A loop that is unrolled: its index is a Python integer."""
    if _ignored:
        check_spelling(_ignored)
    return _range(start, stop, step)


range = _range


def dynamic_range(start, stop=None, step=1):
    """A loop of the device: bounds may be registers, the index is one; the body is recorded once."""
    if stop is None:
        start, stop = 0, start
    of_tracer("nl.dynamic_range is a TypeError of the tracer of SDK 2.33 (documented); use nl.fori_loop, or "
              "NKI_COMPILER_FRONTEND=custom until the next release")
    return _dynamic_range(start, stop, step, "dynamic_range")


def _dynamic_range(start, stop, step, call):
    if isinstance(step, VirtualRegister) or _bound(step) < 1:
        fail_on("argument_value", "step", repr(step), "a positive integer", call,
                KernelValueError)
    return _dynamic(start, stop, _bound(step))


def _dynamic(start, stop, step):
    recorder = current()
    loop = recorder.loops.run(start, stop, step)
    register = next(loop)
    finished, before = False, OnceRecorded()
    try:
        yield register
        before.compare()
        finished = True
    finally:
        if not finished and recorder is state.recorder:
            _refuse_break(recorder)
    recorder.loops.close("for", register)


def _refuse_break(recorder):
    """Notes where a loop was left; the generator is being finalised, so raising is in vain."""
    frame = kernel_frame()
    if sys.exc_info()[0] in (None, GeneratorExit) and frame is not None:
        recorder.loops.left = recorder.loops.left or (frame.f_code.co_filename, frame.f_lineno)


def _check_body(body_fun, call):
    if not callable(body_fun):
        fail_on("python_value", "body_fun", type(body_fun).__name__, "a function of the loop's register", call,
                KernelTypeError)


def fori_loop(lower, upper, body_fun, step=1):
    """Runs body_fun(i) on the device for i from lower to upper. i is a scalar unless a bound is a virtual
    register, which i is then, too; a bound that is a scalar has 32 bits."""
    for what, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, NkiScalar) and bound.usable(what).dtype != int32:
            fail_on("register_arithmetic", what, f"a scalar of {bound.dtype}", "one of int32", "fori_loop",
                    KernelTypeError)
    _check_body(body_fun, "fori_loop")
    scalars = VirtualRegister not in (type(lower), type(upper))
    lower, upper = (b.register() if isinstance(b, NkiScalar) else b for b in (lower, upper))
    for i in _dynamic_range(lower, upper, step, "fori_loop"):
        body_fun(NkiScalar(current(), i.id, int32) if scalars else i)


def while_loop(init, body_fun):
    """Runs body_fun(register) on the device while the register, first `init`, is not zero."""
    recorder = current()
    if callable(init):
        fail_on("python_value", "init", "a function", "an integer or a register: body_fun(register) runs while it is "
                "not zero, and gives its next value,", "while_loop", KernelTypeError)
    _check_body(body_fun, "while_loop")
    condition = recorder.register()
    isa.register_move(condition, init)
    recorder.loops.enter("while_loop")
    recorder.loops.begin_while("while", condition)
    before = OnceRecorded()
    after = body_fun(condition)
    before.compare()
    if isinstance(after, VirtualRegister) and after is not condition:
        isa.register_move(condition, after)
    recorder.loops.close("while", condition)


def program_id(axis=0):
    """Position of this program on an axis of the launch grid."""
    ids = current().program_ids
    if axis == 0 and not ids:
        return 0
    if not 0 <= axis < len(ids):
        fail("grid_axis",
             f"axis is {axis}; the launch grid has {len(ids)} axes", "program_id",
             KernelValueError)
    return ids[axis]


def num_programs(axes=0):
    """Programs on an axis of the launch grid, on several, or with None in all."""
    grid = current().grid
    if axes is None:  # the default until NKI 0.2
        return int(np.prod(grid)) if grid else 1
    if isinstance(axes, (list, tuple)):
        return tuple(num_programs(a) for a in axes)
    if axes == 0 and not grid:
        return 1
    if axes >= len(grid):
        fail("grid_axis",
             f"axes is {axes}; the launch grid has {len(grid)} axes", "num_programs",
             KernelValueError)
    return grid[axes]


def program_ndim():
    """Number of axes of the launch grid."""
    return len(current().grid)


#: nki.language: element-wise functions, operators of instructions, and what is named here.
__all__ = [
    *lowering.FUNCTIONS, *TOKENS, *_CALLED,
    # tensors and what is in them
    "NkiBlockGrid", "NkiGrid", "NkiTensor", "NkiTileGrid", "alloc_blocks", "alloc_tiles", "arange",
    "blocks", "broadcast_to", "device_print", "dropout", "ds", "empty_like",
    "expand_dims", "full", "gather_flattened", "load", "load_transpose2d", "matmul", "mgrid",
    "ndarray", "ones", "par_dim", "rand", "random_seed", "rms_norm", "shared_constant",
    "shared_identity_matrix", "softmax", "static_cast", "store", "tensor", "tiles", "transpose", "where",
    "zeros", "zeros_like",
    # memories
    "MemoryRegion", "hbm", "is_hbm", "is_on_chip", "is_psum", "is_sbuf", "private_hbm", "psum", "sbuf",
    "shared_hbm", "tile_size",
    # loops and programs
    "NKIObject", "VirtualRegister", "affine_range", "dynamic_range", "fori_loop", "nc", "no_reorder",
    "num_programs", "program_id", "program_ndim", "range", "sequential_range", "spmd_dim",
    "static_range", "while_loop",
    # dtypes
    "DType", "bfloat16", "bool_", "float16", "float32", "float4_e2m1fn_x4", "float8_e3m4",
    "float8_e4m3", "float8_e4m3fn", "float8_e4m3fn_x4", "float8_e5m2", "float8_e5m2_x4",
    "float8_e8m0fnu", "float8e4", "float8e5", "fp32", "int16", "int32", "int64", "int8", "tfloat32", "uint16",
    "uint32", "uint8"]
