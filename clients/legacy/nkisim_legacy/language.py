"""Implements neuronxcc.nki.language (the older API): nki.language plus index tiles, block
dimensions and loop_reduce.
"""

import weakref

import numpy as np

from nkisim import lowering
from nkisim.api import language
from nkisim.api.alloc import AllocatedBuffer
from nkisim.isa import instructions as isa
from nkisim.record.recorder import current
from nkisim.record.refusals import report_refused
from nkisim.record.traced import Parallel
from nkisim.values import dtypes
from nkisim.values.dtypes import float32, resolve, uint8
from nkisim.values.errors import (KernelIndexError, KernelTypeError, KernelValueError, check_spelling,
                                  fail, fail_on, is_integer, is_ours, kernel_frame, short)
from nkisim.values.index import Expr, MGrid
from nkisim.values.optokens import is_operator
from nkisim.values.storage import HBM, product, buffer_of, sbuf
from nkisim.values.tensor import NkiTensor, ds, require_tensor
from nkisim.values.unreadable import Unreadable
from . import functions as legacy_functions

globals().update({name: getattr(language, name) for name in language.__all__})


class par_dim(int):
    """Marks the partition dimension of a shape."""

    def __repr__(self):
        return f"par_dim({int(self)})"


class BlockTensor(Unreadable):
    """An on-chip tensor with dimensions before its partition dimension: one tile per block."""

    __slots__ = ("blocks", "tiles", "tile_shape", "dtype", "buffer")
    __array_ufunc__ = None
    _cures = {"": "its values exist only on the device; tensor[i] is the tile of a block"}

    def __init__(self, blocks, tiles, tile_shape, dtype, buffer):
        self.blocks = blocks      # sizes of the block dimensions
        self.tiles = tiles        # row-major list of NkiTensor
        self.tile_shape = tile_shape
        self.dtype = dtype
        self.buffer = buffer

    @property
    def shape(self):
        return tuple(self.blocks) + tuple(self.tile_shape)

    @property
    def ndim(self):
        return len(self.shape)

    def __repr__(self):
        return f"<blocks {self.blocks} of {self.tiles[0]!r}>"

    def _split(self, key):
        if type(key) is not tuple:
            key = (key,)
        flat = []
        for k in key:
            flat.extend(k.tiles if isinstance(k, MGrid) else [k])
        if any(k is Ellipsis for k in flat):
            at = [i for i, k in enumerate(flat) if k is Ellipsis][0]
            flat = flat[:at] + [slice(None)] * (self.ndim - len(flat) + 1) + flat[at + 1:]
        n = len(self.blocks)
        head = flat[:n] + [slice(None)] * (n - len(flat[:n]))
        return head, tuple(flat[n:])

    def _plain(self, key):
        """(tile, the rest of the key) where whole numbers pick one block; else None."""
        if type(key) is not tuple:
            key = (key,)
        n = len(self.blocks)
        if len(key) < n:
            return None
        at = 0
        for k, size in zip(key, self.blocks):
            if type(k) is not int or not 0 <= k < size:
                return None
            at = at * size + k
        return self.tiles[at], key[n:]

    def __getitem__(self, key):
        plain = self._plain(key)
        if plain is not None:
            tile, tail = plain
            return tile[tail] if tail else tile
        head, tail = self._split(key)
        numbers = np.arange(len(self.tiles)).reshape(self.blocks)
        picked = numbers[tuple(_block_index(k, n) for k, n in zip(head, self.blocks))]
        if picked.ndim == 0:
            tile = self.tiles[int(picked)]
            return tile[tail] if tail else tile
        views = [self.tiles[int(i)] for i in picked.reshape(-1)]
        if tail and not all_full(tail):
            views = [t[tail] for t in views]
        return BlockTensor(picked.shape, views, views[0].shape, self.dtype, self.buffer)

    def __setitem__(self, key, value):
        target = self[key]
        if isinstance(target, BlockTensor):
            if isinstance(value, BlockTensor):
                for d, s in zip(target.tiles, value.tiles):
                    lowering.assign(d, s)
            elif isinstance(value, NkiTensor):
                fail("block_tensor",
                     "a tile is assigned to several blocks at once; index the block dimensions",
                     kind=KernelValueError)
            else:
                for d in target.tiles:
                    lowering.assign(d, value)
            return
        lowering.assign(target, value)

    def reshape(self, *shape):
        fail("block_tensor",
             "block tensors cannot be reshaped; index the block dimensions",
             kind=KernelValueError)


def all_full(key):
    return not [k for k in key if not (isinstance(k, slice) and k == slice(None))]


def _block_index(k, n):
    if isinstance(k, Expr):
        low, high = k.range()
        if low != high:
            fail_on("block_tensor", "a block dimension", "indexed by an index tile", "an integer",
                    kind=KernelIndexError)
        k = low
    if isinstance(k, ds):
        return slice(k.start, k.start + k.size)
    if isinstance(k, slice):
        return k
    try:
        k = k.__index__()
    except (AttributeError, TypeError):
        fail_on("block_tensor", "a block index", repr(k), "an integer", kind=KernelTypeError)
    if not -n <= k < n:
        fail("slice_out_of_bounds",
             f"block index {k} is out of bounds; there are {n} blocks", kind=KernelIndexError)
    return k


def _blocks_of(shape):
    for at, n in enumerate(shape):
        if isinstance(n, par_dim):
            return at
    return 0


def _at_the_top():
    """True if the kernel itself, and no function of its own, called the function that asks."""
    frame = kernel_frame()
    return frame is None or frame.f_back is None or is_ours(frame.f_back.f_code)


def ndarray(shape, dtype=float32, buffer=None, name="", **_ignored):
    """A tensor whose values are not written yet; par_dim(...) marks the partition dimension.

    Dimensions before that one are blocks: tiles of their own.
    """
    if _ignored:
        check_spelling(_ignored)
    recorder = current()
    if isinstance(shape, int):
        shape = (shape,)
    buffer = sbuf if buffer is None else buffer
    at = _blocks_of(shape)
    shape = tuple(int(s) for s in shape)
    if len(shape) == 1 and buffer_of(buffer).space != HBM:
        fail("tensor_partitions", f"shape is {shape}, which has no partition and free dimension; ({shape[0]}, 1) or "
             f"(1, {shape[0]}) is required", "ndarray", KernelValueError)
    if str(buffer) == "shared_hbm" and not _at_the_top():
        report_refused("shared_tensor_within", where="a function that the kernel calls")
    if at:
        report_refused("block_dimension", shape=shape)
    place = buffer.place if isinstance(buffer, AllocatedBuffer) else None
    if place is not None:
        recorder.allocated = True
    base = buffer_of(buffer)
    dtype = resolve(dtype)
    if base.space == HBM or (at == 0 and place is None):
        return recorder.ndarray(shape, dtype, base, name or "")
    blocks, tile_shape = shape[:at], shape[at:]
    size = dtype.itemsize * product(tile_shape[1:])
    tiles = []
    for index in np.ndindex(*blocks) if blocks else [()]:
        address = None if place is None else place(tuple(index), tile_shape[0], size)
        tiles.append(recorder.ndarray(tile_shape, dtype, base, name or "", address))
    if not blocks:
        return tiles[0]
    return BlockTensor(blocks, tiles, tile_shape, dtype, base)


def full(shape, fill_value, dtype=float32, buffer=None, name="", **_ignored):
    """A tensor with every element `fill_value`."""
    if _ignored:
        check_spelling(_ignored)
    if buffer is not None and buffer_of(buffer).space == HBM:
        report_refused("value_in_hbm")
    elif isinstance(buffer, AllocatedBuffer):
        report_refused("value_of_allocated")
    out = ndarray(shape, dtype, buffer=buffer, name=name)
    for tile in out.tiles if isinstance(out, BlockTensor) else [out]:
        lowering.fill(tile, fill_value)
    return out


def zeros(shape, dtype=float32, buffer=None, name="", **_ignored):
    """A tensor of zeros."""
    if _ignored:
        check_spelling(_ignored)
    return full(shape, 0, dtype, buffer=buffer, name=name)


def ones(shape, dtype=float32, buffer=None, name="", **_ignored):
    """A tensor of ones."""
    if _ignored:
        check_spelling(_ignored)
    return full(shape, 1, dtype, buffer=buffer, name=name)


def _like(a):
    if isinstance(a, BlockTensor):
        return tuple(a.blocks) + (par_dim(a.tile_shape[0]),) + tuple(a.tile_shape[1:])
    return a.shape


def zeros_like(a, dtype=None, buffer=None, name="", **_ignored):
    """Zeros with the shape of `a`, and its dtype and buffer unless others are given."""
    if _ignored:
        check_spelling(_ignored)
    return full(_like(a), 0, dtype or a.dtype, buffer=buffer or a.buffer, name=name)


def empty_like(a, dtype=None, buffer=None, name="", **_ignored):
    """An unwritten tensor with the shape of `a`, and its dtype and buffer unless others are given."""
    if _ignored:
        check_spelling(_ignored)
    return ndarray(_like(a), dtype or a.dtype, buffer=buffer or a.buffer, name=name)


def broadcast_to(src, shape, **_ignored):
    """`src` repeated along dimensions of size 1 up to `shape`."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.broadcast_to(src, shape)


def shared_identity_matrix(n, dtype=uint8, **_ignored):
    """The n x n identity matrix in HBM."""
    if _ignored:
        check_spelling(_ignored)
    return language.shared_constant(np.eye(n, dtype=np.float32).astype(resolve(dtype).dtype))


def matmul(x, y, transpose_x=False, mask=None, **_ignored):
    """x @ y, or x.T @ y with transpose_x."""
    if _ignored:
        check_spelling(_ignored)
    if not transpose_x and current().allocated:
        report_refused("transpose_in_allocated", call="matmul", other="transpose_x=True")
    return lowering.matmul(x, y, transpose_x, mask)


def device_print(prefix, x, mask=None, **_ignored):
    """Prints a tensor, where `mask` holds, when the simulated program comes to this place."""
    if _ignored:
        check_spelling(_ignored)
    if mask is not None:
        current().flush()
        x = lowering.masked_views([x], mask, x.shape)
        if x is None:
            return
        x = x[0]
    language.device_print(prefix, x)


def expand_dims(data, axis):
    """The view of `data` with dimensions of size 1 at `axis`."""
    return language.expand_dims(data, axis)


def random_seed(seed, mask=None, **_ignored):
    """Seeds the generators behind rand and dropout."""
    if _ignored:
        check_spelling(_ignored)
    language.random_seed(seed)


def all_reduce(x, op, program_axes, dtype=None, mask=None, parallel_reduce=True,
               asynchronous=False, **_ignored):
    """A reduction over SPMD programs, which run one after the other here: an error."""
    if _ignored:
        check_spelling(_ignored)
    fail("unsupported_call",
         "a reduction over SPMD programs is not simulated (in AWS's documents until SDK 2.26); let "
         "each program store its part, and add the parts in another kernel", "all_reduce")


def rand(shape, dtype=float32, **_ignored):
    """A tile of uniform random numbers in [0, 1)."""
    if _ignored:
        check_spelling(_ignored)
    return language.rand(tuple(int(s) for s in shape), dtype)


def finfo(dtype):
    """Limits of a floating-point dtype, as numpy.finfo gives them."""
    dtype = resolve(dtype)
    if dtypes.ml_dtypes is not None:
        return dtypes.ml_dtypes.finfo(dtype.dtype)
    return np.finfo(dtype.dtype)


def atomic_rmw(dst, value, op, mask=None, **_ignored):
    """dst = op(value, dst) in HBM, as one transfer."""
    if _ignored:
        check_spelling(_ignored)
    recorder = current()
    recorder.flush()
    if mask is not None:
        cut = lowering.masked_views([dst, value], mask, dst.shape)
        if cut is None:
            return
        dst, value = cut
    isa.dma_compute(dst, [value, dst], op)


class _Reductions:
    """The state of loop_reduce in a recording."""

    def __init__(self):
        self.last = {}    # (site, shape) or (storage, place) -> the last result
        self._began = {}  # storage -> whether it was written before the first of them

    def written_before(self, st, recorder):
        """True if the kernel had written `st` when a reduction into it began."""
        known = self._began.get(st.id)
        if known is None:
            known = self._began[st.id] = recorder.program.written(st.id)
        return known


def loop_reduce(x, op, loop_indices, dtype=None, mask=None, **_ignored):
    """dst = op(dst, x) over a loop, where dst is what the result is assigned to.

    Assigned to a name instead of a tile, the result of one iteration is the next one's dst.
    """
    if _ignored:
        check_spelling(_ignored)
    require_tensor(x, "x", "loop_reduce")
    if not is_operator(op):
        fail_on("python_value", "op", short(op), "an ALU operator of nki.language", "loop_reduce", KernelTypeError)
    recorder = current()
    recorder.flush()
    indices = (loop_indices,) if is_integer(loop_indices) else loop_indices
    first = not any(int(i) for i in indices)
    out = x.dtype if dtype is None else resolve(dtype)
    frame = kernel_frame()
    site = (frame.f_code, frame.f_lasti)
    own_place, reductions = [], recorder.of(_Reductions)

    def build(dst, data):
        named = dst.st is own_place[0]()  # not assigned to a tile
        key = (site, dst.shape) if named else (dst.st.id, dst.part, dst.off)
        before = reductions.last.get(key)
        if named:
            before = None if first else before
        elif not reductions.written_before(dst.st, recorder):
            before = None if first or before is None else dst
        else:
            before = dst
        reductions.last[key] = dst
        if before is None:
            isa.tensor_copy(dst, data)
        else:
            isa.tensor_tensor(dst, before, data, op)

    own = lowering.result_tile(x.shape, out, build, mask, (x,))
    recorder.of(Parallel).reduced = own.st
    own_place.append(weakref.ref(own.st))  # a name for it here would keep the tile
    return own


class _BFloat:
    """Limits of bfloat16, as bfp16 spells them."""

    min = -3.3895313892515355e38


bfp16 = _BFloat
globals().update(legacy_functions.PUBLIC)
__all__ = sorted({
    *language.__all__, *legacy_functions.PUBLIC, "all_reduce", "atomic_rmw", "bfp16",
    "broadcast_to", "device_print", "empty_like", "expand_dims", "finfo", "full", "loop_reduce", "matmul",
    "ndarray", "ones", "par_dim", "rand", "random_seed", "shared_identity_matrix", "zeros",
    "zeros_like"})
