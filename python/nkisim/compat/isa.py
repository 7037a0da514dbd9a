"""Accepts nki.isa calls in the argument positions and keywords of older releases: each function sorts its arguments
and calls the current function of its name. Kernels call these; the front end calls the current ones."""

from ..isa import instructions as isa
from ..isa.help import describe as _describe
from ..values import enums
from ..values.enums import Choice, dge_mode, dma_engine, engine, matmul_perf_mode, oob_mode
from ..values.optokens import OPERATORS
from ..values.tensor import NkiTensor

__all__ = ["affine_select", "dma_compute", "dma_copy", "dma_transpose", "nc_matmul", "register_move",
           "sendrecv", "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src"]


def nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False,
              is_transpose=False, accumulate=None, tile_position=(), tile_size=(),
              perf_mode=matmul_perf_mode.none, name=None, **old):
    if type(accumulate) in (tuple, list):  # NKI 0.2 has tile_position in its place
        accumulate, tile_position, tile_size, perf_mode = None, accumulate, tile_position, (
            tile_size or perf_mode)
    if old:
        is_moving_onezero, accumulate = _old_matmul(old, is_moving_onezero, accumulate)
    return _nc_matmul(dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose,
                      accumulate, tile_position, tile_size, perf_mode, name)


def _old_matmul(old, onezero, accumulate):
    onezero = old.pop("is_moving_zero", onezero)
    flag = old.pop("psum_accumulate_flag", None)
    if flag is not None:
        accumulate = not flag & 1
    old.pop("mask", None)
    if old:
        raise TypeError(f"nc_matmul() got an unexpected keyword argument {next(iter(old))!r}")
    return onezero, accumulate


def affine_select(dst, pattern, channel_multiplier=None, on_true_tile=None, on_false_value=None,
                  cmp_op=OPERATORS["equal"], offset=0, name=None):
    if isinstance(on_false_value, NkiTensor):  # positions of NKI 0.2: offset before the multiplier
        offset, channel_multiplier, on_true_tile, on_false_value, cmp_op = (
            channel_multiplier, on_true_tile, on_false_value, cmp_op, offset or OPERATORS["equal"])
    return isa.affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op,
                             offset, name)


def dma_copy(dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown,
             engine=engine.unknown, name=None, dst_rmw_op=None, unique_indices=None):
    if priority is not None and type(priority) is not int:
        priority, oob_mode, dge_mode, engine, dst_rmw_op = _older_copy(
            priority, oob_mode, dge_mode, engine)
    return _dma_copy(dst, src, priority, oob_mode, dge_mode, engine, name, dst_rmw_op, unique_indices)


def _older_copy(third, fourth, fifth, sixth):
    """(priority, oob_mode, dge_mode, engine, dst_rmw_op) of positions in NKI 0.2 and 0.3."""
    if isinstance(third, Choice):  # 0.3: dst, src, oob_mode, dge_mode, engine
        return (None, third, fourth if isinstance(fourth, Choice) and fourth.kind == "dge_mode"
                else enums.dge_mode.unknown, fifth if fifth.kind == "engine" else enums.engine.unknown,
                None)
    return None, fourth, fifth, enums.engine.unknown, third  # 0.2: dst, src, dst_rmw_op, ...


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown,
                  oob_mode=oob_mode.error, name=None):
    if isinstance(priority, Choice):  # NKI 0.2 and 0.3 have no priority
        priority, dge_mode, oob_mode = None, priority, (
            dge_mode if dge_mode is not enums.dge_mode.unknown else oob_mode)
    return isa.dma_transpose(dst, src, axes, priority, dge_mode, oob_mode, name)


def dma_compute(dst, srcs, reduce_op=None, scales=None, unique_indices=True,
                oob_mode=oob_mode.error, name=None):
    if isinstance(reduce_op, (list, tuple)):  # NKI 0.2: (dst, srcs, scales, reduce_op)
        reduce_op, scales = scales, reduce_op
    return isa.dma_compute(dst, srcs, reduce_op, scales, unique_indices, oob_mode, name)


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id=0, dma_engine=dma_engine.dma,
             name=None, use_gpsimd_dma=None):
    if isinstance(dma_engine, str):  # NKI 0.2 has the name in its place
        dma_engine, name = enums.dma_engine.dma, dma_engine
    if use_gpsimd_dma:
        dma_engine = enums.dma_engine.gpsimd_dma
    return isa.sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine, name)


def register_move(dst, src=None, imm=None):
    return isa.register_move(dst, imm if src is None else src)


def tensor_copy_dynamic_src(dst, src, engine=engine.unknown, name=None):
    return isa.tensor_copy(dst, src, engine=engine, name=name)


tensor_copy_dynamic_dst = tensor_copy_dynamic_src
tensor_copy_dynamic_src.__doc__ = "tensor_copy, under the name it had before NKI 0.2."
_nc_matmul, _dma_copy = isa.nc_matmul, isa.dma_copy  # once per instruction of most kernels
_describe(globals())
