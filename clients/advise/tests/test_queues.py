"""Tests the other DMA queues and engines that `nkisim advise` tries for the instructions of a
source line.
"""

from dataclasses import dataclass

import pytest

from nkisim_advise import engines
from nkisim_advise.facts import engines_of
from running import cli


def descriptions(found):
    return [edit.say for edit in found]


@dataclass
class Ref:
    tensor: str


class Copies:
    """DMAs between a tile and a tensor x, or another tile."""

    def __init__(self, count, target="trn2", role="input", **fields):
        self.target = target
        self.tensors = {"tile": {"space": "sbuf"}, "x": {"space": "hbm", "role": role}, "other": {"space": "sbuf"}}
        self.insts = [{"i": "dma_copy", **fields}] * count
        self.from_hbm = role is not None

    def operands(self, index):
        for name in ("tile", "x" if self.from_hbm else "other"):
            yield "dst", None, Ref(name), False, False

    def space(self, ref):
        return self.tensors[ref.tensor]["space"]

    def tried(self):
        return descriptions(engines._queues(self, "k.py:3", "dma_copy", list(range(len(self.insts)))))


def test_one_dma_cannot_start_from_two_queues():
    one, two = (Copies(n, role="internal").tried() for n in (1, 2))
    assert sum("two queues alternately" in s for s in one) == 0 and sum("two queues alternately" in s for s in two) == 1
    assert len(one) == 2 and len(two) == 3  # scalar's, and GpSimd's descriptors; sync's are the default
    assert all("1 DMA" in s for s in one) and all("2 DMAs" in s for s in two)


@pytest.mark.parametrize("given, has", [
    (Copies(1), "swdge"), (Copies(1, role="output"), "swdge"), (Copies(1, dge_mode="swdge", engine="gpsimd"), "swdge"),
    (Copies(1, engine="gpsimd"), "swdge"), (Copies(1, role=None), ".sync"), (Copies(1, role="internal"), ".sync"),
    (Copies(1, dge_mode="hwdge", engine="sync"), ".sync"), (Copies(1, dge_mode="hwdge", engine="scalar"), ".scalar")])
def test_what_a_dma_does_by_default_is_not_tried(given, has):
    ways = ("swdge", ".sync", ".scalar")
    assert [w for w in ways if not any(w in s.replace("from two", "") for s in given.tried())] == [has]


@pytest.mark.parametrize("given", [Copies(1, "trn1"), Copies(1, dge_mode="none")])
def test_descriptors_by_gpsimd_are_tried_where_they_are_not_the_default(given):
    assert any("swdge" in s for s in given.tried())


@pytest.mark.process
@pytest.mark.parametrize("words, code", [(("--budget", "0"), 2), (("--budget", "-1"), 2), (("--top", "0"), 2)], ids=str)
def test_nothing_is_done_within_no_budget(words, code):
    assert "--effort and --top are positive" in cli("advise", "none.jsonl", *words, code=code).stderr


class Lines:
    target = "trn2"

    def __init__(self, *engines):
        self.insts = [{"i": "tensor_copy", "engine": engine} for engine in engines]


@pytest.mark.process
def test_each_other_engine_is_tried_and_each_two_alternately():
    able = engines_of("tensor_copy", "trn2")
    assert len(able) >= 3 and "vector" in able
    found = descriptions(engines._engines(Lines("vector", "vector"), "k.py:3", "tensor_copy", [0, 1]))
    singles = [s for s in found if "to the other engine" in s]
    assert sorted(s.rsplit(".", 1)[1] for s in singles) == sorted(set(able) - {"vector"})
    pairs = [tuple(part.rsplit(".", 1)[1] for part in s.split(": ")[1].split(" and ")) for s in found
             if "alternately" in s]
    assert sorted(map(sorted, pairs)) == sorted(sorted((a, b)) for a in able for b in able if a < b)
    found = descriptions(engines._engines(Lines("vector"), "k.py:3", "tensor_copy", [0]))
    assert not [s for s in found if "alternately" in s]
