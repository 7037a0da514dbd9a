"""Tests that a kernel in which `check --migrate` finds nothing also passes --strict of that SDK
release.

NKISIM_DRAWN_CASES=40000 for the large run; a case is one call, its seed its number.
"""

import inspect
import itertools
import linecache
import os
import random
import warnings

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
from api_calls import Lazy, isa_calls, language_calls, make
from nkisim.run.options import Options
from nkisim.run.recording import record
from nkisim.tools import migrate
from nkisim.values.errors import SDKS

KERNELS = int(os.environ.get("NKISIM_DRAWN_CASES", "2000"))
SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl


def kernel(x):
{values}    {call}
"""
_ENUMS = {"engine": nisa.engine, "dge_mode": nisa.dge_mode, "oob_mode": nisa.oob_mode, "reduce_cmd": nisa.reduce_cmd}
CALLS = [("nisa", *call) for call in isa_calls()] + [("nl", *call) for call in language_calls()]


def literal(value):
    """A value as a kernel writes it, or None where it is an object."""
    for name, kind in _ENUMS.items():
        if isinstance(value, type(kind.unknown) if hasattr(kind, "unknown") else kind) and hasattr(value, "name"):
            return f"nisa.{name}.{value.name}"
    plain = isinstance(value, (int, float, str, type(None))) or (
        isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value))
    return repr(value) if plain else None


def varied_arguments(draw, arguments, order):
    """Arguments in another form: [(name or None, text)], as a call would have them."""
    given = list(arguments)
    kind = draw.choice(("as it is", "missing", "by position", "all by position", "unknown", "twice", "number", "text",
                        "last by position"))
    if kind == "missing":
        left_out = draw.randrange(len(given))
        if given[left_out][0] != "transpose_x":  # without which the operands have other shapes, no other form
            given.pop(left_out)
    elif kind == "by position":
        given = [(None if name == order[0] else name, text) for name, text in given]
        given.sort(key=lambda one: one[0] is not None)
    elif kind == "all by position":
        given = [(None, text) for _, text in sorted(given, key=lambda one: order.index(one[0]))]
    elif kind == "last by position" and len(given) > 1:
        given = [(None, given[-1][1]), *given[:-1]]
    elif kind == "unknown":
        given.append((draw.choice(("mask", "dtypes", "psum_accumulate_flag", "imm")), "None"))
    elif kind == "twice" and given:
        given = [(None, given[0][1]), *given]
    elif kind in ("number", "text"):
        given = [(name, ("1" if kind == "number" else "'vector'") if name in _ENUMS else text) for name, text in given]
    return given


def random_call(seed):
    """(source, values by name, release) of one kernel."""
    draw = random.Random(seed)
    module, function, arguments = CALLS[seed % len(CALLS)]
    known = list(inspect.signature(function).parameters)
    order = known if set(arguments) <= set(known) else list(arguments)
    values, given = {}, []
    for name, value in arguments.items():
        text = literal(value)
        if text is None:
            values[f"v{len(values)}"] = value
            text = f"v{len(values) - 1}"
        given.append((name, text))
    words = ", ".join(text if name is None else f"{name}={text}" for name, text in varied_arguments(draw, given, order))
    call = f"{module}.{function.__name__}({words})"
    lines = "".join(f"    {name} = VALUES[{name!r}]()\n" for name in values)
    return SOURCE.format(values=lines, call=call), values, draw.choice(SDKS)


def strict_objection(source, values, release, monkeypatch):
    """The objection of recording the kernel under --strict of a release; "" for nothing."""
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", release)
    monkeypatch.setattr("nkisim.record.strict._looked", {})
    file = "<drawn>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"VALUES": {name: (lambda value=value: make(value)) for name, value in values.items()}}
    exec(compile(source, file, "exec"), space)
    kernel = space["kernel"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            nkisim.record.strict.scan(kernel)
            record(kernel, (np.zeros(1, np.float32),), {}, None, Options("trn3"))
        except SyntaxError as problem:
            return f"SyntaxError: {problem}"
        except (nkisim.Error, TypeError, ValueError) as problem:
            return f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
    said = [str(w.message) for w in caught if w.category is SyntaxWarning and w.filename == file]
    return "; ".join(said)


def is_clean(source, release):
    try:
        return not [f for f in migrate.findings(source, int(release[2:])) if f.must]
    except SyntaxError:
        return False


@pytest.mark.slow
def test_what_is_clean_records(monkeypatch):
    found, against = 0, {}
    for seed in range(KERNELS):
        source, values, release = random_call(seed)
        if not is_clean(source, release):
            continue
        found += 1
        said = strict_objection(source, values, release, monkeypatch)
        if said:
            against[source.splitlines()[-1].strip()] = f"{release}: {said}"
    assert not against, "\n".join(f"{call}\n    {said}" for call, said in itertools.islice(against.items(), 40))
    assert found > KERNELS // 8


def test_calls_of_two_releases():
    """By hand: what each of these forms is to 2.33."""
    def said(body):
        return [f.what for f in migrate.findings(
            "import nki.isa as nisa\nimport nki.language as nl\n" + body, 33) if f.must]

    assert said("nisa.activation(op=nl.exp, data=t)") == ["nki.isa.activation needs dst"]
    assert said("nisa.tensor_tensor(y, t, op=nl.add)") == ["nki.isa.tensor_tensor needs data2"]
    assert said("nl.tiles(x, (128, 128))") == [
        "nki.language.tiles takes 1 argument by position and is given 2; tile_shape is given by name"]
    assert said("nisa.dma_copy(y, t, dst=y)") == ["nki.isa.dma_copy is given dst twice, by position and by name"]
    assert said("nisa.dma_copy(y, t, engine=nisa.engine.vectr)") == ["nki.isa.engine has no member vectr in SDK 2.33"]
    assert said("nisa.dma_copy(y, t, engine='sync')") == ["engine='sync': a text for an enumeration"]
    assert said("nisa.tensor_scalar(y, t, nl.add, 1.0, op1=nl.add)") == [
        "nki.isa.tensor_scalar has op1 and no operand1"]
    assert said("nl.power(t, 2.0)") == ["nl.power does not take a number as exponent"] and not said("nl.power(t, t)")
    assert said("nisa.dma_copy(*both)") == said("nisa.dma_copy(**both)") == said("nisa.dma_copy(dst=y, src=t)") == []


assert nki and nl and Lazy
