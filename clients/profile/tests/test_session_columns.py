"""Tests the reader of untrusted profile files (.npz): wrong columns are refused, right ones are
read.
"""

import numpy as np
import pytest

from nkisim_profile.columns import TABLES, BadSession, Columns
from nkisim_profile.session import Session


def session(path, **arrays):
    with open(path, "wb") as out:
        np.savez(out, **{name.replace("__", "."): array for name, array in arrays.items()})
    return Columns(path)


def texts(path, text, ends):
    return session(path, texts__bytes=np.frombuffer(text, "u1"), texts__ends=np.array(ends, "i8")).texts()


@pytest.mark.parametrize("text, ends, found", [
    (b"", [], []), (b"left over", [], []), (b"abc", [3], ["abc"]), (b"abc", [0, 2, 2, 3], ["", "ab", "", "c"]),
    (b"abc", [1, 2], ["a", "b"])])
def test_texts_lie_one_after_the_other(tmp_path, text, ends, found):
    assert texts(tmp_path / "s", text, ends) == found


@pytest.mark.parametrize("ends", [[-1], [-1, 3], [4], [0, 4], [2, 1, 3], [3, 2]])
def test_texts_outside_of_their_bytes(tmp_path, ends):
    with pytest.raises(BadSession, match="texts.ends do not fit texts.bytes"):
        texts(tmp_path / "s", b"abc", ends)


@pytest.mark.parametrize("facts, said", [(b"[1]", "its facts are no object"), (b"{", "its facts are no JSON"),
                                         (b"[" * 100000, "its facts are no JSON")])
def test_facts_are_an_object(tmp_path, facts, said):
    with pytest.raises(BadSession, match=said):
        session(tmp_path / "s", facts=np.frombuffer(facts, "u1")).facts()
    assert session(tmp_path / "s", facts=np.frombuffer(b'{"a": 1}', "u1")).facts() == {"a": 1}


@pytest.mark.parametrize("array", [np.zeros((2, 2), "i8"), np.zeros(2, "u4"), np.zeros(2, "f8"), np.array(1)])
def test_a_column_is_a_row_of_numbers_of_its_type(tmp_path, array):
    with pytest.raises(BadSession, match="a is .* of shape"):
        session(tmp_path / "s", a=array).numbers("a")
    with pytest.raises(BadSession, match="it has no b"):
        session(tmp_path / "s", a=array).numbers("b")


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", ">i4"])
def test_numbers_may_be_stored_in_fewer_bytes(tmp_path, dtype):
    found = session(tmp_path / "s", a=np.array([-128, 0, 127], dtype)).numbers("a")
    assert found.tolist() == [-128, 0, 127] and found.dtype == np.int64


def test_numbers_in_fewer_bytes_count_as_what_they_become(tmp_path, monkeypatch):
    columns = session(tmp_path / "s", a=np.zeros(100, "i1"), b=np.zeros(100, "i1"))
    monkeypatch.setattr("nkisim_profile.columns.MAX_BYTES", 1000)
    columns.numbers("a")
    with pytest.raises(BadSession, match="unpacked"):
        columns.numbers("b")


def test_differences_are_undone(tmp_path):
    every = {f"{t}.{c}": np.zeros(3 if t == "lanes" else 1, "i8") for t, columns in TABLES.items() for c in columns}
    del every["lanes.start"], every["lanes.end"]
    every |= {"lanes.start.steps": np.array([10, -3, 1 << 62]), "lanes.end.minus.start": np.array([1, 2, 1 << 62]),
              "lanes.later.minus.start": np.zeros(9)}  # a later version's
    found = session(tmp_path / "s", **every).tables(2, 1)["lanes"]
    assert found.start.tolist() == [10, 7, (1 << 62) + 7]
    assert found.end.tolist() == [11, 9, (1 << 63) + 7 - (1 << 64)]  # they wrap


@pytest.mark.parametrize("wrong", [
    {"lanes.end.minus.start": np.zeros(2, "i1")}, {"lanes.end.minus.start": np.zeros(3, "f4")},
    {"lanes.start.minus.end": np.zeros(3, "i1"), "lanes.end.minus.start": np.zeros(3, "i1")}])
def test_differences_that_nothing_fits(tmp_path, wrong):
    every = {f"{t}.{c}": np.zeros(3 if t == "lanes" else 1, "i8") for t, columns in TABLES.items() for c in columns}
    for name in ("lanes.end", *(["lanes.start"] if len(wrong) > 1 else [])):
        del every[name]
    with pytest.raises(BadSession):
        session(tmp_path / "s", **every, **wrong).tables(2, 1)



def tables(path, **changed):
    """Tables of one row each, of zeros, but for what is changed; two texts and one core."""
    every = {f"{t}.{c}": np.zeros(1, "i8") for t, columns in TABLES.items() for c in columns}
    for name, values in changed.items():
        every[name.replace("__", ".")] = np.array(values, "i8")
    return session(path, **every).tables(2, 1)


@pytest.mark.parametrize("good", [
    {}, {"insts__op": [1]}, {"insts__engine": [4]}, {"parts__unit": [5]}, {"uses__write": [1]}, {"path__inst": [-1]},
    {"parts__start": [-5]}])
def test_numbers_within_their_tables(tmp_path, good):
    found = tables(tmp_path / "s", **good)
    assert found.keys() == TABLES.keys()
    for name, values in good.items():
        table, column = name.split("__")
        assert found[table].columns[column].tolist() == values and len(found[table]) == 1


@pytest.mark.parametrize("bad, said", [
    ({"insts__op": [2]}, "insts.op has 2..2; 0..1 is required"),
    ({"insts__op": [-1]}, "insts.op has -1..-1; 0..1 is required"),
    ({"insts__engine": [5]}, "insts.engine has 5..5; 0..4 is required"),
    ({"insts__core": [1]}, "insts.core has 1..1; 0..0 is required"),
    ({"parts__inst": [1]}, "parts.inst has 1..1; 0..0 is required"),
    ({"path__inst": [-2]}, "path.inst has -2..-2; -1..0 is required"),
    ({"insts__core": [0, 0]}, "insts.core has 2 rows; 1 are required"),
    ({"charged__busy": []}, "charged.busy has 0 rows; 1 are required")])
def test_numbers_outside_of_their_tables(tmp_path, bad, said):
    with pytest.raises(BadSession, match=said):
        tables(tmp_path / "s", **bad)


@pytest.mark.parametrize("facts, said", [
    ('{"session_version": 1}', "KeyError: 'machine'"), ('{"session_version": 1, "machine": {}}', "KeyError: 'cores'"),
    ('{"session_version": 1, "machine": []}', "TypeError: "),
    ('{"session_version": 1, "machine": {"cores": "two"}}', "ValueError: .*'two'"),
    ('{"session_version": 1, "machine": {"cores": 1}, "accounting": {"end_fs": -1}}', "impossible facts"),
    ('{"session_version": 1, "machine": {"cores": 0}, "accounting": {"end_fs": 1}}', "impossible facts"),
    ('{"session_version": 3}', "session version 3; this program reads versions 1 and 2")])
def test_facts_that_are_not_those_of_a_profile_file(tmp_path, facts, said):
    session(tmp_path / "s", facts=np.frombuffer(facts.encode(), "u1"))
    with pytest.raises(BadSession, match=said):
        Session(tmp_path / "s")
