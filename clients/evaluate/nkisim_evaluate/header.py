"""Checks the header of a submitted kernel's instruction file against the one that is expected."""

from __future__ import annotations

import ast
import math
import os
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from nkisim.record.targets import generation_of
from nkisim.values import dtypes
from nkisim.values.errors import sdk

from .testimony import Stop

#: Cores that a launch grid of one axis stands for, at most.
_PAIR = 2
APIS = ("nki", "neuronxcc")
_PARSED = 1 << 20  # characters
_parsing = threading.Lock()  # two parsers at a time end in a SystemError in Python 3.11 (CPython issue 106905)


def cores_of(grid: Any, target: str | None) -> int:
    """The most cores that a program of a launch grid runs on. A grid of the kernel's own (None here) may take those of
    one logical core: two from trn2 on."""
    if grid is None:
        return _PAIR if target is None or generation_of(target) >= 3 else 1
    axes = grid if isinstance(grid, (list, tuple)) else [grid]
    return axes[0] if len(axes) == 1 and type(axes[0]) is int and 1 <= axes[0] <= _PAIR else 1


def apis_of(text: str) -> tuple[str, ...]:
    """The APIs that a text may record a kernel of: neuronxcc.nki only where it is imported, anywhere."""
    if len(text) > _PARSED:  # whose syntax tree would take gigabytes
        return APIS if "neuronxcc" in text else APIS[:1]
    try:
        with _parsing:
            tree = ast.parse(text)
    except SystemError:  # the caller's own threads parse as well
        return APIS if "neuronxcc" in text else APIS[:1]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return APIS  # it records nothing
    named: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named.append(node.module or "")
        elif isinstance(node, ast.Call):  # importlib.import_module("neuronxcc.nki")
            named += [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return APIS if any(name.split(".")[0] == "neuronxcc" for name in named) else APIS[:1]


def check(facts: Mapping[str, Any], cores: int, apis: tuple[str, ...]) -> None:
    """Stop where what a program says of itself in its header is not what this evaluation is about. `facts`: as the
    simulator found them (docs/jobs.md, "recorded")."""
    if facts["cores"] > cores:
        raise _other("cores", facts["cores"], f"at most {cores} by the launch grid")
    if facts["api"] not in apis:
        raise _other("API", facts["api"], f"{' or '.join(apis)}, which is what the candidate imports")
    if facts["sdk"] != f"2.{sdk()}":
        raise _other("SDK", facts["sdk"], f"2.{sdk()}")


def check_argument(found: Mapping[str, Any], array: np.ndarray) -> None:
    """Stop where a program has an argument of another dtype or shape than recording gives the array: it would be
    converted for nothing."""
    own = dtypes.stored_dtype(dtypes.dtype_of_array(array.dtype), os.environ.get("NKI_PRECISE_FP") != "0")
    if dtypes.find(found["dtype"]) is not own or math.prod(found["shape"]) != array.size:
        raise _other(f"argument {found['tensor'][:80]}", f"{found['dtype']} {found['shape']}",
                     f"{own} {list(array.shape)}, as the array has it,")


def _other(what, found, required):
    message = f"the program's {what}: {found}; {required} is required"
    return Stop("illegal", code="bad_input", kind="trace_header", rule="trace_header", message=message)
