"""Index tiles of the legacy API: nl.arange, nl.mgrid and masks, as exact affine expressions.

An Expr is const + sum(coefficient * index of axis); axes are counted from the end, as NumPy
broadcasts. Subscripting a tensor with Exprs gives an access pattern, never a gather.
"""

import numpy as np

from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail
from .register import VirtualRegister
from .tensor import NkiTensor, ds
from .views import dynamic_entry


class Expr:
    """An affine index tile."""

    __slots__ = ("const", "coefs", "extents", "ndim")
    __array_ufunc__ = None

    def __init__(self, const, coefs, extents, ndim):
        self.const = const
        self.coefs = coefs      # axis from the end (1 = last) -> coefficient
        self.extents = extents  # axis from the end -> size
        self.ndim = ndim

    @property
    def shape(self):
        return tuple(self.extents.get(a, 1) for a in range(self.ndim, 0, -1))

    def __repr__(self):
        return f"<index tile {self.shape}>"

    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        if Ellipsis in key:
            at = key.index(Ellipsis)
            given = sum(1 for k in key if k is not None and k is not Ellipsis)
            key = key[:at] + (slice(None),) * (self.ndim - given) + key[at + 1:]
        key = key + (slice(None),) * (self.ndim - sum(1 for k in key if k is not None))
        ndim = len(key)
        const, coefs, extents = self.const, {}, {}
        old = self.ndim
        for at, k in enumerate(key):
            if k is None:
                continue
            axis = ndim - at
            n, c = self.extents.get(old, 1), self.coefs.get(old, 0)
            if isinstance(k, slice):
                start, stop, step = k.indices(n)
                const += c * start
                count = len(range(start, stop, step))
                if count < 1:
                    fail("a slice of an index tile is empty", kind=KernelIndexError)
                extents[axis] = count
                if c:
                    coefs[axis] = c * step
            else:
                fail("index tiles take slices and None only", kind=KernelTypeError)
            old -= 1
        return Expr(const, coefs, extents, ndim)

    def _add(self, other, sign=1):
        if isinstance(other, Expr):
            coefs, extents = dict(self.coefs), dict(self.extents)
            for axis, n in other.extents.items():
                mine = extents.get(axis, 1)
                if mine != 1 and n != 1 and mine != n:
                    fail(f"index tiles of shapes {self.shape} and {other.shape} do not broadcast",
                         kind=KernelValueError)
                extents[axis] = max(mine, n)
            for axis, c in other.coefs.items():
                coefs[axis] = coefs.get(axis, 0) + sign * c
            return Expr(self.const + sign * other.const, coefs, extents,
                        max(self.ndim, other.ndim))
        return Expr(self.const + sign * _integer(other), self.coefs, self.extents, self.ndim)

    def __add__(self, other):
        return dynamic_sum(other, self) if isinstance(other, NkiTensor) else self._add(other)

    __radd__ = __add__

    def __sub__(self, other):
        return self._add(other, -1)

    def __rsub__(self, other):
        return (self * -1)._add(other)

    def __mul__(self, other):
        if isinstance(other, Expr):
            if not other.coefs:
                other = other.const
            elif not self.coefs:
                return other * self.const
            else:
                fail("a product of two index tiles is not affine", kind=KernelValueError)
        k = _integer(other)
        return Expr(self.const * k, {a: c * k for a, c in self.coefs.items()}, self.extents,
                    self.ndim)

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __floordiv__(self, other):
        k = _integer(other)
        if self.const % k == 0 and all(c % k == 0 for c in self.coefs.values()):
            return Expr(self.const // k, {a: c // k for a, c in self.coefs.items()}, self.extents,
                        self.ndim)
        low, high = self.range()
        if low // k == high // k:
            return Expr(low // k, {}, self.extents, self.ndim)
        fail(f"an index tile divided by {k} is not affine", kind=KernelValueError)

    def __mod__(self, other):
        k = _integer(other)
        low, high = self.range()
        if 0 <= low and high < k:
            return self
        if all(c % k == 0 for c in self.coefs.values()):
            return Expr(self.const % k, {}, self.extents, self.ndim)
        fail(f"an index tile modulo {k} is not affine", kind=KernelValueError)

    def range(self):
        """Smallest and largest value."""
        low = high = self.const
        for axis, c in self.coefs.items():
            span = c * (self.extents.get(axis, 1) - 1)
            low, high = (low + span, high) if span < 0 else (low, high + span)
        return low, high

    def __lt__(self, other):
        return Mask([_expr(other) - self - 1])

    def __le__(self, other):
        return Mask([_expr(other) - self])

    def __gt__(self, other):
        return Mask([self - other - 1])

    def __ge__(self, other):
        return Mask([self - other])

    def __eq__(self, other):
        return Mask([self - other, _expr(other) - self])

    def __ne__(self, other):
        fail("!= of index tiles is not a box; use < and >=", kind=KernelValueError)

    __hash__ = object.__hash__

    def __bool__(self):
        fail("an index tile is used as a truth value", kind=KernelTypeError)


def _integer(value):
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        fail(f"an index tile is combined with {value!r}; an integer is required",
             kind=KernelTypeError)


def _expr(value):
    return value if isinstance(value, Expr) else Expr(_integer(value), {}, {}, 0)


class Mask:
    """A conjunction of affine conditions, each an Expr that must be >= 0."""

    __slots__ = ("terms",)
    _anded = None  # left sides of Python's `and`, which asks bool() and then drops them

    def __init__(self, terms):
        self.terms = list(terms)
        if Mask._anded is not None:
            self.terms += Mask._anded.terms
            Mask._anded = None

    def __and__(self, other):
        if isinstance(other, (bool, np.bool_)):
            return self if other else Mask([Expr(-1, {}, {}, 0)])
        return Mask(self.terms + other.terms)

    __rand__ = __and__

    def __bool__(self):
        Mask._anded = self
        return True

    def single(self):
        if len(self.terms) != 1:
            fail(f"the predicate has {len(self.terms)} conditions; one is required",
                 kind=KernelValueError)
        return self.terms[0]

    def box(self, shape):
        """Per axis (start, stop) of the part of `shape` where the mask holds; None if empty."""
        nd = len(shape)
        low, high = [0] * nd, list(shape)
        for term in self.terms:
            axes = []
            least = most = term.const
            for axis, c in term.coefs.items():
                at = nd - axis
                n = shape[at] if 0 <= at < nd else 1
                if c == 0 or n == 1:
                    continue
                axes.append((at, c))
                span = c * (n - 1)
                least, most = (least + span, most) if span < 0 else (least, most + span)
            if least >= 0:
                continue
            if most < 0:
                return None
            if len(axes) != 1:
                fail("a mask couples two index dimensions; each condition must bound one of them",
                     kind=KernelValueError)
            at, c = axes[0]
            if c > 0:
                low[at] = max(low[at], -(term.const // c))
            else:
                high[at] = min(high[at], term.const // -c + 1)
        if any(a >= b for a, b in zip(low, high)):
            return None
        return list(zip(low, high))


def as_mask(mask):
    """None for a mask that is always true; one that never is for False."""
    if isinstance(mask, (bool, np.bool_)):
        return None if mask else Mask([Expr(-1, {}, {}, 0)])
    return mask


def box_of(mask, shape):
    """Mask.box, also of a condition that Python has already decided."""
    if isinstance(mask, Mask):
        return mask.box(shape)
    if not isinstance(mask, (bool, np.bool_)):
        fail(f"mask is {type(mask).__name__}; a comparison of index tiles is required",
             kind=KernelTypeError)
    return [(0, n) for n in shape] if mask else None


class MGrid:
    """The value of nl.mgrid[a:b, c:d]: unpacks to index tiles, or .p .x .y .z .w."""

    __slots__ = ("tiles",)

    def __init__(self, tiles):
        self.tiles = tiles

    def __iter__(self):
        return iter(self.tiles)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, k):
        return self.tiles[k]

    def __getattr__(self, name):
        at = "pxyzw".find(name)
        if len(name) != 1 or at < 0 or at >= len(self.tiles):
            raise AttributeError(name)
        return self.tiles[at]


class _MGridMaker:
    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        n = len(key)
        tiles = []
        for at, k in enumerate(key):
            start, step = k.start or 0, k.step or 1
            count = len(range(start, k.stop, step))
            tiles.append(Expr(start, {n - at: step}, {n - at: count}, n))
        return MGrid(tiles)


mgrid = _MGridMaker()


def arange(*args):
    r = range(*(_integer(a) for a in args))
    if len(r) < 1:
        fail(f"nl.arange{args} is empty; at least one index is required", kind=KernelValueError)
    return Expr(r.start, {1: r.step}, {1: len(r)}, 1)


class DynamicSum:
    """An index tile plus a run-time scalar (a one-element tensor)."""

    __slots__ = ("expr", "index", "scale")

    def __init__(self, expr, index, scale=1):
        self.expr, self.index, self.scale = expr, index, scale


def dynamic_sum(index, expr):
    return DynamicSum(expr, index)


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
        fail(f"{len(key)} indices for a tensor of {ndim} dimensions", kind=KernelIndexError)
    return key + [slice(None)] * (ndim - len(key))


def _slice_expr(k, n, axis):
    if isinstance(k, ds):
        start, count, step = _integer(k.start), _integer(k.size), 1
    else:
        step = 1 if k.step is None else k.step
        start = 0 if k.start is None else k.start + (n if k.start < 0 else 0)
        stop = n if k.stop is None else k.stop + (n if k.stop < 0 else 0)
        count = len(range(start, stop, step))
    return Expr(start, {axis: step}, {axis: count}, axis)


def _slices_to_exprs(key, shape):
    """Each slice becomes an index tile on an axis of its own."""
    ndims = [k.ndim for k in key if isinstance(k, Expr)]
    ndims += [k.expr.ndim for k in key if isinstance(k, DynamicSum)]
    ndims += [2 for k in key if isinstance(k, NkiTensor)]
    nd = max(ndims, default=0)
    used = {a for k in key if isinstance(k, Expr) for a, n in k.extents.items() if n > 1}
    slices = [i for i, k in enumerate(key) if isinstance(k, (slice, ds))]
    if not slices:
        return key, nd
    if nd == len(key) and all(nd - i not in used for i in slices):
        return [_slice_expr(k, shape[i], nd - i) if i in slices else k
                for i, k in enumerate(key)], nd
    # NumPy: the slice dimensions follow the index tiles.
    extra = len(slices)
    key = [Expr(k.const, {a + extra: c for a, c in k.coefs.items()},
                {a + extra: n for a, n in k.extents.items()}, k.ndim + extra)
           if isinstance(k, Expr) else k for k in key]
    for order, i in enumerate(slices):
        key[i] = _slice_expr(key[i], shape[i], extra - order)
    return key, nd + extra


def subscript(tensor, key):
    """tensor[index tiles, integers, slices, index tensors] as a view."""
    key = _expand(key, tensor.ndim)
    key, nd = _slices_to_exprs(key, tensor.shape)
    extents, exprs, dyn, vector = {}, [], [], None
    for d, k in enumerate(key):
        if isinstance(k, NkiTensor):
            vector, k = _index_tensor(tensor, d, k, vector, dyn)
            if vector is not None and vector[0] == d:
                extents[nd] = vector[1].size
        elif isinstance(k, (VirtualRegister, DynamicSum)):
            k = _dynamic_expr(tensor, d, k, dyn)
        elif not isinstance(k, Expr):
            k = _integer(k)
            k = Expr(k + tensor.shape[d] if k < 0 else k, {}, {}, 0)
        exprs.append(k)
        for axis, n in k.extents.items():
            mine = extents.get(axis, 1)
            if mine != 1 and n != 1 and mine != n:
                fail(f"index tiles for {tensor!r} do not broadcast: {mine} and {n}",
                     kind=KernelValueError)
            extents[axis] = max(mine, n)
    nd = max(nd, 2 if tensor.st.on_chip else 1)
    return _view(tensor, exprs, extents, nd, dyn, vector)


def _view(tensor, exprs, extents, nd, dyn, vector):
    shape = tuple(extents.get(nd - a, 1) for a in range(nd))
    strides = [0] * nd
    part, off = tensor.part, 0
    limits = []
    for d, e in enumerate(exprs):
        size, stride = tensor.shape[d], tensor.strides[d]
        if tensor.st.on_chip and d == 0:
            for axis, c in e.coefs.items():
                if c and extents.get(axis, 1) > 1 and (axis != nd or c != 1):
                    fail("the partition index must be consecutive and on the first axis of the "
                         "index tiles", kind=KernelValueError)
            if nd not in e.coefs and extents.get(nd, 1) > 1:
                fail("the partition dimension is indexed by a constant while the first axis of the "
                     "index tiles has more than one element", kind=KernelValueError)
            part += e.const
        else:
            if tensor.st.on_chip and e.coefs.get(nd) and extents.get(nd, 1) > 1:
                fail("a free dimension is indexed by the partition index; every partition must "
                     "share one access pattern", kind=KernelValueError)
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
    view = NkiTensor(tensor.st, part, tensor.off + off * tensor.dtype.itemsize, shape,
                     tuple(strides), tensor.dtype, ((tensor.dyn or ()) + tuple(dyn)) or None)
    if limits:
        view._ref = OutOfBounds(tensor, limits)
    return view


class OutOfBounds:
    """Stands in a view's operand slot until a mask has cut the view to fit."""

    __slots__ = ("tensor", "limits")

    def __init__(self, tensor, limits):
        self.tensor, self.limits = tensor, limits

    def complain(self):
        d, size, _, _ = self.limits[0]
        fail(f"index out of bounds in dimension {d} of {self.tensor!r}, which has {size} there "
             "(a mask could cut it)", kind=KernelIndexError)


def _index_tensor(tensor, d, k, vector, dyn):
    if k.size == 1 and not (d == 0 and not tensor.st.on_chip):
        dyn.append(dynamic_entry(tensor, k, tensor.strides[d], tensor.shape[d]))
        return vector, Expr(0, {}, {}, 0)
    if tensor.st.on_chip or vector is not None:
        fail("an index tensor may select rows of a tensor in HBM only, one dimension at a time",
             kind=KernelValueError)
    dyn.append(("vector", k, tensor.strides[d], tensor.shape[d], 0))
    return (d, k), Expr(0, {}, {}, 0)


def _dynamic_expr(tensor, d, k, dyn):
    if isinstance(k, VirtualRegister):
        dyn.append(dynamic_entry(tensor, k, tensor.strides[d], tensor.shape[d]))
        return Expr(0, {}, {}, 0)
    dyn.append(dynamic_entry(tensor, k.index, tensor.strides[d] * k.scale, 0))
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
            fail(f"a mask over {tuple(shape)} cuts dimension {at} of {view!r}, which is of another "
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
    out = NkiTensor(view.st, part, off, tuple(new), view.strides, view.dtype, dyn)
    bad = view._ref
    if isinstance(bad, OutOfBounds):
        _check_limits(bad, box, lead, new, out)
    return out


def _cut_rows(index, rows, view):
    low, high = rows
    return index if (low, high) == (0, view.shape[0]) else index[low:high]


def _check_limits(bad, box, lead, shape, out):
    for d, size, const, coefs in bad.limits:
        low = high = const
        for at, c in coefs.items():
            first, last = c * box[at + lead][0], c * (box[at + lead][1] - 1)
            low, high = low + min(first, last), high + max(first, last)
        if low < 0 or high >= size:
            out._ref = bad
            return
