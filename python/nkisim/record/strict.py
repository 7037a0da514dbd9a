"""Finds Python constructs in a kernel that run here but that the NKI compiler refuses
(NKISIM_STRICT=1).

The rules marked "documented" are in AWS's language guide and 0.3.0 update guide; the others are
constructs that the guide's list of supported ones leaves out ("assumed"). From SDK 2.33 on kernels are
executed by Python, so that all of it is allowed; NKI_COMPILER_FRONTEND=custom keeps the parser and its rules.
"""

import ast
import builtins
import functools
import inspect
import math
import os
import textwrap
import types
import warnings

from ..values.errors import COMPILES, PACKAGE_DIRS, is_strict, kernel_frame, parser_frontend, sdk, sdk_chosen, short
from ..values.findings import report
from ..values.storage import shared_hbm
from . import defects, names
from .recorder import recording
from .targets import cores_of_rank

_ASSUMED = "not among the constructs of the NKI language guide (assumed)"
_STATEMENTS = {
    ast.Try: "try", ast.With: "with", ast.AsyncWith: "async with", ast.AsyncFor: "async for",
    ast.AsyncFunctionDef: "async def", ast.Lambda: "lambda", ast.Yield: "yield",
    ast.YieldFrom: "yield from", ast.Await: "await", ast.GeneratorExp: "a generator expression",
    ast.SetComp: "a set comprehension", ast.Set: "a set", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.Delete: "del", ast.Import: "import", ast.ImportFrom: "import",
    ast.NamedExpr: ":=", ast.Raise: "raise", ast.Starred: "*unpacking",
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = "try"
_BUFFERS = {"sbuf", "psum", "hbm", "private_hbm", "shared_hbm"}


enabled = is_strict


def refuses(since):
    """True if a rule of the documents since SDK 2.`since` is to be an error."""
    return is_strict() and sdk() >= since


def check_release(program):
    """Reports every recorded instruction that the compiler of NKISIM_SDK refuses."""
    for file, line, message in program.refusals(f"2.{sdk()}"):
        report(message, file or "nkisim", line)


def check_defects(program):
    """Reports where a compiled program meets what the release is known to get wrong."""
    for file, line, message in defects.found_defects(program, sdk()):
        report(message, file, line)


def report_host_name(module, name, since=0):
    """Reports, at the line outside of kernels that uses it, a name of `module` that the release lacks."""
    asked = sdk_chosen() or (is_strict() and not since)  # unasked, the older API has its last release
    if recording.get() or not asked or sdk() < since:
        return  # within a kernel its source is read
    why, frame = names.why_absent(module, name, sdk()), kernel_frame()
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if not why or frame is None:
        return
    _say(why, frame.f_code, frame.f_lineno)


def check_dialect(function, dialect):
    """Reports a kernel of an API that the release no longer compiles. Where no release was chosen it is the API's
    last one."""
    if not sdk_chosen():
        return
    code = getattr(inspect.unwrap(function), "__code__", None)
    since = dialect.refused_since
    if since and sdk() >= since and code is not None:
        _say(f"{dialect.package} inside a kernel is a compilation error since SDK 2.{since} (documented); nki is "
             "required", code, code.co_firstlineno)


def _say(message, code, line, file=""):
    """A finding; without strict a note, once."""
    if is_strict():
        report(message, file or code.co_filename, line)
    elif (sdk(), code, line, message) not in _reported:  # an import asks twice
        _reported.add((sdk(), code, line, message))
        warnings.warn_explicit(message, UserWarning, file or code.co_filename, line)


def _signature(arguments, where):
    if arguments.vararg:
        yield arguments.vararg, f"*{arguments.vararg.arg} in {where} is {_ASSUMED}"
    if arguments.kwarg:
        yield arguments.kwarg, f"**{arguments.kwarg.arg} in {where} is {_ASSUMED}"
    if arguments.kwonlyargs and not arguments.vararg:
        yield arguments.kwonlyargs[0], (f"keyword-only parameters (*) in {where} are not supported "
                                        "(documented); move parameters with defaults to the end")


def _call(node):
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg is None:
            if not _traced():
                yield value, f"**unpacking in a call is {_ASSUMED}"
        elif isinstance(value, ast.Constant) and keyword.arg == "buffer" and (
                value.value in _BUFFERS):
            yield value, (f"buffer={value.value!r}: names of buffers are no longer accepted "
                          f"(documented); use nl.{value.value}")


def _class(node):
    names = [b.attr if isinstance(b, ast.Attribute) else getattr(b, "id", "") for b in node.bases]
    if names not in (["NKIObject"], ["Enum"]):
        yield node, (f"class {node.name} must inherit from NKIObject alone, or from Enum "
                     "(documented)")


def _is_none(node):
    """The pages refuse `is` without exception; AWS's library of SDK 2.29 has `is None` in most kernels."""
    return isinstance(node, ast.Constant) and node.value is None


def _makes_tensors(node):
    """True if each item of a list comprehension is what a function of the kernel's gives, such as a tile."""
    called = node.elt.func if isinstance(node.elt, ast.Call) else None
    return called is not None and not (isinstance(called, ast.Name) and hasattr(builtins, called.id))


def _tables(tree):
    """The names that a function assigns a dictionary to."""
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Assign)):
        for target in node.targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Dict):
                    yield name.id


def _seen_refused(tree):
    """(node, message) of what SDK 2.32 was seen to refuse on a trn1: public notes of a serving engine."""
    tables = set(_tables(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ListComp) and _makes_tensors(node):
            yield node, "a list comprehension of calls is an unsupported expression (seen in SDK 2.32); append each"
        elif isinstance(node, ast.Call):
            for value in [*node.args, *(k.value for k in node.keywords)]:
                if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] == "partial":
                    yield value, ("functools.partial as an argument is refused (seen in SDK 2.32 of a loop's body); a "
                                  "function defined in the kernel is required")
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and (
                isinstance(node.value, ast.Name) and node.value.id in tables and
                isinstance(node.slice, ast.Constant) and not isinstance(node.slice.value, str)):
            yield node, (f"the dictionary key {node.slice.value!r} is no string, which the NKI compiler requires "
                         "(documented)")


def _traced():
    """True if the release runs kernels as Python, so that the language is all of it."""
    return sdk() >= 33 and not parser_frontend()


def problems(tree):
    """(node, message) of everything in a function's syntax tree that would be refused."""
    traced = _traced()
    if not traced and sdk() >= 32:
        yield from _seen_refused(tree)
    for node in ast.walk(tree):
        if traced:
            yield from _call(node) if isinstance(node, ast.Call) else ()
            continue
        name = _STATEMENTS.get(type(node))
        if name is not None:
            yield node, f"{name} is {_ASSUMED}"
        elif isinstance(node, ast.FunctionDef):
            yield from _signature(node.args, f"{node.name}'s signature")
        elif isinstance(node, ast.Compare):
            if any(isinstance(op, (ast.Is, ast.IsNot)) and not _is_none(to)
                   for op, to in zip(node.ops, node.comparators)):
                yield node, "`is` and `is not` are not supported (documented); use == and !="
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and not isinstance(key.value, str):
                    yield key, (f"the dictionary key {key.value!r} is no string, which the NKI "
                                "compiler requires (documented)")
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.ClassDef):
            yield from _class(node)
        elif isinstance(node, (ast.For, ast.While)) and node.orelse:
            yield node.orelse[0], f"else of a loop is {_ASSUMED}"


def _parse(function):
    """(tree, lines before the source), or None without a source."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    return tree, first - 1


def _named(node, scope):
    """The object that a name, or a dotted name through modules, stands for; None for all else."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    base = _named(node.value, scope)
    return vars(base).get(node.attr) if isinstance(base, types.ModuleType) else None


@functools.cache
def _libraries():
    import sysconfig

    return tuple({sysconfig.get_path(k) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib")})


def _callees(tree, function):
    """Python functions the source calls by a global name or one of a module's, outside libraries and nkisim."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        callee = _named(node.func, function.__globals__)
        callee = inspect.unwrap(getattr(callee, "func", callee)) if callable(callee) else None
        if inspect.isfunction(callee):
            file = callee.__code__.co_filename
            if not file.startswith(PACKAGE_DIRS + _libraries()):
                yield callee


_reported: set[tuple[int, types.CodeType, int, str]] = set()  # notes: (release, code, line, message)
#: (what was looked for, code) -> what was found there, and the functions that it calls.
_looked: dict[tuple[tuple, types.CodeType], tuple[list[tuple[types.CodeType, int, str]], list[types.FunctionType]]] = {}


def _look(function):
    """((code, line, message) of all that the release refuses in a function, the functions that it calls)."""
    parsed = None if (function.__module__ or "").split(".")[0] in COMPILES else _parse(function)
    if parsed is None:
        return [], []
    tree, before = parsed
    found = [*(problems(tree) if is_strict() else ()), *names.problems(tree, function, sdk())]
    return ([(function.__code__, before + node.lineno, message) for node, message in found],
            list(_callees(tree, function)))


def scan(function):
    """Reports what a kernel's source, and that of the functions that it calls, has and the release refuses. Without
    strict of names that a release lacks which somebody asked for."""
    if not (is_strict() or sdk_chosen()):
        return
    todo, seen = [inspect.unwrap(getattr(function, "func", function))], set()
    mode = sdk(), parser_frontend(), is_strict()
    while todo:
        current = todo.pop()
        if not inspect.isfunction(current) or current.__code__ in seen:
            continue
        seen.add(current.__code__)
        if (mode, current.__code__) not in _looked:
            _looked[mode, current.__code__] = _look(current)
        found, callees = _looked[mode, current.__code__]
        for code, line, message in found:
            _say(message, code, line)
        todo += callees


def check_grid(function, grid, target):
    """Reports a launch grid of several programs where a logical core has one core (refusals.json has larger grids)."""
    sizes = [n for n in (grid if isinstance(grid, (tuple, list)) else (grid,)) if isinstance(n, int)]
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code and cores_of_rank(target) == 1 < math.prod(sizes) and (sdk() < 33 or math.prod(sizes) <= 2):
        report(f"a launch grid of {math.prod(sizes)} on {target}, whose logical cores have one core: the compiler "
               "refuses it (NCC_EARG001); 1 is required", code.co_filename, code.co_firstlineno)


def check_arguments(function, args, kwargs):
    """Reports list arguments, which the compiler cannot hash."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    for name, value in [*zip(names, args), *kwargs.items()]:
        if isinstance(value, list):
            report(f"argument {name} is a list, which is not supported (documented); pass a tuple", code.co_filename,
                 code.co_firstlineno)


def check_outputs(function, recorder, tensors, others, written):
    """Reports returned tensors in private HBM, arguments alone of which none is `written`, and what is returned and
    no tensor (`others`)."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return
    if tensors and not written and all(t.st.array is not None for t in tensors):
        _say(f"the kernel returns its argument {tensors[0].st.name}, which it does not write; a tensor in "
             "nl.shared_hbm that it stores to is required", code, _returns(function) or code.co_firstlineno)
    for t in tensors:
        if t.st.array is not None or t.st.buffer is shared_hbm or t.st.on_chip:
            continue
        file, line = recorder.program.tensor_location(t.st.id)
        _say(f"the kernel returns {t.st.name}, which is not in nl.shared_hbm; outputs must be (documented): "
             "buffer=nl.shared_hbm is required", code, line, file)
    for value in others:
        _say(f"the kernel returns {short(value)} ({type(value).__name__}); tensors in nl.shared_hbm alone are results "
             "on the device", code, _returns(function) or code.co_firstlineno)


def _returns(function):
    """The line of a function's only return; 0 if there are several, or no source."""
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return 0
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
    return first + found[0] - 1 if len(found) == 1 else 0
