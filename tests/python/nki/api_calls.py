"""Lists one valid call of every function of nki.isa and nki.language, for tests that make one
argument wrong.

Tensors are made when a call is (`make`), inside the kernel that makes it.
"""

import numpy as np

import nki.isa as nisa
import nki.language as nl


class Lazy:
    """A tensor or register that the kernel makes."""

    def __init__(self, make):
        self.make = make


def make(value):
    if isinstance(value, Lazy):
        return value.make()
    return type(value)(make(v) for v in value) if isinstance(value, (list, tuple)) else value


def _filled(dtype, value=1):
    def maker(*shape):
        def tile():
            tensor = nl.ndarray(shape, dtype, buffer=nl.sbuf)
            nisa.memset(tensor, value)
            return tensor

        return Lazy(tile)

    return maker


f32, bf16, i32, u32 = (_filled(d) for d in (nl.float32, nl.bfloat16, nl.int32, nl.uint32))
u16, u8 = _filled(nl.uint16), _filled(nl.uint8)


def psum(*shape):
    return Lazy(lambda: nl.ndarray(shape, nl.float32, buffer=nl.psum))


def hbm(*shape):
    return Lazy(lambda: nl.zeros(shape, nl.float32, buffer=nl.shared_hbm))


def register():
    return Lazy(lambda: nisa.register_alloc(1))


def method(tensor, name):
    """A method of a tensor that the kernel makes."""
    return Lazy(lambda: getattr(make(tensor), name))


_TILE, _COLUMN = f32(32, 64), f32(32, 1)
_RESET = nisa.reduce_cmd.reset_reduce


def isa_calls():
    """(function, arguments by name)."""
    yield from _engine_calls()
    yield from _search_calls()
    yield from _move_calls()


def _engine_calls():
    two = dict(dst=_TILE, data=_TILE)
    reduced = dict(reduce_res=_COLUMN, reduce_cmd=_RESET)
    yield nisa.tensor_copy, dict(dst=_TILE, src=_TILE, engine=nisa.engine.vector)
    yield nisa.tensor_copy_predicated, dict(dst=_TILE, src=_TILE, predicate=u8(32, 64))
    yield nisa.nc_matmul, dict(dst=psum(64, 64), stationary=bf16(32, 64), moving=bf16(32, 64),
                               is_transpose=False, accumulate=False, tile_position=(),
                               tile_size=(), perf_mode=None)
    yield nisa.nc_transpose, dict(dst=psum(64, 32), data=_TILE, engine=nisa.engine.tensor)
    yield nisa.tensor_tensor, dict(dst=_TILE, data1=_TILE, data2=_TILE, op=nl.add,
                                   engine=nisa.engine.vector)
    yield nisa.tensor_scalar, dict(**two, op0=nl.add, operand0=1.0, reverse0=False,
                                   op1=nl.multiply, operand1=_COLUMN, reverse1=False)
    yield nisa.tensor_partition_reduce, dict(dst=f32(1, 64), op=nl.add, data=_TILE)
    yield nisa.tensor_scalar_cumulative, dict(dst=_TILE, src=_TILE, op0=nl.add, op1=nl.add,
                                              imm0=1.0, imm1=0.0, reduce_cmd=_RESET)
    yield nisa.activation, dict(**two, op=nl.exp, bias=_COLUMN, scale=1.0, reduce_op=nl.add,
                                **reduced)
    yield nisa.activation_reduce, dict(**two, op=nl.exp, reduce_op=nl.add, reduce_res=_COLUMN,
                                       bias=None, scale=1.0)
    yield nisa.iota, dict(dst=i32(32, 64), pattern=[[1, 64]], offset=0, channel_multiplier=1)
    yield nisa.local_gather, dict(dst=f32(32, 16), src_buffer=_TILE, index=u16(32, 1),
                                  num_elem_per_idx=1, num_valid_indices=16)
    yield nisa.nc_n_gather, dict(dst=f32(32, 8), data=_TILE, indices=u32(32, 8))
    yield nisa.bn_stats, dict(dst=f32(32, 6), data=_TILE)
    yield nisa.bn_aggr, dict(dst=f32(32, 2), data=f32(32, 6))
    yield nisa.tensor_tensor_scan, dict(dst=_TILE, data0=_TILE, data1=_TILE, initial=0.0,
                                        op0=nl.multiply, op1=nl.add)
    yield nisa.nc_stream_shuffle, dict(dst=_TILE, src=_TILE, shuffle_mask=[0] * 32)
    yield nisa.rng, dict(dst=u32(32, 64))
    yield nisa.dropout, dict(**two, prob=0.5)
    yield nisa.set_rng_seed, dict(src_seeds=i32(1, 1))
    yield nisa.reciprocal, two
    yield nisa.max8, dict(dst=f32(32, 8), src=_TILE)
    yield nisa.sequence_bounds, dict(dst=f32(1, 2, 64), segment_ids=f32(1, 64))
    yield nisa.scalar_tensor_tensor, dict(**two, op0=nl.add, operand0=1.0, op1=nl.multiply,
                                          operand1=_TILE)
    yield nisa.tensor_scalar_reduce, dict(**two, op0=nl.add, operand0=1.0, reduce_op=nl.add,
                                          reduce_res=_COLUMN)


def _search_calls():
    reduced = dict(reduce_res=_COLUMN, reduce_cmd=_RESET)
    two = dict(dst=_TILE, data=_TILE)
    yield nisa.range_select, dict(dst=_TILE, on_true_tile=_TILE, comp_op0=nl.greater_equal,
                                  comp_op1=nl.less, bound0=_COLUMN, bound1=_COLUMN,
                                  reduce_op=nl.maximum, range_start=0, **reduced)
    yield nisa.select_reduce, dict(dst=_TILE, predicate=u8(32, 64), on_true=_TILE,
                                   on_false=_COLUMN, reduce_op=nl.maximum, **reduced)
    yield nisa.nc_find_index8, dict(dst=u32(32, 8), data=_TILE, vals=f32(32, 8))
    yield nisa.nc_match_replace8, dict(**two, vals=f32(32, 8), imm=0.0, dst_idx=u32(32, 8))
    yield nisa.nonzero_with_count, dict(dst=i32(1, 65), src=f32(1, 64), index_offset=0,
                                        padding_val=-1)
    yield nisa.tensor_reduce, dict(dst=_COLUMN, op=nl.add, data=_TILE, axis=1, negate=False)
    yield nisa.memset, dict(dst=_TILE, value=1.0, engine=nisa.engine.vector)
    yield nisa.affine_select, dict(dst=_TILE, pattern=[[1, 64]], channel_multiplier=-1,
                                   on_true_tile=_TILE, on_false_value=0.0, cmp_op=nl.greater,
                                   offset=0)


def _move_calls():
    yield nisa.dma_copy, dict(dst=_TILE, src=hbm(32, 64), oob_mode=nisa.oob_mode.error,
                              dge_mode=nisa.dge_mode.unknown, engine=nisa.engine.unknown,
                              priority=None, dst_rmw_op=None)
    yield nisa.dma_transpose, dict(dst=bf16(64, 32), src=bf16(32, 64), axes=(1, 0))
    yield nisa.dma_compute, dict(dst=_TILE, srcs=[_TILE, hbm(32, 64)], reduce_op=nl.add,
                                 scales=[1.0, 1.0], unique_indices=True)
    yield nisa.core_barrier, dict(data=hbm(32, 64), cores=(0, 1))
    yield nisa.sendrecv, dict(src=_TILE, dst=_TILE, send_to_rank=0, recv_from_rank=0, pipe_id=0)
    yield nisa.register_alloc, dict(x=3)
    yield nisa.register_move, dict(dst=register(), src=4)
    yield nisa.register_load, dict(dst=register(), src=i32(1, 1))
    yield nisa.register_store, dict(dst=i32(1, 1), src=register())


def language_calls():
    """(function, arguments by name)."""
    place = dict(shape=(32, 64), dtype=nl.float32)
    yield nl.ndarray, dict(**place, buffer=nl.sbuf, name="abc", address=None)
    yield nl.zeros, dict(**place, buffer=nl.sbuf)
    yield nl.full, dict(shape=(32, 64), fill_value=1.0, dtype=nl.float32)
    yield nl.rand, place
    yield nl.zeros_like, dict(x=_TILE, dtype=None)
    yield nl.empty_like, dict(x=_TILE)
    yield nl.random_seed, dict(seed=i32(1, 1))
    yield nl.shared_constant, dict(constant=np.ones((3, 4), np.float32))
    yield nl.shared_identity_matrix, dict(n=32, dtype=nl.float32, dst=None)
    yield nl.expand_dims, dict(x=_TILE, axis=1)
    yield nl.load, dict(src=hbm(32, 64), dtype=None)
    yield nl.store, dict(dst=hbm(32, 64), value=_TILE)
    yield nl.load_transpose2d, dict(src=hbm(32, 64))
    yield nl.gather_flattened, dict(data=_TILE, indices=u32(32, 4))
    yield nl.matmul, dict(x=_TILE, y=_TILE, transpose_x=True)
    yield nl.transpose, dict(x=_TILE)
    yield nl.broadcast_to, dict(x=_COLUMN, shape=(32, 64))
    yield nl.copy, dict(x=_TILE, dtype=None)
    for name in ("add", "divide", "power", "equal", "logical_and", "abs_max", "fmod", "mod"):
        yield getattr(nl, name), dict(x=_TILE, y=_TILE, dtype=None)
    yield nl.left_shift, dict(x=i32(32, 64), y=i32(32, 64), dtype=None)
    for name in ("exp", "abs", "cos", "tan", "floor", "trunc", "rsqrt", "logical_not", "negative"):
        yield getattr(nl, name), dict(x=_TILE, dtype=None)
    for name in ("sum", "mean", "var", "all", "softmax"):
        yield getattr(nl, name), dict(x=_TILE, axis=1)
    yield nl.rms_norm, dict(x=_TILE, w=_TILE, axis=1, n=64)
    yield nl.where, dict(condition=_TILE, x=_TILE, y=_TILE)
    yield nl.dropout, dict(x=_TILE, rate=0.5)
    yield nl.affine_range, dict(start=0, stop=4, step=1)
    yield nl.dynamic_range, dict(start=0, stop=4, step=1)
    yield nl.program_id, dict(axis=0)
    yield nl.num_programs, dict(axes=0)


def view_calls():
    """(method, arguments by name)."""
    for name, given, tensor in (
            ("permute", dict(dims=(0, 1)), _TILE), ("expand_dim", dict(dim=1), _TILE),
            ("broadcast", dict(dim=1, size=4), _COLUMN), ("squeeze_dim", dict(dim=1), f32(8, 1, 4)),
            ("reshape_dim", dict(dim=1, shape=(4, 16)), _TILE),
            ("flatten_dims", dict(start_dim=1, end_dim=2), f32(32, 4, 16)),
            ("reshape", dict(shape=(32, 4, 16)), _TILE),
            ("rearrange", dict(src_pattern=("p", ("a", "b")), dst_pattern=("p", "b", "a"),
                               fixed_sizes={"a": 4}), _TILE),
            ("slice", dict(dim=1, start=0, end=4, step=1), _TILE),
            ("select", dict(dim=1, index=3), _TILE),
            ("vector_select", dict(dim=0, vector_offset=i32(4, 1)), hbm(32, 64)),
            ("ap", dict(pattern=[[64, 32], [1, 64]], offset=0, scalar_offset=None,
                        vector_offset=None, indirect_dim=0, dtype=None), _TILE),
            ("view", dict(dtype=nl.int32), _TILE),
            ("__getitem__", dict(key=(slice(None), 3)), _TILE),
            ("__setitem__", dict(key=(slice(None), 3), value=1.0), _TILE),
            ("__add__", dict(other=2.0), _TILE), ("__iadd__", dict(other=2.0), _TILE)):
        yield method(tensor, name), given
