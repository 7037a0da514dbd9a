"""Implements nki.isa: each call adds one instruction to the kernel's program.

Most functions are generated from the signature table below; the arguments go to the extension
module in the order of the core's op description, which checks them. Only calls whose spelling the
core does not know (axes, defaults) are written out. Spellings of older releases: nkisim/compat.
"""

import sys

from .. import _core
from .._core import emit
from ..record.operations import EXACT, OPS
from ..record.recorder import current, state
from ..record.refusals import report_refused as call_refused
from ..record.targets import default_target, generation_of
from ..values import enums
from ..values.dtypes import resolve
from ..values.enums import (dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode,
                            reduce_cmd)
from ..values.errors import Error, KernelTypeError, KernelValueError, fail, fail_on, hint, is_ours, sdk, short
from ..values.findings import strict as refused
from ..values.geometry import reshape_strides
from ..values.nkiobject import NKIObject
from ..values.optokens import OPERATORS
from ..values.register import NkiScalar, VirtualRegister  # noqa: F401 (importable from nki.isa)
from ..values.storage import PSUM, SBUF, shared_hbm
from ..values.tensor import NkiTensor, require_tensor
from ..values.views import plain_int
from .help import describe as _describe

NkiValidationError = Error
tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, sync_engine, unknown_engine = engine.gpsimd, engine.sync, engine.unknown


#: The value of a call: `later.depends_on(earlier, ...)` lets it start when the others have completed.
NkiInstruction = _core.NkiInstruction
INSTRUCTION = _core.NO_INSTRUCTION  # of a call that records nothing

_SIGNATURES = """
tensor_copy(dst, src, engine=engine.unknown, name=None)
tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None)
nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, tile_size=None, accumulate=None, name=None)
nc_transpose(dst, data, engine=engine.unknown, name=None)
tensor_tensor(dst, data1, data2, op, engine=engine.unknown, name=None)
tensor_scalar(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, engine=engine.unknown, name=None)
tensor_partition_reduce(dst, op, data, name=None)
tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, name=None)
activation(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None)
activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None)
activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None)
iota(dst, pattern, offset=0, channel_multiplier=0, name=None)
local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None)
nc_n_gather(dst, data, indices, name=None)
bn_stats(dst, data, name=None)
bn_aggr(dst, data, name=None)
tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None)
nc_stream_shuffle(dst, src, shuffle_mask, name=None)
rng(dst, engine=engine.vector, name=None)
dropout(dst, data, prob, name=None)
set_rng_seed(src_seeds, name=None)
rand_set_state(src_seeds, engine=engine.gpsimd, name=None)
rand_get_state(dst, engine=engine.gpsimd, name=None)
rand2(dst, min, max, name=None)
exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_init=0.0, name=None)
reciprocal(dst, data, name=None)
max8(dst, src, name=None)
sequence_bounds(dst, segment_ids, name=None)
scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, reduce_cmd=reduce_cmd.reset_reduce, reduce_op=None, reduce_res=None, name=None)
tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False, reduce_cmd=reduce_cmd.reset_reduce, reduce_init=None, reduce_res_negate=False, name=None)
quantize_mx(dst, src, dst_scale, name=None)
range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.reset_reduce, reduce_res=None, reduce_op=maximum, range_start=0, on_false_value=None, name=None)
select_reduce(dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_op=maximum, reverse_pred=False, name=None)
nc_find_index8(dst, data, vals, name=None)
nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None)
nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None)
topk(val_dst, idx_dst, src, n, sorted=False, name=None)
"""

_IGNORED = {"name", "engine", "priority"}  # no effect on values where the core does not take them


def unsupported(op, key, value):
    """Raises the error for an argument that this version does not simulate."""
    fail("operator_not_taken", f"{key}={value!r} is not supported", op, KernelValueError)


def removed(op, dst, dtype, mask):
    """dtype= and mask= of older versions: the destination's dtype decides in any case."""
    if mask is not None:
        fail("unsupported_call",
             "mask= was removed in NKI 0.2; slice the operands", op, KernelValueError)
    resolve(dtype)


def _missing(name):
    def call(*_args, **_kwargs):
        current()
        fail("unsupported_call", f"{name} is not supported by this version of nkisim", name)

    call.__name__ = name
    return call


def define(signature, namespace, target_name=None):
    """The function for one line of the table above."""
    name, rest = signature.split("(", 1)
    names = [p.split("=")[0].strip() for p in rest.rstrip(")").split(",")]
    defaults = dict((p.split("=")[0].strip(), p.split("=", 1)[1].strip())
                    for p in rest.rstrip(")").split(",") if "=" in p)
    if name not in OPS:
        return _missing(name)
    number, params = OPS[name]
    takes_engine = "engine" in names
    lines = [f"def {target_name or name}({rest.rstrip(')')}, *, dtype=None, mask=None):",
             f"    if dtype is not None or mask is not None: removed({name!r}, "
             f"{names[0]}, dtype, mask)"]
    for p in names:
        if p not in params and p not in _IGNORED:
            default = defaults.get(p, "None")
            lines.append(f"    if {p} is not {default} and {p} != {default}: "
                         f"unsupported({name!r}, {p!r}, {p})")
    values = ", ".join(p if p in names else "None" for p in params)
    lines.append(f"    return emit({number}, {name in EXACT}, {'engine' if takes_engine else 'None'}, name, {values})")
    scope = dict(namespace, emit=emit, unsupported=unsupported, removed=removed)
    exec(compile("\n".join(lines), f"<nkisim isa {name}>", "exec"), scope)
    return scope[target_name or name]


_names = {"engine": engine, "reduce_cmd": reduce_cmd, "dge_mode": dge_mode, "oob_mode": oob_mode,
          "maximum": OPERATORS["maximum"]}
for _line in _SIGNATURES.strip().splitlines():
    globals()[_line.split("(")[0]] = define(_line, _names)


_plain_matmul_mx = globals()["nc_matmul_mx"]
_plain_copy_predicated = globals()["tensor_copy_predicated"]


def tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None, *, dtype=None, mask=None):
    if isinstance(src, (int, float)) and isinstance(dst, NkiTensor) and \
            str(dst.dtype).startswith(("int", "uint")) == isinstance(src, float):
        call_refused("scalar_of_another_kind", src=repr(src), dst=dst.dtype,
                     kind="int" if isinstance(src, float) else "float")
    return _plain_copy_predicated(dst, src, predicate, reverse_pred, name, dtype=dtype, mask=mask)


def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None,
                 tile_size=None, accumulate=None, name=None):
    if accumulate is None:
        accumulate = _accumulates(dst)
    return _plain_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position,
                            tile_size, accumulate, name)


_plain_scalar_tensor_tensor = globals()["scalar_tensor_tensor"]


def scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False,
                         reduce_cmd=reduce_cmd.reset_reduce, reduce_op=None, reduce_res=None, name=None):
    if reduce_res is not None and reduce_op is None:
        reduce_op = OPERATORS["add"]  # the page shows no default (assumed)
    return _plain_scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0, reverse1,
                                       None if reduce_op is None else reduce_cmd, reduce_op, reduce_res, name)


def get_nc_version():
    """The generation of the target, ordered: get_nc_version() >= nc_version.gen3."""
    if state.recorder is not None:
        generation = state.recorder.generation
    else:
        generation = generation_of(default_target())
    return nc_version.members[f"gen{generation}"]


def get_nc_sub_version():
    """Sub-version of the NeuronCore: 0 for every simulated target."""
    return 0


# ---- tensor engine ---------------------------------------------------------------------------
_PERF_ALIASES = {"double_row_gen3": "double_row", "double_row": "double_row", "none": "none",
                 None: "none", "": "none"}


def _accumulates(dst):
    """The meaning of accumulate=None for a matmul: in a dynamic loop it may always have to add."""
    recorder = state.recorder
    return recorder.loops.adds(dst) if recorder is not None and recorder.loops.open else None


def nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False,
              is_transpose=False, accumulate=None, tile_position=(), tile_size=(),
              perf_mode=matmul_perf_mode.none, name=None):
    perf = None if perf_mode is _NO_MODE or perf_mode is None else _perf(perf_mode)
    if accumulate is None and not is_transpose:  # _accumulates, without the call
        recorder = state.recorder
        if recorder is not None and recorder.loops.open:
            accumulate = recorder.loops.adds(dst)
    return emit(_MATMUL, perf is not None, None, name, dst, stationary, moving, is_stationary_onezero,
                is_moving_onezero, is_transpose, accumulate, tile_position or None, tile_size or None, perf)


_NO_MODE = matmul_perf_mode.none
_MATMUL, _MATMUL_PARAMS = OPS.get("nc_matmul", (-1, ()))
assert _MATMUL_PARAMS in ((), (
    "dst", "stationary", "moving", "is_stationary_onezero", "is_moving_onezero", "is_transpose",
    "accumulate", "tile_position", "tile_size", "perf_mode"))


def _perf(mode):
    name = getattr(mode, "name", mode)
    name = _PERF_ALIASES.get(name, name)
    return None if name == "none" else name


if _MATMUL < 0:
    nc_matmul = _missing("nc_matmul")


# ---- vector engine ---------------------------------------------------------------------------
def normalise_axes(axis, ndim, what="tensor_reduce"):
    """Axes as a list of non-negative integers, checked against `ndim`."""
    only = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
    if type(only) is int and -ndim <= only < ndim:  # nearly always
        return [only % ndim]
    axes = [plain_int(a, "axis") for a in (axis if isinstance(axis, (list, tuple)) else (axis,))]
    out = sorted({a + (ndim if a < 0 else 0) for a in axes})
    if not out or out[0] < 0 or out[-1] >= ndim:
        fail_on("axes", "axis", repr(axis), f"dimensions 1 to {ndim - 1} of the tile", what,
                KernelValueError, verb="are")
    return out


_REDUCE, _REDUCE_PARAMS = OPS["tensor_reduce"]
_MEMSET, _MEMSET_PARAMS = OPS["memset"]
assert _REDUCE_PARAMS == ("dst", "op", "data", "axis", "negate", "keepdims")
assert _MEMSET_PARAMS == ("dst", "value")


def tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None):
    require_tensor(data, "data", "tensor_reduce")
    axes = normalise_axes(axis, data.ndim)
    if axes[0] == 0:
        fail_on("axes", "axis", f"{axis!r}, which includes the partition dimension 0",
                "free dimensions", "tensor_reduce", KernelValueError, verb="are")
    n = len(axes)
    if axes[-1] != data.ndim - 1 or axes[0] != data.ndim - n:
        if sdk() >= 29 and not is_ours(sys._getframe(1).f_code):  # NKI 0.2 counted axes otherwise
            fail_on("axes", "axis", f"{axis!r} of {data!r}", "the last free dimensions (documented), such as those of "
                    "data.permute(...)", "tensor_reduce", KernelValueError, verb="are")
        rest = [d for d in range(data.ndim) if d not in axes]
        data = data.permute(rest + axes)
        axes = list(range(data.ndim - n, data.ndim))
    return emit(_REDUCE, True, None, name, dst, op, data, axes, negate, None)


def memset(dst, value, engine=engine.unknown, name=None):
    require_tensor(dst, "dst", "memset")
    # Zero is the same bits in every dtype: AWS's own kernels write 0.0.
    if (isinstance(value, float) and value != 0 and dst.dtype.startswith(("int", "uint"))
            and not is_ours(sys._getframe(1).f_code)):
        refused(f"memset: value is {value}, a float, and dst is {dst!r}; an integer is required "
                "(documented)", 29)
    made = emit(_MEMSET, False, engine, name, dst, value)
    if dst.st.space == PSUM:
        dst.st.zeroed_at = len(current().program) - 1
    return made


def affine_select(dst, pattern, channel_multiplier=None, on_true_tile=None, on_false_value=None,
                  cmp_op=OPERATORS["equal"], offset=0, name=None):
    return current().call("affine_select", None, name, dst=dst, pattern=pattern, offset=offset,
                          channel_multiplier=channel_multiplier or 0, on_true_tile=on_true_tile,
                          on_false_value=on_false_value, cmp_op=cmp_op)


# ---- DMA -------------------------------------------------------------------------------------
def dma_shapes(a, b):
    """The two sides of a copy with equal rows where one side is on chip and views allow it."""
    if not a.st.on_chip and not b.st.on_chip:
        return a, b
    if not a.st.on_chip:
        return _rows(a, b.shape[0]), b
    if not b.st.on_chip:
        return a, _rows(b, a.shape[0])
    return a, b


def _rows(hbm, rows):
    """An HBM view whose first dimension is `rows`, if its layout allows that."""
    shape = hbm.shape
    if shape[0] == rows and len(shape) > 1:
        return hbm
    if hbm.dyn is not None and any(e[0] == "vector" for e in hbm.dyn):
        return hbm
    n, at = 1, 0
    while at < len(shape) and n < rows:
        n *= shape[at]
        at += 1
    total = hbm.size
    if rows < 1 or total % rows:
        return hbm
    new = (rows,) + shape[at:] if n == rows and at > 0 else (rows, total // rows)
    if n == rows and at == 0:
        new = (1,) + shape
    strides = reshape_strides(shape, hbm.strides, new)
    if strides is None:
        return hbm
    return hbm._like(hbm.part, hbm.off, new, strides)


def dma_copy(dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown,
             engine=engine.unknown, name=None, dst_rmw_op=None, unique_indices=None):
    if type(dst) is not NkiTensor or type(src) is not NkiTensor:
        wrong = "dst" if type(dst) is not NkiTensor else "src"
        fail_on("tensor_required", wrong, short(dst if wrong == 'dst' else src), "a tensor",
                "dma_copy", KernelTypeError)
    if engine is not _ANY_ENGINE and enums.ENGINE_CODES.get(engine, 5) != 5 and dge_mode != enums.dge_mode.hwdge:
        fail("engine_operand",
             f"engine is {engine!r} with dge_mode {dge_mode!r}; engine= needs dge_mode.hwdge",
             "dma_copy", KernelValueError)
    if dst_rmw_op is not None:
        if _default(oob_mode, 0) is not None:
            fail_on("argument_value", "oob_mode", f"{oob_mode!r} with dst_rmw_op", "oob_mode.error",
                    "dma_copy", KernelValueError)
        return dma_compute(dst, [src, dst], dst_rmw_op, unique_indices=True, oob_mode=oob_mode,
                           name=name)
    if dst.st.space != src.st.space or dst.shape != src.shape:
        if dst.shape[0] != src.shape[0] or len(dst.shape) < 2 or len(src.shape) < 2:  # else nothing changes
            if dst.shape == src.shape[::-1] and 1 not in dst.shape:
                hint(f"src is of shape {src.shape} and dst of {dst.shape}: the elements keep their order, which is no "
                     f"transpose; nisa.dma_transpose, or dst.reshape({src.shape}), is required")
            dst, src = dma_shapes(dst, src)
    elif dst is src and dst.dyn is None:
        return INSTRUCTION  # onto itself: nothing moves
    return emit(_DMA, False, engine, name, dst, src, priority,
                None if oob_mode is _OOB_ERROR else _default(oob_mode, 0),
                None if dge_mode is _DGE_UNKNOWN else _default(dge_mode, 0))


_OOB_ERROR, _DGE_UNKNOWN, _ANY_ENGINE = oob_mode.error, dge_mode.unknown, engine.unknown
_DMA, _DMA_PARAMS = OPS.get("dma_copy", (-1, ()))
assert _DMA_PARAMS in ((), ("dst", "src", "priority", "oob_mode", "dge_mode"))
if _DMA < 0:
    dma_copy = _missing("dma_copy")


def _default(value, default):
    return None if value is None or value == default else value


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown,
                  oob_mode=oob_mode.error, name=None):
    if len(dst.shape) != len(src.shape):
        refused(f"dma_transpose: dst has {len(dst.shape)} dimensions and src {len(src.shape)}; "
                "equal ranks are required (documented)", 30)
    return current().call("dma_transpose", None, name, True, dst=dst, src=src,
                          axes=None if axes is None else list(axes), dge_mode=_default(dge_mode, 0),
                          oob_mode=_default(oob_mode, 0))


def dma_compute(dst, srcs, reduce_op=None, scales=None, unique_indices=True,
                oob_mode=oob_mode.error, name=None):
    for operand, value in (("dst", dst), *(("srcs", s) for s in srcs)):
        require_tensor(value, operand, "dma_compute")
    rows = dst.shape[0] if dst.st.on_chip else None
    for s in srcs:
        rows = s.shape[0] if rows is None and s.st.on_chip else rows
    if rows is not None:
        dst = dst if dst.st.on_chip else _rows(dst, rows)
        srcs = [s if s.st.on_chip else _rows(s, rows) for s in srcs]
    return current().call("dma_compute", None, name, dst=dst, srcs=list(srcs), reduce_op=reduce_op,
                          scales=None if scales is None else _scales(scales),
                          unique_indices=None if unique_indices is True else unique_indices,
                          oob_mode=_default(oob_mode, 0))


def _scales(scales):
    if any(float(s) != 1.0 for s in scales):
        fail_on("argument_value", "scales", list(scales), "1.0 for every source", "dma_compute",
                KernelValueError)
    return None


# ---- cores -----------------------------------------------------------------------------------
def core_barrier(data, cores=(0, 1), engine=engine.gpsimd, name=None):
    if isinstance(data, NkiTensor) and data.st.space == SBUF:
        # nki-library does it and compiles, so that it is no finding of --strict.
        hint(f"core_barrier: data is {data!r}; data in shared HBM is required (documented). "
             "Here the cores meet, and each waits for its own accesses to the tile, as kernels of "
             "nki-library expect")
    made = current().call("core_barrier", engine, name, data=data, cores=list(cores))
    current().instances.pause(meeting=True)
    return made


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id=0, dma_engine=dma_engine.dma, name=None):
    made = current().call("sendrecv", None, name, src=src, dst=dst, send_to_rank=send_to_rank,
                          recv_from_rank=recv_from_rank, pipe_id=pipe_id,
                          dma_engine=_default(dma_engine, 1))
    current().instances.pause(meeting=True)
    return made


def sendrecv_compute(src, dst, send_to_rank, recv_from_rank, reduce_op, name=None):
    for operand, tensor in (("src", src), ("dst", dst)):
        require_tensor(tensor, operand, "sendrecv_compute")
        if tensor.st.buffer is shared_hbm:
            fail_on("operand_memory", operand, "in nl.shared_hbm", "SBUF or nl.private_hbm", "sendrecv_compute",
                    KernelValueError)
    recorder = current()
    if recorder.instances.cores != 2:
        fail_on("core_deadlock", "sendrecv_compute", "in a program of one core", "two cores (LNC 2)", "sendrecv_compute",
                KernelValueError)
    made = recorder.call("sendrecv_compute", None, name, src=src, dst=dst, send_to_rank=send_to_rank,
                         recv_from_rank=recv_from_rank, reduce_op=reduce_op)
    recorder.instances.pause(meeting=True)
    return made


# ---- registers -------------------------------------------------------------------------------
def register_alloc(x=None):
    recorder = current()
    register = recorder.register()
    if isinstance(x, NkiTensor):
        recorder.call("register_alloc", dst=register)
        recorder.call("register_load", dst=register, src=x)
    else:
        recorder.call("register_alloc", dst=register, x=x)
    return register


def register_move(dst, src):
    return current().call("register_move", dst=dst, src=src)


def register_load(dst, src):
    return current().call("register_load", dst=dst, src=src)


def register_store(dst, src):
    return current().call("register_store", dst=dst, src=src)


# ---- scalars ---------------------------------------------------------------------------------
def scalar_load(src):
    """The integer in a 1x1 tensor of int32 or int64 as a scalar of the device, of the same width."""
    require_tensor(src, "src", "scalar_load")
    _check_scalar_tile("src", src, "scalar_load")
    recorder = current()
    made = NkiScalar(recorder, recorder.register().id, src.dtype)
    recorder.call("scalar_load", dst=made.register(), src=src)
    return made


def scalar_store(dst, value):
    """Writes a scalar of the device to a 1x1 tensor of its width."""
    require_tensor(dst, "dst", "scalar_store")
    _check_scalar_tile("dst", dst, "scalar_store")
    if not isinstance(value, NkiScalar):
        fail_on("register_arithmetic", "value", f"{value!r}", "an NkiScalar (a constant: nisa.memset)",
                "scalar_store", KernelTypeError)
    if dst.dtype != value.usable("value").dtype:
        fail_on("register_arithmetic", "value", f"a scalar of {value.dtype} and dst {dst.dtype}", "one width",
                "scalar_store", KernelTypeError)
    current().call("scalar_store", dst=dst, value=value.register())


def _check_scalar_tile(operand, tile, call):
    if tile.dtype not in ("int32", "int64"):
        fail_on("operand_dtype", operand, f"{tile.dtype}", "int32 or int64", call, KernelTypeError)
    if tile.st.narrowed:
        fail_on("operand_dtype", operand, "an argument of several integers of 64 bits, which are narrowed to 32",
                "an array of int32, or of one int64", call, KernelTypeError)
    if tile.size != 1:
        fail_on("operand_size", operand, repr(tile), "a 1x1 tensor", call, KernelValueError)


_describe(globals())
__all__ = [
    *(_line.split("(")[0] for _line in _SIGNATURES.strip().splitlines()),
    "NKIObject", "NkiInstruction", "NkiScalar", "NkiTensor", "NkiValidationError", "VirtualRegister",
    "affine_select", "core_barrier", "dge_mode", "dma_compute", "dma_copy", "dma_engine",
    "dma_transpose", "engine", "get_nc_sub_version", "get_nc_version", "gpsimd_engine",
    "matmul_perf_mode", "memset", "nc_matmul", "nc_version", "oob_mode", "reduce_cmd",
    "register_alloc", "register_load", "register_move", "register_store", "scalar_engine", "scalar_load",
    "scalar_store", "sendrecv", "sendrecv_compute",
    "sync_engine", "tensor_engine", "tensor_reduce", "unknown_engine", "vector_engine"]
