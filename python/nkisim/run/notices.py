"""Warns once where a run differs from what its caller may expect: float64 narrowed, a gradient
lost.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from . import hostarrays

_reported: set[tuple[CodeType | None, str]] = set()


def _once(function: Callable[..., Any], what: str, message: str) -> None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if (code, what) in _reported:
        return
    _reported.add((code, what))
    file, line = (code.co_filename, code.co_firstlineno) if code else ("nkisim", 0)
    warnings.warn_explicit(message, UserWarning, file, line)


def warn_narrowed(function: Callable[..., Any], named: Iterable[tuple[Any, str]]) -> None:
    """Says which arguments are float64, of which the device has none."""
    for host, name in named:
        if str(getattr(host, "dtype", "")).removeprefix("torch.") == "float64":
            _once(function, f"float64 {name}", f"argument {name} is float64, which the device has not: the kernel "
                  "computes with float32 (give it as float32 to say so)")


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from _leaves(v)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def warn_gradient_lost(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Says that a kernel which is called on tensors of torch's graph is no part of it."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "is_grad_enabled") or not torch.is_grad_enabled():
        return
    if any(hostarrays.is_torch(v) and v.requires_grad for v in _leaves([args, kwargs])):
        name = getattr(function, "__name__", "the kernel")
        _once(function, "gradient", f"{name} is called on a tensor that requires a gradient, and its result has none: "
              "what depends on it is left out of backward(). Make it an operator with torch_neuronx.nki_op with a "
              "register_autograd, or call it under torch.no_grad() (docs/frameworks.md)")
