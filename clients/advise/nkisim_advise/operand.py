"""Describes an operand of an instruction as numbers: its start, its partitions, its access pattern."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Ref:
    """`offset` in bytes; on chip within a partition, `partition` and `partitions` then say which. `pattern`: (step in
    elements, count), outermost first; in HBM over all dimensions, on chip over the free ones. `opaque`: the
    operand as the trace has it, if it depends on something known only at run time or runs backwards."""
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


def _whole(tensor):
    """All of an on-chip tensor, row-major."""
    pattern, step = (), 1
    for count in reversed(tensor["shape"][1:]):
        pattern, step = ((step, count), *pattern), step * count
    return Ref(tensor["name"], 0, pattern, 0, tensor["shape"][0])


def parse(value, tensors):
    """The Ref of an operand as `nkisim convert --patterns` writes it, or of a tile that an edit has made, by its name;
    None if it is no memory of a tensor. tensors: their declarations by name."""
    if isinstance(value, str):
        return _whole(tensors[value])
    if not isinstance(value, dict) or "tensor" not in value:
        return None
    pattern = tuple(map(tuple, value["ap"])) or ((1, 1),)
    opaque = value if "dynamic" in value or any(step < 0 for step, _ in pattern) else None
    return Ref(value["tensor"], value.get("offset", 0), pattern, value.get("partition", 0), value.get("partitions", 0),
               value.get("dtype", ""), opaque)


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
