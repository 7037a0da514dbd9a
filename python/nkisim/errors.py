"""The one error type users see, with the kernel's own file, line and source text."""

import linecache
import os
import sys
import threading
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(_HERE)
#: Files of the front end, and of the threads it starts; frames in them are never the kernel's.
PACKAGE_DIRS = tuple(
    os.path.join(_ROOT, name) + os.sep
    for name in ("nkisim", "nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
) + (threading.__file__,)


class Error(RuntimeError):
    """A kernel or run that breaks a rule.

    Attributes: code ("bad_input", "usage", "internal"), message (without any location),
    instruction, trace_line, kernel_file, kernel_line, source (the kernel's text at that line).
    """

    def __init__(self, message, code="bad_input", instruction="", trace_line=0, kernel_file="",
                 kernel_line=0):
        self.message = message
        self.code = code
        self.instruction = instruction
        self.trace_line = trace_line
        self.kernel_file = kernel_file
        self.kernel_line = kernel_line
        self.source = linecache.getline(kernel_file, kernel_line).strip() if kernel_file else ""
        super().__init__(self._text())

    def at(self, kernel_file, kernel_line):
        """Moves the error to another line of the kernel."""
        self.kernel_file, self.kernel_line = kernel_file, kernel_line
        self.source = linecache.getline(kernel_file, kernel_line).strip()
        self.args = (self._text(),)

    def _text(self):
        text = f"{self.instruction}: {self.message}" if self.instruction else self.message
        if self.kernel_file:
            text += f"\n  {self.kernel_file}:{self.kernel_line}"
            if self.source:
                text += f"\n    {self.source}"
        return text


class KernelTypeError(Error, TypeError):
    """Python that the NKI compiler would refuse, or a value of the wrong type."""


class KernelIndexError(Error, IndexError):
    """An index or slice outside a tensor."""


class KernelValueError(Error, ValueError):
    """An argument whose value is not allowed."""


_frame_is_ours = {}


def kernel_frame():
    """The innermost frame outside the front end."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _frame_is_ours.get(code)
        if ours is None:
            ours = _frame_is_ours[code] = code.co_filename.startswith(PACKAGE_DIRS) or (
                code.co_filename.startswith("<nkisim"))
        if not ours:
            return frame
        frame = frame.f_back
    return None


def fail(message, instruction="", kind=Error):
    """Raises `kind` located at the kernel's line."""
    frame = kernel_frame()
    if frame is None:
        raise kind(message, instruction=instruction)
    raise kind(message, instruction=instruction, kernel_file=frame.f_code.co_filename,
               kernel_line=frame.f_lineno)


def strict(message):
    """With NKISIM_STRICT=1, warns of Python that runs here and that the NKI compiler refuses."""
    if os.environ.get("NKISIM_STRICT", "0") in ("", "0"):
        return
    frame = kernel_frame()
    file, line = (frame.f_code.co_filename, frame.f_lineno) if frame else ("nkisim", 0)
    warnings.warn_explicit(message, SyntaxWarning, file, line)


def translate(native):
    """Turns the extension module's error (attributes only) into an Error."""
    raise Error(native.message, code=native.code, instruction=native.instruction,
                trace_line=native.trace_line, kernel_file=native.kernel_file,
                kernel_line=native.kernel_line) from None
