"""Reports a Python exception that a wrong kernel argument causes inside nkisim as an error at the
kernel's line.
"""

import inspect
import linecache
import re

from ..values.errors import KernelAttributeError, KernelIndexError, KernelTypeError, KernelValueError, is_ours
from ..values.hooks import above
from ..values.operators import ELSEWHERE, Operators
from ..values.spelling import similar_names
from .wrong_kinds import wrong_argument

_KINDS = ((TypeError, KernelTypeError), (AttributeError, KernelTypeError),
          (LookupError, KernelIndexError), (ArithmeticError, KernelValueError),
          (ValueError, KernelValueError), (OSError, KernelValueError))
_LONGEST = 60  # characters of an argument's text
#: Values that a kernel may be called with by mistake, and what it asks of an array.
_NO_ARRAYS = (list, tuple, int, float, bool, str, type(None))
_OF_ARRAYS = ("shape", "dtype", "ndim", "reshape", "buffer", "ap")


def is_library(frame):
    """True if a frame belongs to a package that kernels and the front end call."""
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
        held = info.locals[extra] if extra is not None else None
        if isinstance(held, dict):
            values += held.items()
        elif extra is not None and held:
            values += [(extra, held)]
    return ", ".join(f"{n}={_text(v)}" for n, v in values)


_CALLS = (
    (re.compile(r"(?:[\w<>]+\.)*(\w+)\(\) missing \d+ required [\w-]+ arguments?: (.*)"), "argument_missing",
     "{} is missing"),
    (re.compile(r"(?:[\w<>]+\.)*(\w+)\(\) got an unexpected keyword argument '(\w+)'"), "argument_count",
     "{} is none of its arguments"),
    (re.compile(r"(?:[\w<>]+\.)*(\w+)\(\) got multiple values for argument '(\w+)'"), "argument_count",
     "{} is given twice, by its place and by its name"),
    (re.compile(r"(?:[\w<>]+\.)*(\w+)\(\) takes .* positional arguments? but (\d+)"), "argument_count",
     "{} arguments are given by place"))


def _misspelt(problem):
    """An Error for a call in the kernel's own line whose arguments do not fit a function of nki; None for any
    other exception."""
    tb = problem.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None or type(problem) is not TypeError or is_ours(tb.tb_frame.f_code):
        return None
    return unfitting(problem, (tb.tb_frame.f_code.co_filename, tb.tb_lineno),
                     lambda name, needed: (name, _function(tb, name, needed)))


def unfitting(problem, place, called):
    """An Error at `place` (file, line) for arguments that do not fit; called(name, needed) gives the function's name
    and itself, None for none. None for any other exception."""
    message = re.sub(r"(\w+)\.__init__\(\)", r"\1()", str(problem))  # a class is called by its name
    for pattern, rule, said in _CALLS:
        found = pattern.match(message)
        if found is None:
            continue
        needed = re.findall(r"'(\w+)'", found[2]) if rule == "argument_missing" else ()
        name, function = called(found[1], needed)
        if function:
            names, by_name = _parameters(function)
            given = found[2].replace("'", "")
            if given.isdecimal() and message != str(problem):
                given = str(int(given) - 1)  # but for self
            text = f"{said.format(given)}; {name}({', '.join(names)}) is required"
            if by_name and said.endswith("by place"):
                text += f": {', '.join(f'{n}=' for n in by_name)} by name"
            if names[:1] == ["shape"] and rule == "argument_count":
                text += ": shape is one tuple, such as (128, 512)"
            if names[:1] == ["dst"] and name != "store":
                text += " (it writes dst, a tile such as nl.ndarray(shape, dtype, buffer=nl.sbuf), and gives none back)"
            return KernelTypeError(text, rule=rule, instruction=name, kernel_file=place[0],
                                   kernel_line=place[1]).with_traceback(problem.__traceback__)
    return None


def _parameters(function):
    """The parameters of a function as its signature has them, "*" before those that are given by name, and these."""
    names: list[str] = []
    by_name: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            names += [] if by_name else ["*"]
            by_name.append(name)
        names.append(name)
    return names, by_name


def _no_attribute(problem):
    """An Error for a method or field that a tensor, a grid or a register of the kernel has not; None for any other
    exception."""
    kind = type(getattr(problem, "obj", None))
    name = getattr(problem, "name", None)
    tb = problem.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if not isinstance(problem, AttributeError) or tb is None or not name or is_ours(tb.tb_frame.f_code):
        return None
    if kind in _NO_ARRAYS and name in _OF_ARRAYS:
        grid = "; a launch grid stands in brackets: kernel[2](x)" if kind is int else ""
        return KernelAttributeError(f"{_text(problem.obj)} has no {name}; an array (np.array of a list) as the "
                                    f"kernel's argument is required{grid}", rule="tensor_required",
                                    kernel_file=tb.tb_frame.f_code.co_filename,
                                    kernel_line=tb.tb_lineno).with_traceback(problem.__traceback__)
    if not kind.__module__.startswith("nkisim."):
        return None
    members = getattr(problem.obj, "members", None)  # of an enumeration
    known = list(members) if members else [n for n in dir(kind) if not n.startswith("_") and n not in ELSEWHERE]
    what = "a tensor" if issubclass(kind, Operators) else (
        getattr(problem.obj, "__name__", "") if members else kind.__name__)
    same = name.rstrip("_")  # of torch: add_ changes its tensor
    said = (f"use nl.{same}(tile, ...)" if what == "a tensor" and same in above.functions else
            similar_names(name, known) or f"it has {', '.join(known[:8])} ...")
    return KernelAttributeError(f"{what} has no {name}; {said}", rule="unsupported_call",
                                kernel_file=tb.tb_frame.f_code.co_filename,
                                kernel_line=tb.tb_lineno).with_traceback(problem.__traceback__)


def _function(tb, name, needed):
    """The function of nki that a traceback's line calls `name`, or as an attribute of a module, and that has the
    parameters `needed`; None if none."""
    frame = tb.tb_frame
    line = linecache.getline(frame.f_code.co_filename, tb.tb_lineno)
    seen = {**frame.f_globals, **frame.f_locals}
    modules = re.findall(rf"(\w+)\.{name}\(", line)
    for value in (*[seen[m] for m in modules if m in seen], *seen.values()):
        one = getattr(value, name, None) if inspect.ismodule(value) else value
        one = getattr(one, "function", one)
        if inspect.isfunction(one) and one.__name__ == name and is_ours(one.__code__) and all(
                n in inspect.signature(one).parameters for n in needed):
            return one
        if inspect.isclass(one) and one.__name__ == name and one.__module__.startswith("nkisim."):
            return one
    return None


def _of_argument(problem, kind, instruction, location, held=None):
    """An Error that names the argument of a wrong kind; None if none is found."""
    place = dict(kernel_file=location[0], kernel_line=location[1])
    absent = re.match(r"(?:[\w<>]+\.)*(\w+)\(\) missing \d+ required [\w-]+ arguments?: (.*)", str(problem))
    if absent and not instruction:  # of an older function, which leaves out what is None
        return KernelTypeError(f"{absent[2].replace(chr(39), '')} is None; a value is required",
                               rule="argument_missing", instruction=absent[1], **place)
    found = wrong_argument(problem, held)
    if found is None:
        return None
    operand, value, required = found
    rule = "tensor_required" if required.startswith("a tensor") else "python_value"
    return kind(rule=rule, instruction=instruction, operand=operand, found=value, required=required, **place)


def as_error(problem, location=None, held=None):
    """An Error at the kernel's line for an exception out of the front end; None for any other.

    location: the file and line of a call that was held back, which the traceback does not have; held: its function.
    """
    kernel, called = _call(problem)
    kind = next((k for base, k in _KINDS if isinstance(problem, base)), None)
    if kind is not None and location is not None:
        return _of_argument(problem, kind, "", location, held) or kind(
            str(problem), rule="python_exception", kernel_file=location[0], kernel_line=location[1])
    if kernel is None or kind is None:
        return _misspelt(problem) or _no_attribute(problem)
    name = called.f_code.co_name
    op = called.f_locals.get("self")
    if name == "__call__" and hasattr(op, "name"):  # nl.exp and its like
        name = op.name
        found = problem.__traceback__
        while found.tb_next is not None:
            found = found.tb_next
        if found.tb_frame is called and (error := unfitting(
                problem, (kernel.tb_frame.f_code.co_filename, kernel.tb_lineno), lambda *_: (op.name, op.function))):
            return error
    place = kernel.tb_frame.f_code.co_filename, kernel.tb_lineno
    found = _of_argument(problem, kind, name, place)
    if found is not None:
        return found.with_traceback(problem.__traceback__)
    found = kind(f"{problem} (called with {_operands(called)})", rule="python_exception",
                 instruction=name, kernel_file=place[0], kernel_line=place[1])
    return found.with_traceback(problem.__traceback__)
