"""Tests the search for the functions that enclose the source line of an instruction."""

from types import SimpleNamespace

import pytest

from nkisim_profile.tables.source import Frames

SOURCE = """\
def one(): copy()

def outer():
    def inner():
        copy()
    copy()

class C:
    def method(self):
        copy()
copy()
"""
ONE, OUTER, INNER, METHOD = (("k.py", name, line) for name, line in
                             (("one", 1), ("outer", 3), ("outer.inner", 4), ("C.method", 9)))
MODULE = ("k.py", "<module>", 1)


@pytest.mark.parametrize("line, stack", [
    (1, [ONE]), (2, [MODULE]), (3, [OUTER]), (4, [OUTER, INNER]), (5, [OUTER, INNER]), (6, [OUTER]), (7, [MODULE]),
    (8, [MODULE]), (9, [METHOD]), (10, [METHOD]), (11, [MODULE])])
def test_functions_around_a_line(line, stack):
    insts = SimpleNamespace(file=[0, 1, 1], line=[0, line, line])
    frames = Frames(SimpleNamespace(sources={"k.py": SOURCE}, texts=["", "k.py"], insts=insts))
    nowhere, found, again = frames.of_inst
    assert nowhere == (None, 0) and found == again and found[1] == len(stack) == len(frames.rows)
    number, names = found[0], []
    while number is not None:
        *name, number = frames.rows[number - 1]
        names.insert(0, tuple(name))
    assert names == stack
