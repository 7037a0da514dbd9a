"""Reports calls that run here but that AWS's compiler refuses, by SDK release and chip generation
(refusals.json).
"""

import functools
import inspect
import json
import math
import os
import sys
import types
import warnings

from ..values import enums
from ..values.errors import in_aws_library, is_aws_library, is_ours, is_strict, kernel_frame, sdk, sdk_chosen
from ..values.findings import report
from ..values.optokens import NlOp, canonical_name, name_of
from .recorder import current


@functools.cache
def table():
    """The rows of refusals.json by their rules."""
    with open(os.path.join(os.path.dirname(__file__), "refusals.json"), encoding="utf-8") as file:
        return {row["rule"]: row for row in json.load(file)["refusals"]}


class _Noted:
    """(rule, file, line) of what a recording has noted, or need not note."""

    def __init__(self):
        self.places = set()


def row_applies(row, release, target, dialect):
    """True if a row holds for SDK 2.`release`, a target and an API."""
    return (row["first"] <= release and (not row["last"] or release <= row["last"]) and
            (not row.get("targets") or target in row["targets"]) and row.get("api", "") in ("", dialect))


def _release(dialect):
    """The release that is looked at: unless one was chosen the last that compiles kernels of an API."""
    return dialect.refused_since - 1 if dialect.refused_since and not sdk_chosen() else sdk()


def report_refused(rule, **parts):
    """Says, at the kernel's line, that the compiler refuses a call: a note once, a finding with --strict.
    `parts` are for its text; a tensor as itself, whose text is made only if it is needed."""
    frame = kernel_frame()
    if frame is None:
        return
    place = (rule, frame.f_code.co_filename, frame.f_lineno)
    if not is_aws_library(frame) and place not in current().of(_Noted).places:
        report_refused_at(*place, **parts)


def first_note(what):
    """True if nothing of the kind was noted at the kernel's line before."""
    frame, noted = kernel_frame(), current().of(_Noted).places
    place = (what, frame.f_code.co_filename, frame.f_lineno) if frame is not None else (what, "", 0)
    known = place in noted
    noted.add(place)
    return not known


def report_refused_at(rule, file, line, recorder=None, **parts):
    """The same at another line, and of a recording that has ended."""
    row, recorder = table()[rule], recorder or current()
    noted = recorder.of(_Noted).places
    if (rule, file, line) in noted:
        return
    noted.add((rule, file, line))
    if row_applies(row, _release(recorder.dialect), recorder.target, recorder.dialect.name):
        _say(row, file, line, parts)


def check_launch(function, recorder):
    """Says, at the kernel's first line, that its launch grid has more programs than a logical core has cores."""
    if (programs := math.prod(recorder.grid)) <= 2:
        return
    if (code := getattr(inspect.unwrap(function), "__code__", None)) is not None:
        report_refused_at("launch_degree", code.co_filename, code.co_firstlineno, recorder, found=programs)


def check_size(function, program):
    """Says, at the kernel's first line, that a kernel has more instructions than the compiler takes."""
    row, code = table()["instruction_limit"], getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and len(program) > row["limit"]:
        _say(row, code.co_filename, code.co_firstlineno, {"found": len(program), "limit": row["limit"]})


def _say(row, file, line, parts):
    """A note, or with --strict a finding, but of rows that AWS's own samples contradict."""
    does = row.get("does", "the compiler refuses it")
    message = f"{row['says'].format(**parts)}: {does} ({row['source']}); " \
              f"{row['instead'].format(**parts)} is required"
    if is_strict() and not row.get("note"):
        report(message, file, line)
    else:
        warnings.warn_explicit(message, UserWarning, file, line)


def called_by_kernel():
    """True if a kernel, and no other function of the front end, called the function that asks."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is NlOp.__call__.__code__:
        frame = frame.f_back
    return frame is not None and not is_ours(frame.f_code)


def _chosen_by_kernel():
    """True if a kernel gave the argument of an instruction, and no function of nki.language chose it."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and is_ours(frame.f_code):
        file = frame.f_code.co_filename
        folder = os.path.dirname(file).rpartition(os.sep)[2]
        if not file.startswith("<nkisim isa") and folder not in ("isa", "compat", "record"):
            return False
        frame = frame.f_back
    return True


def raw_enum(parameter, value):
    """Called by the extension module of a text or an integer in the place of an enumeration's member."""
    kind = getattr(enums, parameter, None)
    member = next((m for m in kind if value in (m.name, int(m))), None) if kind is not None else None
    if member is not None and (current().dialect.neuronxcc or _chosen_by_kernel()):
        _report_where_recorded("raw_enum", parameter=parameter, value=value, member=member)
        if isinstance(value, str):
            _report_where_recorded("enum_text", parameter=parameter, value=value, member=member)


def operator_alias(operator):
    """Called by the extension module of an operator that is none of nki.language's by the name in the table of
    operators: a text, another name of it, or a function of NumPy or Python."""
    name = name_of(operator)
    meant = canonical_name(name)
    if isinstance(operator, str):
        _report_where_recorded("operator_text", operator=name, meant=meant)
        return
    said = f"nl.{name}" if isinstance(operator, NlOp) else f"{getattr(operator, '__module__', None) or 'numpy'}.{name}"
    _report_where_recorded("operator_alias", operator=said, meant=meant)


def _report_where_recorded(rule, **parts):
    """report_refused at the line of an instruction that is recorded; that of its call if it was held back."""
    if not in_aws_library():
        report_refused_at(rule, *current().program.location(), **parts)
