"""Fits the polynomials of isa/base/fp_math.hpp and act_tested.cpp (needs mpmath): python3 fit_polynomials.py.

Chebyshev fits in 60 digits, printed lowest power first with the largest relative error.
"""
import mpmath as mp

mp.mp.dps = 60


def fit(title, f, low, high, degree):
    coefficients, _ = mp.chebyfit(f, [low, high], degree + 1, error=True)
    worst = max(
        abs(mp.polyval(coefficients, low + (high - low) * i / 997) / f(low + (high - low) * i / 997) - 1)
        for i in range(1, 997)
    )
    print(f"{title}: degree {degree}, relative error {mp.nstr(worst, 3)}")
    print(", ".join(mp.nstr(c, 17) for c in reversed(coefficients)))


def even(f, limit):
    """f(sqrt z)/sqrt z with its value `limit` at zero."""
    return lambda z: limit if z <= 0 else f(mp.sqrt(z)) / mp.sqrt(z)


def erfc_scaled(t):
    """exp(x^2) erfc(x) with x = 2 (1 + t) / (1 - t)."""
    x = 2 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x)


half_ln2 = mp.log(2) / 2
fit("exp", mp.exp, -half_ln2 * 1.001, half_ln2 * 1.001, 10)
fit("tested exp", mp.exp, -half_ln2 * 1.001, half_ln2 * 1.001, 8)
fit("tested tanh", lambda r: mp.expm1(r) / r if r else mp.mpf(1), -half_ln2 * 1.001, half_ln2 * 1.001, 7)
fit("log", even(lambda s: 2 * mp.atanh(s), mp.mpf(2)), mp.mpf(0), mp.mpf("0.02945"), 6)
fit("sin", even(mp.sin, mp.mpf(1)), mp.mpf(0), (mp.pi / 2 * 1.001) ** 2, 7)
fit("atan", even(mp.atan, mp.mpf(1)), mp.mpf(0), (mp.sqrt(2) - 1) ** 2 * 1.001, 8)
fit("erf", even(mp.erf, 2 / mp.sqrt(mp.pi)), mp.mpf(0), mp.mpf(1), 9)
fit("erfc", erfc_scaled, mp.mpf(-1), mp.mpf("0.87"), 18)
