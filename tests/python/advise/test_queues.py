"""Other queues and engines that are tried for the instructions of a line."""

import pytest

from nkisim_advise import engines
from nkisim_advise.program import engines_of
from running import cli


def said(found):
    return [edit.say for edit in found]


def test_one_dma_cannot_start_from_two_queues():
    one, two = (said(engines._queues("k.py:3", "dma_copy", list(range(n)))) for n in (1, 2))
    assert sum("two queues in turn" in s for s in one) == 0 and sum("two queues in turn" in s for s in two) == 1
    assert len(one) == 3 and len(two) == 4  # sync's, scalar's, and GpSimd's descriptors
    assert all("1 DMA" in s for s in one) and all("2 DMAs" in s for s in two)


@pytest.mark.process
@pytest.mark.parametrize("words, code", [(("--budget", "0"), 2), (("--budget", "-1"), 2), (("--top", "0"), 2)], ids=str)
def test_nothing_is_done_within_no_budget(words, code):
    assert "--effort and --top are positive" in cli("advise", "none.jsonl", *words, code=code).stderr


class Lines:
    target = "trn2"

    def __init__(self, *engines):
        self.insts = [{"i": "tensor_copy", "engine": engine} for engine in engines]


@pytest.mark.process
def test_each_other_engine_is_tried_and_each_two_in_turn():
    able = engines_of("tensor_copy", "trn2")
    assert len(able) >= 3 and "vector" in able
    found = said(engines._engines(Lines("vector", "vector"), "k.py:3", "tensor_copy", [0, 1]))
    singles = [s for s in found if "to the other engine" in s]
    assert sorted(s.rsplit(".", 1)[1] for s in singles) == sorted(set(able) - {"vector"})
    pairs = [tuple(part.rsplit(".", 1)[1] for part in s.split(": ")[1].split(" and ")) for s in found if "in turn" in s]
    assert sorted(map(sorted, pairs)) == sorted(sorted((a, b)) for a in able for b in able if a < b)
    assert not [s for s in said(engines._engines(Lines("vector"), "k.py:3", "tensor_copy", [0])) if "in turn" in s]
