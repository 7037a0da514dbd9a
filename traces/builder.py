"""Writes programs as readable files (docs/trace-format.md), one NKI instruction per line.

The builder names tensors, counts addresses and remembers which source line asked for what. It knows
nothing about instructions: `t.tensor_tensor(dst=..., op="add")` is written down as it stands, and
nkisim says what is wrong with it.
"""
import contextlib
import json
import sys
from pathlib import Path

BYTES = {"float32": 4, "tfloat32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2,
         "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "float8_e4m3": 1, "float8_e5m2": 1,
         "float8_e4m3fn": 1}
FOLDER = Path(__file__).resolve().parent


class Register(int):
    """A sequencer register, by number."""

    def __str__(self):
        return f"r{int(self)}"


class Tensor:
    """A declared tensor; indexing it gives the operand that names the slice."""

    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, tuple(shape), dtype

    def __str__(self):
        return self.name

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        return self.name + "[" + ",".join(_text(i) for i in index) + "]"

    def ap(self, pattern, offset=0, partitions=None):
        """An explicit access pattern: [[step, count], ...] in elements, from `offset` bytes."""
        operand = {"tensor": self.name}
        if offset:
            operand["offset"] = offset
        if partitions:
            operand["partitions"] = partitions
        operand["ap"] = pattern
        return operand


def _text(index):
    if not isinstance(index, slice):
        return str(index)
    start, stop = ("" if i is None else str(i) for i in (index.start, index.stop))
    return f"{start}:{stop}" + ("" if index.step is None else f":{index.step}")


def _plain(value):
    if isinstance(value, Register):
        return int(value)
    return str(value) if isinstance(value, Tensor) else value


class Trace:
    """Collects the lines of one trace; `locations`: say which line of the script wrote each."""

    def __init__(self, name, about, target="trn2", locations=True, **header):
        self.lines = [{"nisa": 1, "target": target, "name": name, "about": about, **header}]
        self.tensors = {}
        self._locations = locations
        self._next = {"sbuf": 0, "psum": 0}
        self._registers = 0

    # Tensors ------------------------------------------------------------------------------------
    def input(self, name, shape, dtype, **data):
        """An HBM tensor filled before the program starts, by generator= and seed= or by values=."""
        return self._declare(name, "hbm", shape, dtype, role="input", data=data)

    def output(self, name, shape, dtype):
        return self._declare(name, "hbm", shape, dtype, role="output")

    def hbm(self, name, shape, dtype):
        """A tensor of the kernel's own."""
        return self._declare(name, "hbm", shape, dtype)

    def sbuf(self, name, shape, dtype, address=None):
        return self._on_chip(name, "sbuf", shape, dtype, address)

    def psum(self, name, shape, dtype="float32", bank=None):
        """A PSUM tile; every tile starts a bank of 2 KiB per partition."""
        address = -(-self._next["psum"] // 2048) * 2048 if bank is None else bank * 2048
        return self._on_chip(name, "psum", shape, dtype, address)

    def _on_chip(self, name, space, shape, dtype, address):
        size = BYTES[dtype]
        for n in shape[1:]:
            size *= n
        if address is None:
            address = -(-self._next[space] // 32) * 32
        self._next[space] = max(self._next[space], address + size)
        return self._declare(name, space, shape, dtype, address=address)

    def _declare(self, name, space, shape, dtype, **rest):
        tensor = {"name": name, "space": space, "shape": list(shape), "dtype": dtype}
        tensor.update({k: v for k, v in rest.items() if v is not None and v != {}})
        self.lines.append({"tensor": tensor})
        self.tensors[name] = tensor
        return Tensor(name, shape, dtype)

    @staticmethod
    def moved(operand, **dynamic):
        """`operand` with an offset known at run time: register=, scalar= or vector=, and stride=."""
        base = operand if isinstance(operand, dict) else {"tensor": str(operand)}
        return {**base, "dynamic": [{k: _plain(v) for k, v in dynamic.items()}]}

    # Instructions -------------------------------------------------------------------------------
    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)

        def instruction(**args):
            self._instruction(op, args)
        return instruction

    def register(self):
        self._registers += 1
        return Register(self._registers - 1)

    @contextlib.contextmanager
    def loop(self, start, stop, step=1):
        """for register in range(start, stop, step), run by the sequencers."""
        register = self.register()
        self._instruction("loop_begin", dict(register=register, start=start, stop=stop, step=step),
                          depth=4)
        yield register
        self._instruction("loop_end", {}, depth=4)

    def _instruction(self, op, args, depth=3):
        line = {"i": op}
        for name, value in args.items():
            if value is None or value == []:
                continue
            line[name] = str(value) if isinstance(value, (Tensor, Register)) else value
        if self._locations:
            line["loc"] = _caller(depth)
        self.lines.append(line)

    def text(self):
        return "".join(json.dumps(line, separators=(", ", ": ")) + "\n" for line in self.lines)


def _caller(depth):
    frame = sys._getframe(depth)
    path = Path(frame.f_code.co_filename).resolve()
    while FOLDER / "kernels" not in path.parents and frame.f_back:
        frame = frame.f_back
        path = Path(frame.f_code.co_filename).resolve()
    return f"{path.relative_to(FOLDER.parent).as_posix()}:{frame.f_lineno}"
