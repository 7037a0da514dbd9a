"""Describes an operand of an instruction as numbers: its start, its partitions, its access pattern."""

import re
from dataclasses import dataclass, replace

_TEXT = re.compile(r"^([^\[]+?)(?:\[(.*)\])?$")
#: Bytes per element of the dtypes that traces name; 4 values of an `_x4` are one element.
_SIZES = {"32": 4, "16": 2, "8": 1, "64": 8}


def element_bytes(dtype):
    """Bytes of one element."""
    if dtype.endswith("_x4"):
        return 2 if "float4" in dtype else 4
    if dtype in ("bool_", "bool"):
        return 1
    found = re.search(r"(64|32|16|8)", dtype)
    return _SIZES[found[1]] if found else 4


@dataclass(frozen=True)
class Ref:
    """`offset` in bytes; on chip within a partition, `partition` and `partitions` then say which. `pattern`: (step in
    elements, count), outermost first; in HBM over all dimensions, on chip over the free ones. `opaque`: the
    operand as the trace has it, if it depends on something known only at run time."""
    tensor: str
    offset: int
    pattern: tuple
    partition: int = 0
    partitions: int = 0
    dtype: str = ""
    opaque: object = None

    def moved(self, tensor, offset_bytes=0):
        """The same elements of another tensor, `offset_bytes` further on."""
        return replace(self, tensor=tensor, offset=self.offset + offset_bytes)

    def json(self):
        """As a trace has it."""
        if self.opaque is not None:
            return self.opaque
        out = {"tensor": self.tensor}
        if self.partitions:
            out.update(partition=self.partition, partitions=self.partitions)
        out.update(offset=self.offset, ap=[list(p) for p in self.pattern])
        if self.dtype:
            out["dtype"] = self.dtype
        return out

    def elements(self):
        """The number of elements, per partition on chip."""
        n = 1
        for _, count in self.pattern:
            n *= count
        return n


def strides(sizes):
    """Elements from one index to the next, row-major."""
    out = [1]
    for n in reversed(sizes[1:]):
        out.append(out[-1] * n)
    return tuple(reversed(out)) if sizes else ()


def _bound(text, otherwise, size):
    if not text:
        return otherwise
    n = int(text)
    return n + size if n < 0 else n


def _selection(text, size):
    """(first, count, step), and whether the dimension stays."""
    parts = text.strip().split(":")
    if len(parts) == 1:
        return _bound(parts[0], 0, size), 1, 1, False
    step = int(parts[2]) if len(parts) == 3 and parts[2] else 1
    if step < 0:
        raise ValueError(text)
    first = _bound(parts[0], 0, size)
    return first, max(0, -(-(_bound(parts[1], size, size) - first) // step)), step, True


def parse(value, tensors):
    """The Ref of an operand, None if it is no memory of a tensor. tensors: their declarations by name."""
    if isinstance(value, str):
        return _of_text(value, tensors)
    if not isinstance(value, dict) or "tensor" not in value:
        return None
    inner = _of_text(value["tensor"], tensors)
    if inner is None or value.get("dynamic") or inner.opaque:
        return inner and replace(inner, opaque=value)
    if "ap" not in value:
        return inner
    chip = tensors[inner.tensor].get("space", "hbm") != "hbm"
    whole = tensors[inner.tensor]["shape"][0]
    first = value.get("partition", 0)
    return Ref(inner.tensor, value.get("offset", 0), tuple(map(tuple, value["ap"])), first if chip else 0,
               value.get("partitions", whole - first) if chip else 0, value.get("dtype", ""))


def _of_text(text, tensors):
    name, inside = _TEXT.match(text).groups()
    if name not in tensors:
        return None
    tensor = tensors[name]
    shape, chip = tensor["shape"], tensor.get("space", "hbm") != "hbm"
    picked = [t for t in inside.split(",")] if inside is not None else []
    picked += [":"] * (len(shape) - len(picked))
    try:
        chosen = [_selection(t, n) for t, n in zip(picked, shape)]
    except ValueError:
        return Ref(name, 0, (), 0, shape[0] if chip else 0, opaque=text)
    size = element_bytes(tensor["dtype"])
    steps = strides(shape[1:] if chip else shape)
    free = chosen[1:] if chip else chosen
    offset = sum(first * s for (first, _, _, _), s in zip(free, steps))
    pattern = tuple((step * s, count) for (_, count, step, stays), s in zip(free, steps) if stays)
    if not chip:
        return Ref(name, offset * size, pattern or ((1, 1),))
    first, count, step, _ = chosen[0]
    if step != 1:
        return Ref(name, 0, (), 0, shape[0], opaque=text)
    return Ref(name, offset * size, pattern or ((1, 1),), first, count)


def is_whole(ref, tensor):
    """True if it is all of an on-chip tensor, each element once."""
    shape = tensor["shape"]
    if ref.opaque is not None or ref.offset or ref.partition or ref.partitions != shape[0] or ref.dtype:
        return False
    size = 1
    for step, count in sorted(ref.pattern):
        if count != 1:
            if step != size:
                return False
            size *= count
    free = 1
    for n in shape[1:]:
        free *= n
    return size == free
