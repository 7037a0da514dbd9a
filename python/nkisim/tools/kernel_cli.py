"""nkisim kernel FILE.py:FUNCTION: runs a kernel on generated arguments.

    nkisim kernel k.py:matmul --arg x=f32[128,512] --arg w=bf16[512,512]:normal --target trn2

--arg NAME=DTYPE[SHAPE][:FILL] makes an array; FILL is uniform (0 to 1, the default), normal,
arange, zeros, ones, integers(LOW,HIGH) or an .npy file. --arg NAME=VALUE passes a Python literal.
Without --arg, a comment above the kernel says the same: # nkisim: x=f32[128,512] --target trn2

Exit codes: 0 ok, 1 results differ or over budget, 2 usage, 3 the kernel or its input is wrong,
4 internal error, 130 interrupted (Ctrl-C): the reports are then of what ran until then.
"""

import ast
import importlib.util
import inspect
import json
import os
import pathlib
import re
import sys
import traceback

import numpy as np

from nkisim_work import ProgressLine
from nkisim_work.options import Parser

from .. import _core
from ..record.launch import chosen_grid
from ..run.compiling import SWITCHES, Choices
from ..run.kernel import Kernel
from ..run.options import Options
from ..run.recording import kernel_frames
from ..run.session import run_function
from ..values import dtypes
from ..values.errors import SDKS, Error
from ..values.spelling import similar_names
from .example_call import call_of
from .install import install
from .kernel_report import BAD_INPUT, INTERNAL, INTERRUPTED, USAGE, Report, compare, error_json

_SPEC = re.compile(r"^(?P<name>\w+)=(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?::(?P<fill>.+))?$")


def _usage(message):
    raise Error(message, rule="option_value", code="usage")


EXAMPLES = """
nkisim kernel k.py:matmul --arg x=f32[128,512] --arg w=bf16[512,512]:normal
nkisim kernel k.py:matmul --expect reference --target trn2     # arguments from the comment above the kernel
nkisim kernel k.py:matmul --explain --html k.html"""


class _Parser(Parser):
    """Its complaints are errors like any other."""

    def error(self, message):
        _usage(message if message.endswith("?") else f"{message}; see `nkisim kernel --help`")

    def refuse(self, rule, message):
        raise Error(message, rule=rule, code="usage")


def _fill(kind, shape, rng):
    if kind in ("uniform", None):
        return rng.random(shape)
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "arange":
        return np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    if kind == "zeros":
        return np.zeros(shape)
    if kind == "ones":
        return np.ones(shape)
    match = re.fullmatch(r"integers\((-?\d+),(-?\d+)\)", kind)
    if match:
        return rng.integers(int(match[1]), int(match[2]), shape)
    if os.path.exists(kind):
        return np.load(kind)
    return _usage(f"{kind!r} fills nothing; uniform, normal, arange, zeros, ones, "
                  "integers(LOW,HIGH) or an .npy file")


def argument(text, rng):
    """NAME=DTYPE[SHAPE][:FILL], or NAME=PYTHON LITERAL."""
    match = _SPEC.match(text)
    if match is None:
        name, found, literal = text.partition("=")
        if not found or not name.isidentifier():
            _usage(f"--arg {text!r}; NAME=DTYPE[SHAPE] or NAME=VALUE is required")
        if "[" in literal and dtypes.find(literal.partition("[")[0]) is not None:
            _usage(f"--arg {text!r}; {name}=DTYPE[SHAPE] with a shape of whole numbers, such as [128,512], is required")
        if literal.endswith(".npy"):
            _usage(f"--arg {text!r}; {name}=DTYPE[SHAPE]:{literal} is required to fill an array from a file")
        try:
            return name, ast.literal_eval(literal)
        except (ValueError, SyntaxError):
            return name, literal
    dtype = dtypes.find(match["dtype"])
    if dtype is None:
        said = dtypes.nearest_dtype(match["dtype"]) or "nl has their names, such as float32 or f32"
        _usage(f"--arg {text!r}: {match['dtype']!r} is not a dtype; {said}")
    shape = tuple(int(s) for s in match["shape"].split(",") if s.strip())
    if 0 in shape:
        _usage(f"--arg {text!r}; a shape of sizes of at least 1 is required")
    values = np.asarray(_fill(match["fill"], shape, rng))
    if not dtype.is_float and match["fill"] in (None, "uniform", "normal"):
        values = rng.integers(0, 100, shape)
    return match["name"], values.astype(dtype.dtype)


def _load(path):
    spec = importlib.util.spec_from_file_location("nkisim_kernel_file", path)
    if spec is None or not os.path.exists(path):
        _usage(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _parser():
    parser = _Parser("kernel", "FILE.py:FUNCTION [--arg NAME=SPEC] [options]",
                     "Runs a kernel on generated arguments: values, latency, profile.", EXAMPLES, __doc__,
                     switches=True)
    parser.add_argument("kernel", metavar="FILE.py:FUNCTION")
    add = parser.option
    for name in ("arg", "target", "lnc", "config", "set", "expect", "rtol", "atol"):
        add(name)
    add("seed", default=None)
    add("output", dest="save")
    for name in ("save-recorded", "summary-json", "perfetto", "chrome", "vcd", "session", "html", "accounting-json",
                 "explain", "budget", "junit", "strict", "suppress", "error", "unread", "timing-only",
                 "stop-at", "dump"):
        add(name)
    add("sdk", default=None, choices=SDKS)
    for name, choices in SWITCHES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", choices=choices, default=None)
    add("confidence", choices=("quick", "full"))
    parser.add_argument("--over-capacity", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser


def _bound(function, given, path, name):
    """Usage error unless the arguments are the function's parameters."""
    try:
        inspect.signature(getattr(function, "func", function)).bind(**given)
    except TypeError as problem:
        _usage(f"{path}:{name}: {problem}; give each parameter by --arg NAME=DTYPE[SHAPE], or all "
               "in a comment above it: # nkisim: NAME=DTYPE[SHAPE] ...")


def _copies(given):
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()}


def _written(before, given):
    """The arguments the kernel changed, for kernels that return nothing."""
    return tuple(v for k, v in given.items()
                 if isinstance(v, np.ndarray) and v.tobytes() != before[k].tobytes())


def _function(module, path, name):
    if not hasattr(module, name):
        own = [n for n, value in vars(module).items()
               if isinstance(value, Kernel) or (inspect.isfunction(value) and value.__module__ == module.__name__)]
        kernels = [n for n in own if isinstance(vars(module)[n], Kernel)] or own
        said = similar_names(name, own) or (
            f"its kernels are {', '.join(kernels)}" if kernels else "it has no function")
        _usage(f"{path} has no {name}; {said}")
    return getattr(module, name)


def _overrides(args):
    return dict(s.split("=", 1) if "=" in s else _usage(f"--set {s!r}; PATH=VALUE is required")
                for s in args.set)


def _take_comment(args, path, name):
    """Without --arg: the words of the kernel's comment, and its options that are not given."""
    if args.arg:
        return
    try:
        with open(path, encoding="utf-8") as source:
            call = call_of(source.read(), name)
    except (SyntaxError, ValueError) as problem:
        _usage(f"{path}: # nkisim: {problem}")
    if call is None:
        return
    args.arg = call.words
    for option, value in call.options.items():
        if getattr(args, option) is None:
            setattr(args, option, value)


def _simulate(args, module, path, name, progress):
    """Exit code of one run."""
    if args.timing_only and args.expect:
        _usage("--timing-only computes no values for --expect to be compared with")
    _take_comment(args, path, name)
    args.seed = args.seed or 0
    rng = np.random.default_rng(args.seed)
    given = dict(argument(a, rng) for a in args.arg)
    function = _function(module, path, name)
    _bound(function, given, path, name)
    _core.check_budgets(args.budget, "{}")  # a bad one is said before the run
    before = _copies(given)
    reference = _function(module, path, args.expect) if args.expect else None
    kernel = function if isinstance(function, Kernel) else Kernel(function)
    report = Report(args)
    options = Options(args.target, args.over_capacity or None, None, "only" if args.timing_only else None, args.config,
                      _overrides(args), report.requested(), keep_partial=True,
                      compiler=Choices(**{name: getattr(args, name) for name in SWITCHES}),
                      confidence=args.confidence,
                      rules={"suppress": args.suppress, "error": args.error,
                             **({"unread": True} if args.unread else {})},
                      stop_at=args.stop_at, dump=[name for name in (args.dump or "").split(",") if name])
    progress.say(f"simulating {name} on {options.target}")
    result = run_function(kernel.func, (), given, chosen_grid(kernel.grid, args.lnc, options.target), options,
                          kernel.dialect)
    if reference is not None and not result.partial:
        progress.say(f"computing {args.expect}")
        outputs = _written(before, given) if result.outputs is None else result.outputs
        report.outputs = compare(outputs, reference(**_copies(before)), args.rtol, args.atol)
    progress.say("writing the reports")
    code = report.finish(result)
    report.say(result, code)
    return code


def _traceback(problem):
    """The part of a Python traceback that is the kernel's."""
    lines = traceback.format_exception(type(problem), problem,
                                       kernel_frames(problem.__traceback__))
    return "".join(lines).rstrip()


def _complain(problem, code, words):
    """Says an error, with --json on standard output as well; the exit code."""
    if "--json" in (sys.argv[1:] if words is None else words):
        print(json.dumps(error_json(problem, code), indent=1))
    who = "nkisim kernel" if code == USAGE else "error"
    said = problem if isinstance(problem, (Error, OSError)) else _traceback(problem)
    print(f"{who}: {said}", file=sys.stderr)
    return code


def _a_kernel(path):
    """The first function of a file under @nki.jit, or "kernel"."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "kernel"
    found = re.search(r"^@(?:\w+\.)*jit\b.*\n(?:@.*\n)*def (\w+)", text, re.M)
    return found[1] if found else "kernel"


def main(words=None):
    try:
        args = _parser().parse_args(words)
        install()
        if args.strict:
            os.environ["NKISIM_STRICT"] = "1"
        if args.sdk:
            os.environ["NKISIM_SDK"] = args.sdk
        path, found, name = args.kernel.rpartition(":")
        if not found and args.kernel.removesuffix(".gz").endswith((".jsonl", ".nisa")):
            _usage(f"{args.kernel} is a trace, which `nkisim run` runs; FILE.py:FUNCTION is required")
        if not found and os.path.exists(args.kernel):
            _usage(f"{args.kernel}: FILE.py:FUNCTION is required, such as {args.kernel}:{_a_kernel(args.kernel)}")
        if not found or not os.path.exists(path):
            _usage(f"{args.kernel!r}; FILE.py:FUNCTION with an existing file is required")
        with ProgressLine(f"executing {path}") as progress:
            return _simulate(args, _load(path), path, name, progress)
    except Error as problem:
        code = {"usage": USAGE, "internal": INTERNAL}.get(problem.code, BAD_INPUT)
        return _complain(problem, code, words)
    except KeyboardInterrupt:
        print("nkisim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as problem:  # raised by the kernel, its file or its reference
        return _complain(problem, BAD_INPUT, words)


if __name__ == "__main__":
    sys.exit(main())
