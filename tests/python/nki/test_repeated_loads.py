"""Tests the compiler switch share=loads: loads that one statement of a kernel repeats are done
once. The chip's counts of transfers say so: 950 of 1,990 in prefill attention, where three
statements that load the same stay three. They are 404 of 572 in decode attention, and 926 of 940
in another of its versions, which moves single rows.
"""
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

P, TILES, REPEATS = 128, 4, 5


def sums(statements=1, row=False, store=False, columns=P):
    """x's tiles added up REPEATS times, each loaded anew by one or two statements."""
    def add(total, tile):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)

    @nki.jit
    def kernel(x):
        out = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        kept = nl.ndarray((P, TILES * columns), dtype=nl.float32, buffer=nl.private_hbm) if store else x
        total = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        if row:
            one = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=one, src=x[0:1, 0:columns])
            nisa.tensor_tensor(dst=total[0:1, :], data1=total[0:1, :], data2=one, op=nl.add)
        for _ in nl.affine_range(REPEATS):
            if store:
                nisa.dma_copy(dst=kept, src=x)
            for i in nl.affine_range(TILES):
                a = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=kept[0:P, i * columns:(i + 1) * columns])
                add(total, a)
                if statements == 2:
                    b = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.dma_copy(dst=b, src=kept[0:P, i * columns:(i + 1) * columns])
                    add(total, b)
        nisa.dma_copy(dst=out, src=total)
        return out

    return kernel


def transfers(target="trn2", compiler=None, columns=P, **kind):
    """The DMAs that run; the result is compared with NumPy's."""
    x = np.random.default_rng(0).integers(-8, 8, (P, TILES * columns)).astype(np.float32)
    found = nkisim.run(sums(columns=columns, **kind), x, target=target, compiler=compiler or {"share": "loads"})
    expected = kind.get("statements", 1) * REPEATS * x.reshape(P, TILES, columns).sum(axis=1)
    if kind.get("row"):
        expected[0] += x[0, :columns]
    np.testing.assert_array_equal(found.output, expected)
    return found.totals["dma_transfer_count"], found


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("statements", [1, 2])
def test_each_statement_loads_a_tile_once(target, statements):
    assert transfers(target, statements=statements)[0] == statements * TILES + 1
    assert transfers(target, {"share": "none"}, statements=statements)[0] == statements * TILES * REPEATS + 1


@pytest.mark.parametrize("kind, more", [({"row": True}, 1), ({"store": True}, REPEATS), ({"columns": 8192}, 0)])
def test_nothing_is_shared_with_rows_after_stores_or_beyond_what_was_measured(kind, more):
    assert transfers(**kind)[0] == TILES * REPEATS + more + 1


def test_it_is_no_default():
    assert transfers(compiler={"share": "auto"})[0] == TILES * REPEATS + 1


def test_the_interval_says_so_and_has_the_time_without_it():
    _, with_it = transfers(columns=1024)
    _, without = transfers(columns=1024, compiler={"share": "none"})
    interval, reasons = (with_it.confidence[key] for key in ("interval", "reasons"))
    assert interval["low_us"] < with_it.latency_us < without.latency_us < interval["high_us"]
    assert any(f"{TILES * (REPEATS - 1)} loads that repeat are done once" in reason for reason in reasons)


def repeats(run):
    return [reason for reason in run.confidence["reasons"] if "repeat what their statement loaded" in reason]


def test_without_it_the_interval_has_the_time_with_it():
    (_, with_it), (_, without) = transfers(columns=1024), transfers(columns=1024, compiler={"share": "none"})
    open_ = without.confidence["interval"]["without"]
    assert open_["low_us"] < 1.0001 * with_it.latency_us < without.latency_us < 1.0001 * open_["high_us"]
    assert f"{TILES * (REPEATS - 1)} loads repeat" in repeats(without)[0] and not repeats(with_it)


@pytest.mark.parametrize("kind", [{"row": True}, {"store": True}, {"columns": 16384}])
def test_rows_stored_data_and_what_exceeds_sbuf_leave_nothing_open(kind):
    x = nkisim.Shape((P, TILES * kind.get("columns", P)), "float32")
    assert not repeats(nkisim.run(sums(**kind), x, timing="only"))
