"""Resolves tensors subscripted with index tiles (nl.arange): the selected view, and the part that a
mask keeps.
"""

from .. import _core
from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail
from .hooks import above
from .index import DynamicSum, Expr, MGrid, integer
from .register import VirtualRegister
from .slices import ds
from .views import Views, as_selected, dynamic_entry


def _flat_key(key):
    out = []
    for k in key:
        out.extend(k.tiles if isinstance(k, MGrid) else [k])
    return out


def _expand(key, ndim):
    key = _flat_key(key)
    if any(k is Ellipsis for k in key):
        at = [i for i, k in enumerate(key) if k is Ellipsis][0]
        fill = ndim - sum(1 for k in key if k is not None and k is not Ellipsis)
        key = key[:at] + [slice(None)] * fill + key[at + 1:]
    key = [k for k in key if k is not None]
    if len(key) > ndim:
        fail("slice_out_of_bounds",
             f"{len(key)} indices for a tensor of {ndim} dimensions", kind=KernelIndexError)
    return key + [slice(None)] * (ndim - len(key))


def _slice_expr(k, n, axis):
    if isinstance(k, ds):
        start, count, step = integer(k.start), integer(k.size), 1
    else:
        step = 1 if k.step is None else k.step
        start = 0 if k.start is None else k.start + (n if k.start < 0 else 0)
        stop = n if k.stop is None else k.stop + (n if k.stop < 0 else 0)
        count = len(range(start, stop, step))
    return Expr(start, {axis: step}, {axis: count}, axis)


def _axes(key):
    """The number of axes that the index tiles of a key span."""
    tiles = [k.expr if isinstance(k, DynamicSum) else k for k in key]
    return max((2 if isinstance(k, Views) else k.ndim for k in tiles
                if isinstance(k, (Expr, Views))), default=0)


def _moved(tile, by):
    """An index tile with `by` axes more behind its own."""
    return Expr(tile.const, {a + by: c for a, c in tile.coefs.items()},
                {a + by: n for a, n in tile.extents.items()}, tile.ndim + by)


def _slices_to_exprs(key, shape):
    """Each slice becomes an index tile on an axis of its own; the key, and how many axes it has.

    A slice that stands where the index tiles leave an axis free takes that one. Otherwise the
    slices' axes follow those of the index tiles, as in NumPy.
    """
    nd = _axes(key)
    slices = [i for i, k in enumerate(key) if isinstance(k, (slice, ds))]
    if not slices:
        return key, nd
    used = {a for k in key if isinstance(k, Expr) for a, n in k.extents.items() if n > 1}
    if nd == len(key) and used.isdisjoint(nd - i for i in slices):
        axis_of = {i: nd - i for i in slices}
    else:
        extra = len(slices)
        nd += extra
        axis_of = {i: extra - order for order, i in enumerate(slices)}
        key = [_moved(k, extra) if isinstance(k, Expr) else k for k in key]
    return [_slice_expr(k, shape[i], axis_of[i]) if i in axis_of else k
            for i, k in enumerate(key)], nd


def _plan(tensor, key):
    """tensor[key] of index tiles and integers, and what the extension module (binding/tiles) remembers for
    the next such key: the lowest and highest value of each without its constant; None if it goes beyond
    the tensor, or is reported."""
    view = subscript(tensor, key)
    if isinstance(view._ref, OutOfBounds) or _one_dimensional(tensor, key):
        return view, None
    ranges = [(k.range(), k.const) if type(k) is Expr else ((0, 0), 0) for k in key]
    return view, tuple([(low - const, high - const) for (low, high), const in ranges])


_core.register_tiles(Expr, _plan)


def subscript(tensor, key):
    """tensor[index tiles, integers, slices, index tensors] as a view."""
    key = _blocks(tensor, _expand(key, tensor.ndim))
    _check_kinds(tensor, key)
    key, nd = _slices_to_exprs(key, tensor.shape)
    extents, exprs, dyn, vector = {}, [], [], None
    for d, k in enumerate(key):
        if isinstance(k, Views):
            vector, k = _index_tensor(tensor, d, k, vector, dyn)
            if vector is not None and vector[0] == d:
                extents[nd] = vector[1].size
        elif isinstance(k, (VirtualRegister, DynamicSum)):
            k = _dynamic_expr(tensor, d, k, dyn)
        elif not isinstance(k, Expr):
            k = integer(k)
            k = Expr(k + tensor.shape[d] if k < 0 else k, {}, {}, 0)
        exprs.append(k)
        for axis, n in k.extents.items():
            mine = extents.get(axis, 1)
            if mine != 1 and n != 1 and mine != n:
                fail("index_tile_shape",
                     f"index tiles for {tensor!r} do not broadcast: {mine} and {n}; rows[:, None] and "
                     "columns[None, :] is required",
                     kind=KernelValueError)
            extents[axis] = max(mine, n)
    nd = max(nd, 2 if tensor.st.on_chip else 1)
    return _view(tensor, exprs, extents, nd, dyn, vector)


def _check_kinds(tensor, key):
    """Reports keys that neuronxcc.nki refuses: one-dimensional index tiles, and index tiles next to slices."""
    tiles = [k for k in key if isinstance(k, Expr) and k.coefs]
    if tiles and any(isinstance(k, slice) for k in key):
        above.refused("mixed_indices", operand=tensor)
    if _one_dimensional(tensor, key):
        above.refused("index_of_one_dimension", operand=tensor)


def _one_dimensional(tensor, key):
    """True if all index tiles of a key of a tile have one dimension."""
    tiles = [k.ndim for k in key if isinstance(k, Expr) and k.coefs] if tensor.st.on_chip else ()
    return bool(tiles) and max(tiles) == 1


def _blocks(tensor, key):
    """The key with a one-element tensor that chooses a block of HBM as a run-time number, which leaves no
    dimension: one before two or more others, or where index tiles have several rows."""
    if tensor.st.on_chip or not isinstance(key[0], Views) or key[0].size != 1:
        return key
    tiles = [k for k in key if isinstance(k, Expr)]
    several = any(t.extents.get(_axes(tiles), 1) > 1 for t in tiles)
    plain = not tiles and len(key) > 2 and not any(isinstance(k, Views) for k in key[1:])
    return [DynamicSum.of(key[0]), *key[1:]] if several or plain else key


def _view(tensor, exprs, extents, nd, dyn, vector):
    """The view whose element at some indices of the axes is where each dimension's tile says."""
    strides = [0] * nd
    part, off = tensor.part, 0
    limits = []
    for d, e in enumerate(exprs):
        size, stride = tensor.shape[d], tensor.strides[d]
        if tensor.st.on_chip:
            _check_partitions(d, e, extents, nd)
        if tensor.st.on_chip and d == 0:
            part += e.const
        else:
            off += e.const * stride
            for axis, c in e.coefs.items():
                strides[nd - axis] += c * stride
        low, high = e.range()
        if low < 0 or high >= size:
            limits.append((d, size, e.const, {nd - a: c for a, c in e.coefs.items()}))
    if tensor.st.on_chip:
        strides[0] = tensor.strides[0]
    if vector is not None:
        strides[0] = 0
    shape = tuple(extents.get(nd - a, 1) for a in range(nd))
    view = type(tensor)(tensor.st, part, tensor.off + off * tensor.dtype.itemsize, shape,
                        tuple(strides), tensor.dtype, ((tensor.dyn or ()) + tuple(dyn)) or None)
    if limits:
        view._ref = OutOfBounds(tensor, limits)
    return view if tensor.dyn is None else as_selected(tensor, view)


def _check_partitions(d, e, extents, nd):
    """On chip the first axis runs over partitions, and no other does."""
    rows = extents.get(nd, 1)
    if d > 0:
        if e.coefs.get(nd) and rows > 1:
            fail("partition_index",
                 "a free dimension is indexed by the partition index; every partition must share "
                 "one access pattern", kind=KernelValueError)
        return
    for axis, c in e.coefs.items():
        if c and extents.get(axis, 1) > 1 and (axis != nd or c != 1):
            fail("partition_index",
                 "the partition index must be consecutive and on the first axis of the index tiles; "
                 "nl.arange(rows)[:, None] and nl.arange(columns)[None, :] is required",
                 kind=KernelValueError)
    if nd not in e.coefs and rows > 1:
        fail("partition_index",
             "the partition dimension is indexed by a constant while the first axis of the index "
             "tiles has more than one element", kind=KernelValueError)


class OutOfBounds:
    """Stands in a view's operand slot until a mask has cut the view to fit."""

    __slots__ = ("tensor", "limits")

    def __init__(self, tensor, limits):
        self.tensor, self.limits = tensor, limits

    def complain(self):
        d, size, _, _ = self.limits[0]
        fail("slice_out_of_bounds",
             f"index out of bounds in dimension {d} of {self.tensor!r}, which has {size} there "
             "(a mask could cut it)", kind=KernelIndexError)


def _index_tensor(tensor, d, k, vector, dyn):
    if k.size == 1 and not (d == 0 and not tensor.st.on_chip):
        dyn.append(dynamic_entry(tensor, k, tensor.strides[d], tensor.shape[d]))
        return vector, Expr(0, {}, {}, 0)
    if k.st.compared:
        fail("mask", f"{tensor!r} is subscripted by a tile of truth values; nl.where(condition, x, y), or "
             "nisa.tensor_copy_predicated, is required", kind=KernelTypeError)
    if not tensor.st.on_chip and d == tensor.ndim - 1 > 0:
        above.refused("indirect_free_dimension", operand=tensor)
    if tensor.st.on_chip or vector is not None:
        fail("operand_memory",
             "an index tensor may select rows of a tensor in HBM only, one dimension at a time",
             kind=KernelValueError)
    dyn.append(("vector", k, tensor.strides[d], tensor.shape[d], 0))
    return (d, k), Expr(0, {}, {}, 0)


def _dynamic_expr(tensor, d, k, dyn):
    if isinstance(k, VirtualRegister):
        dyn.append(dynamic_entry(tensor, k, tensor.strides[d], tensor.shape[d]))
        return Expr(0, {}, {}, 0)
    low, high = k.expr.range()
    limit = tensor.shape[d] - high if low == 0 and k.scale == 1 and high < tensor.shape[d] else 0
    dyn.append(dynamic_entry(tensor, k.index, tensor.strides[d] * k.scale, limit))
    return k.expr


def apply_mask(view, box, shape):
    """The part of `view` inside `box`, a box over `shape`; broadcast dimensions stay."""
    if box is None:
        return None
    part, off = view.part, view.off
    new = list(view.shape)
    lead = len(shape) - view.ndim
    for a, (low, high) in enumerate(box):
        at = a - lead
        if at < 0 or view.shape[at] == 1:
            continue
        if view.shape[at] != shape[a]:
            if (low, high) == (0, shape[a]):
                continue
            fail("mask",
                 f"a mask over {tuple(shape)} cuts dimension {at} of {view!r}, which is of another "
                 "size; slice the operands instead", kind=KernelValueError)
        if at == 0 and view.st.on_chip:
            part += low
        else:
            off += low * view.strides[at] * view.dtype.itemsize
        new[at] = high - low
    dyn = view.dyn
    if dyn is not None and box:
        dyn = tuple((kind, _cut_rows(i, box[0], view) if kind == "vector" else i, s, n, g)
                    for kind, i, s, n, g in dyn)
    out = type(view)(view.st, part, off, tuple(new), view.strides, view.dtype, dyn)
    bad = view._ref
    if isinstance(bad, OutOfBounds):
        _check_limits(bad, box, lead, new, out)
    return out


def _cut_rows(index, rows, view):
    low, high = rows
    return index if (low, high) == (0, view.shape[0]) else index[low:high]


def _check_limits(bad, box, lead, shape, out):
    for _, size, const, coefs in bad.limits:
        low = high = const
        for at, c in coefs.items():
            first, last = c * box[at + lead][0], c * (box[at + lead][1] - 1)
            low, high = low + min(first, last), high + max(first, last)
        if low < 0 or high >= size:
            out._ref = bad
            return
