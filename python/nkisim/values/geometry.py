"""Computes shapes and strides of tensor views."""

from .errors import KernelValueError, fail
from .storage import product


def infer_shape(shape, total, view):
    known = product(s for s in shape if s != -1)
    if shape.count(-1) == 1 and known and total % known == 0:
        shape = tuple(total // known if s == -1 else s for s in shape)
    if product(shape) != total or -1 in shape:
        fail("view_shape",
             f"shape {shape} has {product(shape)} elements; {total} are required for {view!r}",
             "reshape", KernelValueError)
    return shape


def reshape_strides(old_shape, old_strides, shape):
    """Strides that show the same elements in the same order under `shape`, or None."""
    old = [(n, s) for n, s in zip(old_shape, old_strides) if n != 1]
    new_strides = [0] * len(shape)
    i = 0
    j = 0
    while j < len(shape):
        if shape[j] == 1:
            j += 1
            continue
        if i >= len(old):
            return None
        # Group old dims and new dims whose products agree.
        oi, oj = i, j
        op, np_ = old[i][0], shape[j]
        while op != np_:
            if op < np_:
                i += 1
                if i >= len(old):
                    return None
                op *= old[i][0]
            else:
                j += 1
                if j >= len(shape):
                    return None
                np_ *= shape[j]
        for a in range(oi, i):
            if old[a][1] != old[a + 1][0] * old[a + 1][1]:
                return None
        step = old[i][1]
        for b in range(j, oj - 1, -1):
            new_strides[b] = step
            step *= shape[b]
        i += 1
        j += 1
    # A size-1 dimension gets the stride a contiguous layout would give it.
    for b in range(len(shape) - 1, -1, -1):
        if shape[b] == 1:
            new_strides[b] = (new_strides[b + 1] * shape[b + 1]) if b + 1 < len(shape) else 1
    return tuple(new_strides)


def rescale(view, new_size):
    old_size = view.dtype.itemsize
    shape, strides = list(view.shape), list(view.strides)
    if shape[-1] != 1 and strides[-1] != 1:
        fail("view_shape",
             f"{view!r} has stride {strides[-1]} in its last dimension; 1 is required", "view",
             KernelValueError)
    total = shape[-1] * old_size
    if total % new_size or any(s * old_size % new_size for s in strides[:-1]):
        fail("view_shape",
             f"the last dimension of {view!r} has {total} bytes; a multiple of {new_size} is "
             "required", "view", KernelValueError)
    shape[-1] = total // new_size
    strides = [s * old_size // new_size for s in strides[:-1]] + [1]
    return tuple(shape), tuple(strides)
