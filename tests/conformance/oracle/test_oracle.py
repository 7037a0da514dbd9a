"""Tests that nkisim agrees with the NumPy reference on random tests, and that the comparison
notices differences.
"""

import contextlib
import io
import itertools
import os

import numpy as np
import pytest

import nki.isa as nisa
import nki.language as lang
import nkisim

from . import illegal  # noqa: F401 - fills the list of the bench
from .bench import cases as illegal_cases
from .case import CASES, nl
from .collectives import Case as World
from .collectives import survey as survey_worlds
from .legacy import draw as draw_legacy
from .legacy import survey as survey_legacy
from .variable import Case as Counted
from .variable import survey as survey_counted
from .kernel import OtherTile
from .kernel import results as run_cases
from .run import Draw, draw, execute, compare_results

#: Cases of the gate; .ci/nightly runs more by run.py, with a seed of its own.
TOTAL = int(os.environ.get("NKISIM_ORACLE_CASES", "20000"))
SEED = int(os.environ.get("NKISIM_ORACLE_SEED", "1"))
SHARES = 4


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.parametrize("share", range(SHARES))
def test_random_cases_agree_with_the_documents(share):
    count, found = TOTAL // SHARES, []
    for first in range(share * count, (share + 1) * count, 2500):
        numbered = [(n, draw(SEED, n)) for n in range(first, min(first + 2500, (share + 1) * count))]
        for number, case, results in execute(numbered, 24):
            found += [
                f"seed {SEED}, case {number}: {case.function} ({case.option}, generation {case.generation}): {d}"
                for label, d in compare_results(case, results)
                if label != "undocumented"
            ]
    assert not found, "\n".join([f"{len(found)} results differ", *found[:20]])


def other(expect, place):
    """A value that `expect` does not allow at `place`."""
    for value in (0, 1, 3, 100):
        changed = expect.low.copy()
        changed[place] = value
        if expect.wrong(changed)[place]:
            return changed
    raise AssertionError(f"every value is allowed: {expect.low[place]}..{expect.high[place]}")


@pytest.mark.parametrize("function", sorted(CASES))
def test_a_changed_element_is_noticed(function):
    changed = 0
    for number, (drawer, since) in enumerate(CASES[function] * 8):
        with np.errstate(all="ignore"):
            case = drawer(Draw(np.random.default_rng((7, number)), since))
        own = {name: e.low for name, e in case.expect.items()}
        if any(e.check is not None for e in case.expect.values()):
            continue
        assert [label for label, _ in compare_results(case, own) if label == "wrong"] == []
        for name, expect in case.expect.items():
            known = np.argwhere(~expect.unknown)
            if len(known):
                labels = [label for label, _ in compare_results(case, own | {name: other(expect, tuple(known[-1]))})]
                assert "wrong" in labels, (case.option, name)
                changed += 1
    properties = ("nl.fill", "rand2", "rng", "topk")  # results of which only a property is documented
    assert changed or function in properties


def test_another_operator_is_noticed():
    case = next(c for n in range(0, 10**6) if (c := draw(5, n, "tensor_tensor")).option.startswith("add, float32"))
    ((function, keywords),) = case.calls
    case.calls = [(function, keywords | {"op": nl("subtract")})]
    ((_, _, results),) = execute([(0, case)], 1)
    assert [label for label, _ in compare_results(case, results)][:1] == ["wrong"]


def test_a_refusal_is_a_finding_and_spoils_no_other_case():
    good, bad = draw(5, 0, "tensor_copy"), draw(5, 0, "tensor_copy")
    bad.calls = [("tensor_copy", {**bad.calls[0][1], "engine": 7})]
    found = {number: compare_results(case, results) for number, case, results in execute([(0, good), (1, bad)], 2)}
    assert found[0] == [] and found[1][0][0] == "refused"


def test_what_a_page_calls_illegal_is_refused():
    taken, other = [], []
    for function, generation, says, case in illegal_cases():
        (found,) = run_cases([case])
        if not isinstance(found, Exception):
            taken.append(f"{function} on generation {generation}: {says}")
        elif not isinstance(found, nkisim.Error) or not str(found).startswith(function + ":"):
            other.append(f"{function} ({says}): {type(found).__name__}: {found}")
    assert taken == [] and other == []


#: Values that a kernel may pass by mistake for any operand; the large number once ended the process.
ODD = [None, [1, 2], np.zeros((2, 2), np.float32), "text", object(), 10**30, -1, float("nan"), (), {}, 3 + 4j, type]


@pytest.mark.slow
def test_an_odd_operand_gives_a_result_or_an_error_of_nkisim():
    found = []
    for number in range(1500):
        case, rng = draw(SEED, number), np.random.default_rng(number)
        function, keywords = case.calls[-1]
        name, value = sorted(keywords)[rng.integers(len(keywords))], ODD[rng.integers(len(ODD))]
        if function == "body" or name in ("out", "arguments"):
            continue
        case.calls[-1] = (function, keywords | {name: value})
        with contextlib.redirect_stdout(io.StringIO()):
            (result,) = run_cases([case])
        if isinstance(result, Exception) and not isinstance(result, (nkisim.Error, OtherTile)):
            found.append(f"seed {SEED}, case {number}: {function}({name}={value!r}): {type(result).__name__}: {result}")
    assert found == []


def test_a_choice_beyond_64_bits_is_refused():
    case = next(c for n in range(10**6) if "reduce=True" in (c := draw(5, n, "select_reduce")).option)
    (function, keywords), *_ = case.calls
    case.calls = [(function, keywords | {"reduce_cmd": 10**30})]
    (found,) = run_cases([case])
    assert f"reduce_cmd is {10**30}; an integer of 64 bits is required" in str(found)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint16"])
def test_two_cores_exchange_tiles(target, dtype):
    """nki.isa.sendrecv: each core's src arrives in the other's dst; core_barrier: both halves of a shared tensor are
    written before either core reads the other's."""
    data = Draw(np.random.default_rng(3), 3).values((2, 32, 12), dtype)

    def kernel(x):
        mine = lang.program_id(0)
        out = lang.ndarray((2, 32, 12), dtype=x.dtype, buffer=lang.shared_hbm)
        shared = lang.ndarray((2, 32, 12), dtype=x.dtype, buffer=lang.shared_hbm)
        src, dst, far = (lang.ndarray((32, 12), dtype=x.dtype, buffer=lang.sbuf) for _ in range(3))
        nisa.dma_copy(dst=src, src=x[mine])
        nisa.sendrecv(src=src, dst=dst, send_to_rank=1 - mine, recv_from_rank=1 - mine, pipe_id=0)
        nisa.dma_copy(dst=shared[mine], src=dst)
        nisa.core_barrier(data=shared, cores=(0, 1))
        nisa.dma_copy(dst=far, src=shared[1 - mine])
        nisa.dma_copy(dst=out[mine], src=far)
        return out

    got = nkisim.run(kernel, data, target=target, grid=2).outputs
    assert got.tobytes() == data.tobytes()  # exchanged twice: each core ends with its own


@pytest.mark.slow
@pytest.mark.parametrize("survey, share", [(survey_worlds, 20), (survey_counted, 40), (survey_legacy, 10)])
def test_others_agree_with_the_documents(survey, share):
    """Collectives, those of variable lengths, and neuronxcc.nki."""
    found = list(survey(SEED, max(200, TOTAL // share)))
    assert not found, "\n".join([f"{len(found)} differ", *found[:20]])


def test_a_changed_byte_of_a_collective_is_noticed():
    for number in range(30):
        world = World((9, number))
        right = world.expected
        world.expected = lambda rank, right=right: _changed(right(rank), rank == 1)
        assert world.differences() == [1], str(world)


def test_a_changed_element_of_a_variable_length_is_noticed():
    """The page documents each element of dst for all_gather_v."""
    for world in itertools.islice((w for n in range(200) if (w := Counted((9, n))).function == "all_gather_v"), 10):
        right = world.expected
        world.expected = lambda rank, right=right: (_changed(right(rank)[0], rank == 1), *right(rank)[1:])
        assert world.differences() == [1], str(world)


def test_a_changed_element_of_a_legacy_result_is_noticed():
    for number in range(80):
        case = draw_legacy(9, number)
        assert not case.differs(case.expected), case.option
        other = case.expected.copy()
        other.reshape(-1)[-1] += 1
        assert case.differs(other), case.option


def _changed(array, change):
    array = np.ascontiguousarray(array).copy()
    array.view(np.uint8).reshape(-1)[-1] ^= change
    return array
