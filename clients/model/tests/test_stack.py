"""Tests how the time of a step is divided among its parts, on runs made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from nkisim_model.stack import parts_of

US = 10**9  # femtoseconds
BYTES, FLOPS = 100, 2 * 128 * 128  # of a nanosecond at full rate
CAUSES = {"busy": 0, "wait_dma": 4}


def columns(names, rows):
    """A table of a session."""
    return SimpleNamespace(**{name: np.array([row[at] for row in rows], dtype=np.int64)
                              for at, name in enumerate(names.split())})


def divided(path, reads=(), products=()):
    """The parts of a step. path: (part, until in us); reads: (part, from, to, us at full rate); products: the same."""
    names = sorted({name for name, *_ in (*path, *reads, *products)})
    edges = [0, *(until for _, until in path)]
    session = SimpleNamespace(
        machine={"hbm_bytes_per_ns": BYTES, "pe_rows": 128, "pe_columns": 128, "clocks_ghz": {"tensor": 1.0},
                 "cores": 1},
        insts=columns("engine", [(0,) for _ in names]),
        path=columns("core from to inst cause", [(0, begin * US, end * US, names.index(name), CAUSES["wait_dma"])
                                                 for (name, end), begin in zip(path, edges)]),
        transfers=columns("inst src first_packet last_packet bytes", [
            (names.index(name), 0, begin * US, end * US, us * 1000 * BYTES) for name, begin, end, us in reads]),
        parts=columns("inst start end flops features", [
            (names.index(name), begin * US, end * US, us * 1000 * FLOPS, 0) for name, begin, end, us in products]
            or [(0, 0, 0, 0, 0)]))
    regions = {at: (0, name) for at, name in enumerate(names)}
    found = parts_of(session, regions, (0, names[0]), (0, names[-1]))
    assert sum(part.us for part in found.values()) == pytest.approx(edges[-1])
    assert all(part.us >= part.roof_us - 1e-9 for part in found.values())
    assert all(part.us == pytest.approx(sum(part.bounds.values())) for part in found.values())
    return {name: part for (_, name), part in found.items()}


def test_parts_that_do_not_overlap_keep_the_path():
    found = divided([("a", 10), ("b", 30)], [("a", 0, 10, 5), ("b", 12, 30, 9)])
    assert {name: part.us for name, part in found.items()} == pytest.approx({"a": 10, "b": 20})
    assert found["a"].bounds["wait_dma"] == pytest.approx(10)


def test_loads_ahead_take_their_time_of_the_part_before():
    """b loads for 12 us at full rate, evenly from 0 to 16, while a is on the path until 12: 9 of these are b's."""
    found = divided([("a", 12), ("b", 16)], [("b", 0, 16, 12)])
    assert {name: part.us for name, part in found.items()} == pytest.approx({"a": 3, "b": 13})
    assert found["b"].bounds == pytest.approx({"overlap": 9, "wait_dma": 4}) and found["b"].roof_us == 12


def test_loads_and_products_side_by_side_divide_the_time():
    """a multiplies for all of 10 us, while b loads at full rate: of the 20 us that they need, 10 are hidden."""
    found = divided([("a", 10), ("b", 15)], [("b", 0, 10, 10)], [("a", 0, 10, 10)])
    assert {name: part.us for name, part in found.items()} == pytest.approx({"a": 5, "b": 10})
    assert found["a"].hidden_us == pytest.approx(5) and found["b"].hidden_us == pytest.approx(5)
    assert found["a"].roof_us == pytest.approx(5) and found["a"].flops_us == pytest.approx(10)


def test_the_longer_of_reads_and_products_counts():
    found = divided([("a", 20)], [("a", 0, 10, 4)], [("a", 0, 20, 9)])
    assert (found["a"].read_us, found["a"].flops_us, found["a"].roof_us) == pytest.approx((4, 9, 9))
    assert found["a"].read_bytes == 4000 * BYTES and found["a"].flops == 9000 * FLOPS
