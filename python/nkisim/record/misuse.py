"""Python exceptions that a kernel's argument causes inside the front end, as errors of the kernel."""

import inspect

from ..values.errors import KernelIndexError, KernelTypeError, KernelValueError, is_ours

_KINDS = ((TypeError, KernelTypeError), (AttributeError, KernelTypeError),
          (LookupError, KernelIndexError), (ArithmeticError, KernelValueError),
          (ValueError, KernelValueError), (OSError, KernelValueError))
_LONGEST = 60  # characters of an argument's text


def is_library(frame):
    """Whether a frame belongs to a package that kernels and the front end call."""
    name = frame.f_globals.get("__name__", "")
    return name.split(".")[0] in ("numpy", "ml_dtypes", "inspect", "functools")


def _call(problem):
    """The traceback entry of the kernel's line and the front end's frame it called, if the
    exception was raised there or in a library that the front end called."""
    kernel, called, began = None, None, False
    tb = problem.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        if is_ours(frame.f_code):
            called = called or frame
        elif not (called and is_library(frame)):
            kernel, called, began = tb, None, True
        tb = tb.tb_next
    return (kernel, called) if began and called else (None, None)


def _text(value):
    try:
        said = " ".join(repr(value).split())
    except Exception:  # a repr of the kernel's own
        said = object.__repr__(value)
    return said if len(said) <= _LONGEST else said[:_LONGEST] + "..."


def _operands(frame):
    info = inspect.getargvalues(frame)
    names = [n for n in info.args if n in info.locals]
    values = [(n, info.locals[n]) for n in names if not n.startswith("_")]
    for extra in (info.keywords, info.varargs):
        held = info.locals.get(extra)
        if isinstance(held, dict):
            values += held.items()
        elif held:
            values += [(extra, held)]
    return ", ".join(f"{n}={_text(v)}" for n, v in values)


def as_error(problem, location=None):
    """An Error at the kernel's line for an exception out of the front end; None for any other.

    location: the file and line of a call that was held back, which the traceback does not have.
    """
    kernel, called = _call(problem)
    kind = next((k for base, k in _KINDS if isinstance(problem, base)), None)
    if kind is not None and location is not None:
        return kind(str(problem), rule="python_exception", kernel_file=location[0],
                    kernel_line=location[1])
    if kernel is None or kind is None:
        return None
    name = called.f_code.co_name
    op = called.f_locals.get("self")
    if name == "__call__" and hasattr(op, "name"):  # nl.exp and its like
        name = op.name
    found = kind(f"{problem} (called with {_operands(called)})", rule="python_exception",
                 instruction=name,
                 kernel_file=kernel.tb_frame.f_code.co_filename, kernel_line=kernel.tb_lineno)
    return found.with_traceback(problem.__traceback__)
