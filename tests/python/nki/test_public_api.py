"""Tests that every public NKI name of every release exists here and takes its documented
parameters.

public_api.txt is what AWS's documentation has for SDK 2.20 to 2.33 (neuronxcc.nki, then NKI 0.2 to
0.7); tests/conformance/public_api.py writes it. For each function, every documented parameter must
be a parameter of ours, at the same position, with the same default where one is documented.
ABSENT and DIFFERENT say where that is not so, and why.
"""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import nkisim

nkisim.install()

from nkisim.values.optokens import NlOp  # noqa: E402

LINES = [line.split(" ", 2) for line in
         (Path(nkisim.__file__).parent / "record/public_api.txt").read_text().splitlines()
         if not line.startswith("#")]

ABSENT = {
    "neuronxcc.nki FrameworkKernel": "makes the compiler's input for an XLA custom call",
    "neuronxcc.nki.isa attention_kernel": "a kernel inside AWS's compiler, without public source",
    "neuronxcc.nki.kernels add_kernel_nx8x128x512": "2.21 listed it without a word",
}

#: "module name problem" -> why. A name that ends in * stands for all that begin so.
DIFFERENT = {
    # Values have no order or are the same under another name.
    "neuronxcc.nki.isa dge_mode.none=3; 0": "the legacy numbers; programs use the names",
    "neuronxcc.nki.isa dge_mode.unknown=0; 3": "the legacy numbers; programs use the names",
    # Defaults that changed: ours are those of the last release.
    "nki.isa core_barrier engine=engine.gpsimd; engine.unknown": "0.2; gpsimd since",
    "nki.isa rand_* engine=engine.gpsimd; engine.unknown": "to 0.4; gpsimd since",
    "nki.isa rng engine=engine.vector; engine.unknown": "to 0.4; vector since",
    "nki.isa range_select reduce_cmd=reduce_cmd.reset_reduce; reduce_cmd.idle": "2.27 only",
    "nki.isa range_select on_false_value=None; *": "None is -FLT_MAX, the only value allowed",
    "nki.language * dtype=None; bool": "0.2 lists operators as functions but has none",
    "nki.language NkiTensor.ap offset=None; 0": "0.4; None is the view's own offset since",
    "nki.language ndarray buffer=sbuf; None": "None is SBUF",
    "nki.language zeros buffer=sbuf; None": "None is SBUF",
    "nki.language num_programs axes=0; None": "0.2; a grid of cores has one axis",
    "neuronxcc.nki.isa nc_transpose engine=engine.unknown; None": "2.20; None is accepted",
    "neuronxcc.nki.isa reciprocal swallows engine": "2.21 only",
    "neuronxcc.nki.isa tensor_copy_dynamic_dst swallows dtype": "the destination decides",
    "nki.collectives collective_permute_implicit_current_processing_rank_id *": "2.28 only",
    # Parameters that moved or were renamed: distinguished by type (test_spellings.py).
    "*nki jit position 0 is fn; func": "func= is accepted",
    "neuronxcc.nki profile position 0 is kernel; func": "func= is accepted",
    "neuronxcc.nki.language static_cast position 0 is input_data; arr": "arr= is accepted",
    "nki.isa affine_select position *": "0.2",
    "nki.isa dma_compute position *": "0.2",
    "nki.isa dma_copy position *": "0.2 and 0.3",
    "nki.isa dma_transpose position *": "0.2 and 0.3",
    "nki.isa nc_matmul position *": "0.2",
    "nki.isa register_move position 1 is src; imm": "0.2: the same place",
    "nki.isa sendrecv position 5 is dma_engine; name": "0.2",
    "nki.isa nc_matmul_mx position 7 is accumulate; name": "0.2: a label by position",
    "nki.isa tensor_scalar_reduce position *": "to 0.5: a label by position",
    "nki.isa activation position 8 is engine; name": "to 0.6: a label by position",
    "nki.isa activate2 position 13 is engine; name": "to 0.6: a label by position",
    "nki.isa scalar_tensor_tensor position 8 is reduce_cmd; name": "to 0.6: a label by position",
    "nki.isa scalar_tensor_tensor reduce_op=None; ...": "its page prints Ellipsis",
    "nki.isa topk position 4 is sorted; name": "to 0.6: a label by position",
}


def _find(module, name):
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError):
        return None


def _parameters(text):
    """The documented parameters as inspect has them, defaults as text; `**kwargs` is left out."""
    parts = re.findall(r"(?:\([^()]*\)|\[[^]]*\]|[^,(\[])+", text[1:-1])
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    out = []
    for name, _, default in (p.strip().partition("=") for p in parts):
        if name.startswith("*"):
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            out.append(inspect.Parameter(name, kind, default=default or inspect.Parameter.empty))
    return out


def _short(default):
    """A default as its last name, or as a number."""
    text = getattr(default, "__name__", None) or str(default)
    text = text.strip("'").removeprefix("nl.").removeprefix("np.").removeprefix("MemoryRegion.")
    text = {"amax": "max", "fp32.min": "-3.4028234663852886e+38"}.get(text, text)
    try:
        return float(text)
    except ValueError:
        return text


def _same_default(ours, documented):
    a, b = _short(ours), _short(documented)
    if isinstance(ours, int) and b == float(ours):
        return True  # enumerations are integers
    return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-6 * abs(b))


def _unlike(documented, places, named, swallow):
    """The differences of our parameters from the documented ones, by place and by name."""
    for at, p in enumerate(documented):
        if p.kind is p.POSITIONAL_OR_KEYWORD and (at >= len(places) or places[at] != p.name):
            here = places[at] if at < len(places) else "nothing"
            yield f"position {at} is {here}; {p.name}"
        elif p.name not in named:
            yield f"{'swallows' if swallow else 'lacks'} {p.name}"
        elif p.default is not p.empty and not _same_default(named[p.name].default, p.default):
            yield f"{p.name}={named[p.name].default}; {p.default}"


def _problems(function, text):
    function = function.function if isinstance(function, NlOp) else function
    if "(" not in text:
        return [] if not text or text == f"={function.value}" else [f"={function.value}; {text[1:]}"]
    if function is None:
        return ["is no function"]
    ours = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    named = {p.name: p for p in ours}
    swallow = any(p.kind is p.VAR_KEYWORD for p in ours)
    places = [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    if "(*args" in text or any(p.kind is p.VAR_POSITIONAL for p in ours):
        return []
    found = list(_unlike(_parameters(text), places, named, swallow))
    documented = {p.name for p in _parameters(text)} | {p.name for p in ours[:len(_parameters(text))]}
    needed = [p.name for p in ours if p.default is p.empty and
              p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return found + [f"requires {name}" for name in needed if name not in documented]


def _matches(pattern, text):
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text)


def _missing():
    for module, _, rest in LINES:
        name = re.match(r"[\w.]+", rest)[0]
        if _find(module, name) is None:
            yield f"{module} {name}"


def _differences():
    for module, _, rest in LINES:
        name = re.match(r"[\w.]+", rest)[0]
        found = _find(module, name)
        if found is not None:
            # A kernel that takes the forms of two releases has each as a function.
            forms = getattr(getattr(found, "func", None), "forms", [found])
            for problem in min((_problems(f, rest[len(name):]) for f in forms), key=len):
                separator = "" if problem.startswith("=") else " "
                yield f"{module} {name}{separator}{problem}"


def test_every_public_name_exists():
    assert [m for m in _missing() if not m.startswith(tuple(ABSENT))] == []


def test_every_signature_is_compatible():
    assert [d for d in _differences() if not any(_matches(k, d) for k in DIFFERENT)] == []


@pytest.mark.parametrize("known", [*ABSENT, *DIFFERENT])
def test_exceptions_are_still_needed(known):
    if known in ABSENT:
        assert any(m.startswith(known) for m in _missing())
    else:
        assert any(_matches(known, d) for d in _differences())


def test_the_list_covers_every_release():
    assert {when.split("-")[0] for _, when, _ in LINES} >= {"2.20", "2.27", "2.32", "2.33"}
    assert sum(module == "nki.isa" for module, _, _ in LINES) > 100


@pytest.mark.parametrize("module", ["nki.isa", "nki.language", "nki.collectives",
                                    "neuronxcc.nki.isa", "neuronxcc.nki.language"])
def test_a_namespace_has_nothing_of_the_front_ends_own(module):
    """Kernels may use documented names, and names of another release or of the device's own.

    nki_cpu_simulator, which adds modules of its own to nki's, leaves the names that kernels see alone."""
    importlib.import_module("nki_cpu_simulator")
    found = {n: v for n, v in vars(importlib.import_module(module)).items() if not n.startswith("_")}
    assert [n for n, v in found.items() if inspect.ismodule(v) and n != "constants"] == []
    assert [n for n in found if n in ("current", "fail", "state", "require_tensor", "Error",
                                      "plain_int", "KernelValueError", "TEXTS", "OPS")] == []


def test_nki_cpu_simulator_has_dtypes_by_their_modules_name():
    importlib.import_module("nki_cpu_simulator")
    from nki.language import dtypes
    assert dtypes is importlib.import_module("nki.dtype")
