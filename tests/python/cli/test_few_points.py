"""Tests that the interval of a run covers what it takes with and without the numbers of few measurements."""
import nki
import nki.isa as nisa
import nki.language as nl
import pytest

import nkisim
from nkisim import Shape

P = 128


def tile(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


@nki.jit
def reciprocals(x):
    out, a = tile((P, 512), nl.float32, nl.shared_hbm), tile((P, 512))
    nisa.dma_copy(dst=a, src=x)
    for _ in range(40):
        nisa.reciprocal(dst=a, data=a)
    nisa.dma_copy(dst=out, src=a)
    return out


def products(rows, count=200):
    @nki.jit
    def kernel(w, x):
        out, kept = tile((P, 512), nl.float32, nl.shared_hbm), tile((P, 512))
        weights, moving = tile((rows, P), nl.bfloat16), tile((rows, 512), nl.bfloat16)
        nisa.dma_copy(dst=weights, src=w)
        nisa.dma_copy(dst=moving, src=x)
        sums = tile((P, 512), nl.float32, nl.psum)
        for i in range(count):
            nisa.nc_matmul(dst=sums, stationary=weights, moving=moving, accumulate=i > 0)
        nisa.tensor_copy(dst=kept, src=sums)
        nisa.dma_copy(dst=out, src=kept)
        return out

    return kernel, Shape((rows, P), "bfloat16"), Shape((rows, 512), "bfloat16")


def timed(kernel, *arguments, target="trn2", **overrides):
    return nkisim.run(kernel, *arguments, target=target, timing="only",
                      overrides={path.replace("__", "."): str(value) for path, value in overrides.items()})


def within(run, us):
    interval = run.confidence["interval"]
    return interval["low_us"] <= us <= interval["high_us"]


def test_a_rate_of_one_measurement_widens_and_is_named():
    run = timed(reciprocals, Shape((P, 512), "float32"), target="trn1")
    without = timed(reciprocals, Shape((P, 512), "float32"), target="trn1", rules__reciprocal__cycles_per_element=8)
    assert without.latency_us > 2 * run.latency_us and within(run, without.latency_us)
    assert run.confidence["interval"]["without"]["high_us"] == pytest.approx(without.latency_us, rel=0.02)
    assert "fewer than three measurements give reciprocal" in run.confidence["reasons"][1]
    # A number that is set by hand is no such number.
    assert not any("fewer than three" in reason for reason in without.confidence["reasons"])


@pytest.mark.parametrize("rows", [68, 80, 96, 112, 124])
def test_rows_between_those_measured_may_be_limited_or_not(rows):
    run = timed(*products(rows))
    lifted, limited = (timed(*products(n)).latency_us for n in (128, 64))
    assert lifted < run.latency_us < limited
    assert within(run, lifted) and within(run, limited)
    assert any("between those measured" in reason for reason in run.confidence["reasons"])


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_rows_that_were_measured_leave_nothing_open(rows):
    run = timed(*products(rows))
    without = run.confidence["interval"]["without"]
    assert [without["low_us"], without["high_us"]] == pytest.approx([run.latency_us] * 2, rel=1e-3)


def test_no_number_of_rows_is_a_cliff():
    times = [timed(*products(rows)).latency_us for rows in range(60, 129, 4)]
    assert all(0.85 < b / a < 1.02 for a, b in zip(times, times[1:], strict=False)), times
    assert 1.7 < times[0] / times[-1] < 2.1
