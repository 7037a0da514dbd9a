"""Calls kernels on shapes alone, without values, to find the shapes and dtypes of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..record.recorder import Recorder
from ..values.errors import Error
from ..values.shape import Shape
from ..values.tensor import NkiTensor
from .kernel import Kernel
from .memory_bound import MemoryBound
from .options import Options
from .recording import Arguments, kernel_frames, record
from .session import set_roles


class Recording:
    """A kernel recorded on shapes.

    outputs: what the kernel returns, with a Shape in each tensor's place. written: the Shape of
    each argument that it writes, by name ("cache", "tensors_0" within a list or dictionary).
    aliases: for each output in the order of a walk through `outputs`, the argument that it is (the
    very object that was given), else None. instructions: how many were recorded.
    """

    def __init__(self, recorder: Recorder, returned: Any, arguments: Arguments) -> None:
        self._written = [(host, t) for host, t in arguments.pairs if recorder.program.written(t.st.id)]
        self.written = {t.st.name: _shape(t) for _, t in self._written}
        self.aliases: list[Any] = []
        self.returned: set[str] = set()  # names of the arguments of which it returns all or a part
        self._arguments = {t.st.id: (host, t) for host, t in arguments.pairs}
        self.outputs = self._shapes(returned)
        self.instructions = len(recorder.program)

    def writes(self, host: Any) -> bool:
        """True if the kernel writes this argument (the very object that it was given)."""
        return any(h is host for h, _ in self._written)

    def _shapes(self, value):
        if isinstance(value, NkiTensor):
            host, argument = self._arguments.get(value.st.id, (None, None))
            self.returned.update([argument.st.name] if argument is not None else [])
            whole = argument is not None and value.is_identity() and value.shape == argument.shape
            self.aliases.append(host if whole else None)
            return _shape(value)
        if isinstance(value, (list, tuple)):
            items = [self._shapes(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {k: self._shapes(v) for k, v in value.items()}
        return value


def _shape(tensor):
    return Shape(tensor.shape, tensor.dtype)


def record_shapes(kernel: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any],
                  grid: Any = None, options: Options | None = None) -> Recording:
    """The Recording of a kernel (see nkisim.shapes)."""
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    try:
        with MemoryBound():
            recorder, returned, arguments = record(
                kernel.func, args, kwargs, kernel.grid if grid is None else grid,
                options or kernel.options(), kernel.dialect, values=False)
    except Error as problem:
        raise problem.with_traceback(kernel_frames(problem.__traceback__)) from None
    recorder.program.finish()
    recording = Recording(recorder, returned, arguments)
    set_roles(kernel.func, recorder, returned, [t for _, t in recording._written])
    return recording


def shapes(kernel: Callable[..., Any], *args: Any, target: str | None = None, grid: Any = None,
           **kwargs: Any) -> Recording:
    """Records a kernel on shapes alone; a Recording. Nothing is compiled or run.

        nkisim.shapes(matmul, nkisim.Shape((128, 512), "bfloat16"), w).outputs

    An argument that has a shape and a dtype stands for an array: nkisim.Shape, a NumPy, torch or
    JAX array (whose values are not looked at), torch's meta and fake tensors, jax.ShapeDtypeStruct.
    A kernel that looks at a tile's values is an error at its line.
    """
    return record_shapes(kernel, args, kwargs, grid, None if target is None else Options(target))
