"""Tests which instructions or DMAs each machine operation waited for, on tables given here."""

from types import SimpleNamespace

import numpy as np
import pytest

from nkisim_profile.session import ENGINES
from nkisim_profile.tables.engines import producers


def rows(names, *values):
    columns = np.array(values, np.int64).reshape(len(values), len(names.split())).T
    return SimpleNamespace(**dict(zip(names.split(), columns)))


QUEUE = len(ENGINES)  # numbers of queues follow those of engines
PARTS = "core engine sequence producer producer_sequence"


@pytest.mark.parametrize("waiting, part, transfer", [
    ((0, 1, 9, -1, 0), -1, -1), ((0, 1, 9, -1, 1), -1, -1), ((0, 1, 9, -1, 5), -1, -1),  # for no one
    ((0, 1, 9, 0, 0), 0, -1), ((0, 1, 9, 0, 1), 1, -1), ((0, 1, 9, 2, 1), 2, -1), ((1, 1, 9, 0, 1), 3, -1),
    ((0, 1, 9, QUEUE, 0), -1, 0), ((1, 1, 9, QUEUE + 2, 7), -1, 2),
    ((0, 1, 9, 3, 1), -1, -1), ((0, 1, 9, QUEUE, 5), -1, -1)])  # for what the session does not have
def test_what_a_part_waited_for(waiting, part, transfer):
    parts = [(0, 0, 0, -1, 0), (0, 0, 1, -1, 0), (0, 2, 1, -1, 0), (1, 0, 1, -1, 0), waiting]
    transfers = rows("core queue sequence", (0, QUEUE, 0), (0, QUEUE, 7), (1, QUEUE + 2, 7))
    found = producers(SimpleNamespace(parts=rows(PARTS, *parts), transfers=transfers))
    assert [int(side[-1]) for side in found] == [part, transfer]
    assert [side[:-1].tolist() for side in found] == [[-1] * 4, [-1] * 4]


def test_of_an_instruction_in_several_parts_the_last():
    parts = rows(PARTS, (0, 0, 3, -1, 0), (0, 0, 3, -1, 0), (0, 1, 0, 0, 3))
    none = rows("core queue sequence")
    assert [side.tolist() for side in producers(SimpleNamespace(parts=parts, transfers=none))] == \
        [[-1, -1, 1], [-1, -1, -1]]
