"""Formats latencies for people."""


def time_text(us: float) -> str:
    """In microseconds, from 10,000 of them on in milliseconds (src/report/totals has the same)."""
    return f"{us:.3f} us" if us < 10000 else f"{us / 1000:.3f} ms"
