"""Reports loop bodies that change a list, dict or attribute: neuronxcc.nki's compiler, which went
through the body once, would have made the change once. Also bodies of dynamic loops that change a
name, which are recorded once.

loop_names gives the names of a kernel what one trace leaves in them. Other things that a body changes stay as Python
has them, changed in every iteration, where one trace changed them once. That is said at the loop.
"""

import ast
import functools
import types
from typing import Any

from ..values.errors import in_aws_library, kernel_frame
from ..values.tensor import NkiTensor
from .loop_names import CarriedNames, cannot_change
from .refusals import report_refused_at
from .rewriting import definition_of

_CONTAINERS = (list, dict, set)
_NOT_OWN = ("nkisim", "nki", "neuronxcc", "numpy", "builtins")
_MOST = 4096  # elements of a container that are compared


def _own_object(value):
    """True of an object whose attributes a kernel may use as variables."""
    return hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)) and not callable(value) and \
        type(value).__module__.split(".")[0] not in _NOT_OWN


def _content(value):
    """The part of a value that can change; None: nothing."""
    if isinstance(value, _CONTAINERS):
        if len(value) > _MOST:
            return len(value)
        return list(value.items()) if isinstance(value, dict) else list(value)
    if _own_object(value):
        return [(name, v) for name, v in vars(value).items() if cannot_change(v) or isinstance(v, _CONTAINERS)]
    return None


def _same(a, b):
    if type(a) is not type(b) or isinstance(a, list) and len(a) != len(b):
        return False
    if isinstance(a, (list, tuple)):
        return all(map(_same, a, b))
    return a is b or cannot_change(a) and bool(a == b)


@functools.lru_cache(maxsize=256)
def _carried(code, line):
    """The names that an iteration of the loop at a line may find as the one before it left them."""
    shared = {*code.co_cellvars, *code.co_freevars, *code.co_names}  # another function may set them
    definition = definition_of(code)
    for node in ast.walk(definition) if definition is not None else ():
        if isinstance(node, (ast.For, ast.While)) and node.lineno + code.co_firstlineno - 1 == line:
            names = CarriedNames(node.body)
            return names.carried | shared - names.set
    return shared


class LoopState:
    """The values that the function with a traced loop can see, as they were before the loop."""

    def __init__(self, frame: types.FrameType) -> None:
        self.frame, self.line = frame, frame.f_lineno
        seen = self._seen()
        self.carried = _carried(frame.f_code, self.line)
        self.numbers = {name: seen[name] for name in self.carried if name in seen and cannot_change(seen[name])}
        self.objects: dict[str, tuple[Any, Any]] = {}
        for name, value in seen.items():
            content = _content(value)
            if content is not None:
                self.objects[name] = value, _copied(content)

    def _seen(self):
        """Values by name: the function's own, and of the module's those that it names."""
        seen, of_module = dict(self.frame.f_locals), self.frame.f_globals
        for name in self.frame.f_code.co_names:
            if name in of_module:
                seen.setdefault(name, of_module[name])
        return {name: value for name, value in seen.items() if not name.startswith("_nkisim_")}

    def compare(self) -> None:
        """After an iteration: says what it has changed."""
        seen, kept = self._seen(), self._kept()
        changed = [f"{name} ({held!r}, then {seen[name]!r})" for name, held in self.numbers.items()
                   if name not in kept and name in seen and not _same(held, seen[name])]
        changed += [f"{name} (a {type(value).__name__})" for name, (value, content) in self.objects.items()
                    if name not in kept and name in seen and (
                        not _same(content, _copied(_content(value))) if seen[name] is value else name in self.carried)]
        if changed:
            report_refused_at("state_of_a_loop", self.frame.f_code.co_filename, self.line, names=", ".join(changed))

    def _kept(self):
        """The names that the kernel's own source gives back what they were."""
        return {name for known, values in self.frame.f_locals.items() if known.startswith("_nkisim_kept")
                for name in values}


class OnceRecorded:
    """The numbers and tiles that the function with a dynamic loop held before it, by the names that an iteration
    reads before it sets them. The device computes with these in every iteration."""

    def __init__(self) -> None:
        self.frame = None if in_aws_library() else kernel_frame()
        if self.frame is None:
            return
        self.line = self.frame.f_lineno
        names, seen = _carried(self.frame.f_code, self.line), self.frame.f_locals
        self.held = {name: seen[name] for name in names if name in seen and seen[name] is not None and
                     (cannot_change(seen[name]) or isinstance(seen[name], NkiTensor))}

    def compare(self) -> None:
        """After the body: says what it has changed."""
        if self.frame is None:
            return
        seen = self.frame.f_locals
        changed = [name for name, held in self.held.items() if name in seen and not _same(held, seen[name])]
        if changed:
            report_refused_at("state_of_a_dynamic_loop", self.frame.f_code.co_filename, self.line,
                              names=" and ".join(sorted(changed)))


def _copied(content):
    return [tuple(_copied(v) if isinstance(v, list) else v for v in item) if isinstance(item, tuple) else item
            for item in content] if isinstance(content, list) else content
