"""Defines the error type that users see, with the kernel's own file, line and source text."""

from __future__ import annotations

import linecache
import numbers
import os
import sys
import threading
import warnings
from typing import Any, NoReturn

import numpy as np

from .environment import variable
from .links import MISTAKES, page_of

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Files of the front end, and of the threads it starts; frames in them are never the kernel's.
PACKAGE_DIRS = tuple(
    os.path.join(_ROOT, name) + os.sep
    for name in ("nkisim", "nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes",
                 "torch_neuronx", "jax_neuronx", "nkisim_legacy", "nkisim_torch", "nkisim_jax")
) + (threading.__file__,)


_NUMPY = os.path.dirname(np.__file__) + os.sep
_LONGEST = 100  # characters of a value's text


class Error(RuntimeError):
    """A kernel or run that breaks a rule.

    Attributes: code ("bad_input", "usage", "internal"), rule (its id: `nkisim explain RULE`),
    message (without any location), instruction, trace_line, kernel_file, kernel_line, source (the
    kernel's text at that line), callers ((file, line) of the kernel's calls that led there, the
    nearest first); operand, found and required, of a message that reads "OPERAND is
    FOUND; REQUIRED is required", else empty; limit, what an index must be below, else 0.
    """

    recorder: Any  # of the program that ran into it, once one did
    #: (file, line, message) of each finding of --strict that it is about.
    findings: tuple[tuple[str, int, str], ...] = ()
    stop: Any = None   # the run as it was at its stop_at (nkisim.Stop)
    stops: Any = None  # ... of a world, of each rank
    callers: tuple[tuple[str, int], ...] = ()

    def __init__(self, message: str = "", code: str = "bad_input", instruction: str = "",
                 trace_line: int = 0, kernel_file: str = "", kernel_line: int = 0,
                 rule: str = "", operand: str = "", found: str = "", required: str = "",
                 verb: str = "is") -> None:
        self.message = message or f"{operand} is {found}; {required} {verb} required"
        self.code = code
        self.rule = rule
        self.operand, self.found, self.required = operand, found, required.removesuffix(",")
        self.limit = 0
        self.instruction = instruction
        self.trace_line = trace_line
        self.kernel_file = kernel_file
        self.kernel_line = kernel_line
        self.source = linecache.getline(kernel_file, kernel_line).strip() if kernel_file else ""
        super().__init__(self._text())

    def at(self, kernel_file: str, kernel_line: int) -> None:
        """Moves the error to another line of the kernel."""
        self.kernel_file, self.kernel_line = kernel_file, kernel_line
        self.source = linecache.getline(kernel_file, kernel_line).strip()
        self.args = (self._text(),)

    def called_at(self, callers: tuple[tuple[str, int], ...]) -> None:
        """Names the calls that led to the error's line, the nearest one first."""
        self.callers = callers
        self.args = (self._text(),)

    def of_rank(self, rank: int) -> None:
        """Says which rank of a world it is of, if the message does not begin with one."""
        if not self.message.startswith("rank "):
            self.message = f"rank {rank}: {self.message}"
            self.args = (self._text(),)

    def say_also(self, text: str) -> None:
        """Adds to the message."""
        self.message += text
        self.args = (self._text(),)

    def _text(self):
        text = f"{self.instruction}: {self.message}" if self.instruction else self.message
        if self.rule:
            first, line_end, rest = text.partition("\n")
            text = f"{first} [{self.rule}]{line_end}{rest}"
        if self.kernel_file:
            text += f"\n  {self.kernel_file}:{self.kernel_line}"
            if self.source:
                text += f"\n    {self.source}"
            text += "".join(f"\n  called at {file}:{line}" for file, line in self.callers)
            page = page_of(self.rule) if self.rule in MISTAKES else None
            text += f"\n  help: {page}" if page else ""
        for file, line, message in self.findings:
            text += f"\n  {file}:{line}: {message}" if not self.message.endswith(message) else ""
        return text

    def with_findings(self, findings: tuple[tuple[str, int, str], ...]) -> Error:
        """This error, which names findings of --strict as well."""
        self.findings = findings
        self.args = (self._text(),)
        return self


class KernelTypeError(Error, TypeError):
    """Python that the NKI compiler would refuse, or a value of the wrong type."""


class KernelIndexError(Error, IndexError):
    """An index or slice outside a tensor."""


class KernelValueError(Error, ValueError):
    """An argument whose value is not allowed."""


class KernelAttributeError(Error, AttributeError):
    """A name that a tensor or a module of nki does not have."""


#: Releases of the SDK that have NKI (docs/gate.md); until 2.26 as neuronxcc.nki.
SDKS = tuple(f"2.{minor}" for minor in range(20, 34))
_file_is_ours = {}  # by name, whose hash strings keep; code objects compute theirs each time


def is_ours(code):
    """True if a code object is of the front end, or generated by it."""
    file = code.co_filename
    ours = _file_is_ours.get(file)
    if ours is None:
        ours = _file_is_ours[file] = file.startswith((*PACKAGE_DIRS, "<nkisim"))
    return ours


for _kind in (Error, KernelTypeError, KernelIndexError, KernelValueError, KernelAttributeError):
    _kind.__module__ = "nkisim"  # where users import them from, and what tracebacks say


def of_numpy(code):
    """True if a code object is NumPy's: a kernel may call its functions with our tensors."""
    return code.co_filename.startswith(_NUMPY)


def kernel_frame():
    """The innermost frame outside the front end and NumPy."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _file_is_ours.get(code.co_filename)  # most calls end here
        if not (is_ours(code) if ours is None else ours) and not of_numpy(code):
            return frame
        frame = frame.f_back
    return None


#: AWS's own library: it compiles, whatever the documents say of what it uses.
COMPILES = ("nkilib", "nkilib_src")


def is_aws_library(frame):
    """True if a frame is of AWS's library."""
    return frame.f_globals.get("__name__", "").split(".")[0] in COMPILES


def in_aws_library():
    """True if the innermost frame of the kernel is AWS's library's."""
    frame = kernel_frame()
    return frame is not None and is_aws_library(frame)


def fail(rule: str, message: str, instruction: str = "", kind: type[Error] = Error, **parts: Any) -> NoReturn:
    """Raises `kind`, of a rule of isa/rules/rules.def, located at the kernel's line."""
    frame = kernel_frame()
    if frame is not None:
        parts.update(kernel_file=frame.f_code.co_filename, kernel_line=frame.f_lineno)
    raise kind(message, instruction=instruction, rule=rule, **parts)


def short(value: Any) -> str:
    """A value as a message has it: on one line, the same in every run, and no longer than that."""
    if isinstance(value, np.ndarray):
        return f"an array {value.shape} of {value.dtype}"
    if callable(value) and not isinstance(value, type):
        return f"the function {getattr(value, '__name__', type(value).__name__)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def fail_on(rule: str, operand: Any, found: Any, required: Any, instruction: str = "",
            kind: type[Error] = Error, verb: str = "is") -> NoReturn:
    """The same with the message "OPERAND is FOUND; REQUIRED is required"."""
    fail(rule, "", instruction, kind, operand=str(operand), found=str(found), required=str(required),
         verb=verb)


def is_integer(value):
    """True for an integer of Python or NumPy; an operator or a register is none."""
    return isinstance(value, numbers.Integral) and not hasattr(value, "kind")


def is_truth(value):
    return isinstance(value, np.bool_) or is_integer(value)


def check_truth(parameter, value):
    """An Error of a parameter that is True or False and is given something else, as a text."""
    if not is_truth(value):
        fail_on("python_value", parameter, short(value), "True or False", kind=KernelTypeError)


def nearest_parameter(name, own):
    """The parameter that a keyword is nearly the name of, or ""."""
    import difflib

    return next(iter(difflib.get_close_matches(name, own, 1, 0.75)), "")


def check_spelling(ignored):
    """Called by a function with the keywords that it ignores, as AWS's does: one that is nearly the name of a
    parameter is an Error."""
    code = sys._getframe(1).f_code
    own = [n for n in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount] if not n.startswith("_")]
    for name in ignored:
        if meant := nearest_parameter(name, own):
            fail("argument_count", f"{name} is none of its arguments; {meant} is required",
                 "" if code.co_name == "function" else code.co_name, KernelTypeError)


def hint(message):
    """Warns, at the kernel's line, of what runs here and has another spelling today."""
    frame = kernel_frame()
    file, line = (frame.f_code.co_filename, frame.f_lineno) if frame else ("nkisim", 0)
    warnings.warn_explicit(message, UserWarning, file, line)


def is_strict():
    return variable("NKISIM_STRICT", "0") not in ("", "0")


def sdk():
    """The minor number of the SDK release that NKISIM_SDK names, 20 to 33; by default the newest."""
    text = variable("NKISIM_SDK", "") or SDKS[-1]
    if text not in SDKS:
        raise Error(rule="sdk_release", operand="NKISIM_SDK", found=repr(text),
                    required=f"one of {', '.join(SDKS)}", code="usage")
    return int(text[2:])


def sdk_chosen():
    """True if somebody asked for a release, so that what it lacks is reported without strict, too."""
    return bool(variable("NKISIM_SDK", ""))


def parser_frontend():
    """True if NKI_COMPILER_FRONTEND keeps the parser that SDK 2.33 no longer uses by default."""
    return variable("NKI_COMPILER_FRONTEND", "") == "custom"
