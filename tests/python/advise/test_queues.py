"""Which other queues and engines are tried for the instructions of a line."""

import pytest

from nkisim_advise import engines
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
    assert "--budget and --top are positive" in cli("advise", "none.jsonl", *words, code=code).stderr
