"""nkisim kernel FILE.py:FUNCTION: runs a kernel on generated arguments.

    nkisim kernel k.py:matmul --arg x=f32[128,512] --arg w=bf16[512,512]:normal --target trn2
"""

import argparse
import importlib.util
import os
import re
import sys

import numpy as np

from . import dtypes
from .errors import Error
from .install import install

_SPEC = re.compile(r"^(?P<name>\w+)=(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?::(?P<fill>.+))?$")


def _usage(message):
    print(f"nkisim kernel: {message}", file=sys.stderr)
    sys.exit(2)


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
        import ast

        try:
            return name, ast.literal_eval(literal)
        except (ValueError, SyntaxError):
            return name, literal
    dtype = dtypes.find(match["dtype"])
    if dtype is None:
        _usage(f"--arg {text!r}: {match['dtype']!r} is not a dtype")
    shape = tuple(int(s) for s in match["shape"].split(",") if s.strip())
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
    parser = argparse.ArgumentParser(prog="nkisim kernel", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", help="FILE.py:FUNCTION")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC")
    parser.add_argument("--target", default=None)
    parser.add_argument("--lnc", type=int, default=None, help="logical cores (1 or 2)")
    parser.add_argument("--config", default=None, help="timing config, a name or a file")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--expect", default=None,
                        help="function in FILE.py that gives the expected outputs from the inputs")
    parser.add_argument("--rtol", type=float, default=1e-2)
    parser.add_argument("--atol", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", default=None, metavar="TRACE")
    parser.add_argument("--perfetto", default=None, metavar="FILE")
    parser.add_argument("--over-capacity", action="store_true")
    return parser


def _compare(outputs, expected, args):
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    for i, (found, want) in enumerate(zip(outputs, expected)):
        found, want = (np.asarray(a).astype(np.float64) for a in (found, want))
        if found.shape != want.shape:
            print(f"output {i}: shape {found.shape}, expected {want.shape}")
            return False
        worst = np.abs(found - want).max() if found.size else 0.0
        good = np.allclose(found, want, args.rtol, args.atol, equal_nan=True)
        print(f"output {i}: {'matches' if good else 'DIFFERS'}, largest difference {worst:.3g}")
        if not good:
            return False
    return True


def main(words=None):
    args = _parser().parse_args(words)
    install()
    path, found, name = args.kernel.rpartition(":")
    if not found:
        _usage(f"{args.kernel!r}; FILE.py:FUNCTION is required")
    rng = np.random.default_rng(args.seed)
    given = dict(argument(a, rng) for a in args.arg)
    from .session import Kernel, run

    try:
        module = _load(path)
        function = getattr(module, name, None)
        if function is None:
            _usage(f"{path} has no {name}")
        reference = None
        if args.expect:
            if not hasattr(module, args.expect):
                _usage(f"{path} has no {args.expect}")
            reference = getattr(module, args.expect)(**{
                k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()})
        kernel = function if isinstance(function, Kernel) else Kernel(function)
        result = run(kernel, target=args.target, grid=args.lnc, config=args.config,
                     overrides=dict(s.split("=", 1) for s in args.set),
                     over_capacity=args.over_capacity, **given)
    except Error as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2 if problem.code == "usage" else 3
    print(result.report())
    if args.save:
        print(f"trace: {result.save(args.save)}")
    if args.perfetto:
        print(f"timeline: {result.perfetto(args.perfetto)}")
    if reference is not None and not _compare(result.outputs, reference, args):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
