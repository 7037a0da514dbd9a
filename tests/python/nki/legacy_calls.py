"""Lists one valid call for each of many functions of neuronxcc.nki, as api_calls.py does for nki."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from neuronxcc.nki.language import par_dim

from api_calls import Lazy, bf16, f32, hbm, i32, make, u8, u16, u32

_TILE, _COLUMN = f32(32, 64), f32(32, 1)
_MASK = Lazy(lambda: (nl.arange(32)[:, None] < 20) & (nl.arange(64)[None, :] < 60))
_ROWS, _COLUMNS = Lazy(lambda: nl.arange(32)[:, None]), Lazy(lambda: nl.arange(64)[None, :])
_SUM = Lazy(lambda: nl.arange(32)[:, None] * 2 + nl.arange(64)[None, :])
_LOWER = Lazy(lambda: nl.arange(32)[:, None] >= nl.arange(64)[None, :])
_BLOCKS = Lazy(lambda: nl.zeros((2, par_dim(32), 64), nl.float32))


def legacy_calls():
    """(function, arguments by name); a method's are by position."""
    data, op0 = dict(data=_TILE, mask=_MASK), dict(op0=np.add, operand0=1.0)
    yield nisa.activation, dict(**data, op=np.exp, bias=_COLUMN, scale=1.0, dtype=None)
    yield nisa.activation_reduce, dict(**data, op=np.exp, reduce_op=np.add, reduce_res=_COLUMN)
    yield nisa.affine_select, dict(pred=_LOWER, on_true_tile=_TILE, on_false_value=0.0, mask=_MASK)
    yield nisa.iota, dict(expr=_SUM, dtype=nl.int32, mask=None)
    yield nisa.memset, dict(shape=(32, 64), value=1.0, dtype=nl.float32, mask=_MASK)
    yield nisa.nc_matmul, dict(stationary=bf16(32, 64), moving=bf16(32, 64), is_transpose=False,
                               mask=None)
    yield nisa.nc_transpose, dict(**data, engine=nisa.tensor_engine)
    yield nisa.dma_copy, dict(dst=hbm(32, 64), src=_TILE, mask=_MASK)
    yield nisa.dma_transpose, dict(src=bf16(32, 64), axes=(1, 0))
    yield nisa.tensor_copy, dict(src=_TILE, mask=_MASK, dtype=None)
    yield nisa.tensor_copy_predicated, dict(src=_TILE, dst=_TILE, predicate=u8(32, 64))
    yield nisa.tensor_tensor, dict(data1=_TILE, data2=_TILE, op=np.add, dtype=None, mask=_MASK)
    yield nisa.tensor_scalar, dict(**data, **op0, op1=np.multiply, operand1=_COLUMN)
    yield nisa.scalar_tensor_tensor, dict(data=_TILE, **op0, op1=np.add, operand1=_TILE)
    yield nisa.tensor_scalar_reduce, dict(data=_TILE, **op0, reduce_op=np.add, reduce_res=_COLUMN)
    yield nisa.tensor_tensor_scan, dict(data0=_TILE, data1=_TILE, initial=0.0, op0=np.add,
                                        op1=np.multiply, mask=_MASK)
    yield nisa.tensor_reduce, dict(**data, op=np.add, axis=1, negate=False, keepdims=False)
    yield nisa.tensor_partition_reduce, dict(op=np.add, data=_TILE, mask=None)
    yield nisa.bn_stats, data
    yield nisa.max8, dict(src=_TILE, mask=_MASK)
    yield nisa.nc_find_index8, dict(**data, vals=f32(32, 8))
    yield nisa.nc_match_replace8, dict(**data, vals=f32(32, 8), imm=0.0)
    yield nisa.range_select, dict(on_true_tile=_TILE, comp_op0=np.greater_equal, comp_op1=np.less,
                                  bound0=_COLUMN, bound1=_COLUMN, range_start=0)
    yield nisa.local_gather, dict(src_buffer=_TILE, index=u16(32, 1))
    yield nisa.dropout, dict(**data, prob=0.5)
    yield nl.ndarray, dict(shape=(2, par_dim(32), 64), dtype=nl.float32, buffer=None)
    yield nl.zeros, dict(shape=(32, 64), dtype=nl.float32, buffer=nl.psum)
    yield nl.zeros_like, dict(a=_TILE)
    yield nl.load, dict(src=hbm(32, 64), mask=_MASK, dtype=None)
    yield nl.store, dict(dst=hbm(32, 64), value=_TILE, mask=_MASK)
    yield nl.load_transpose2d, dict(src=hbm(32, 64), mask=_MASK)
    yield nl.matmul, dict(x=_TILE, y=_TILE, transpose_x=True, mask=None)
    yield nl.transpose, dict(x=_TILE, mask=_MASK)
    yield nl.broadcast_to, dict(src=_COLUMN, shape=(32, 64))
    for name in ("add", "divide", "power", "equal", "logical_and"):
        yield getattr(nl, name), dict(x=_TILE, y=_TILE, mask=_MASK, dtype=None)
    for name in ("exp", "cos", "floor"):
        yield getattr(nl, name), dict(x=_TILE, mask=_MASK, dtype=None)
    for name in ("sum", "mean", "softmax"):
        yield getattr(nl, name), dict(x=_TILE, axis=1, mask=_MASK)
    yield nl.where, dict(condition=_TILE, x=_TILE, y=_TILE, mask=_MASK)
    yield nl.loop_reduce, dict(x=_TILE, op=np.add, loop_indices=[0], mask=_MASK)
    yield nl.gather_flattened, dict(data=_TILE, indices=u32(32, 4), mask=None)
    yield nl.rms_norm, dict(x=_TILE, w=_TILE, axis=1, n=64, mask=_MASK)
    yield nki.compiler.sbuf.mod_alloc, dict(base_addr=0, base_partition=0, num_par_tiles=(1,),
                                            num_free_tiles=(2,))
    for owner, name, given in (
            (_TILE, "__getitem__", [(_ROWS, _COLUMNS)]), (_BLOCKS, "__getitem__", [(1, _ROWS)]),
            (hbm(32, 64), "__getitem__", [(i32(8, 1), _COLUMNS)]),
            (_BLOCKS, "__setitem__", [1, _TILE]), (_ROWS, "__getitem__", [(slice(None), None)]),
            (_ROWS, "__add__", [3]), (_ROWS, "__mul__", [3]), (_ROWS, "__floordiv__", [1]),
            (_ROWS, "__mod__", [64]), (_ROWS, "__lt__", [3]), (_MASK, "__and__", [_LOWER])):
        yield (Lazy(lambda owner=owner, name=name: getattr(make(owner), name)),
               dict(enumerate(given)))
