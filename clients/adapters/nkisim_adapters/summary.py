"""Extracts from a run's summary the figures that the adapters use."""


def slowest(summary):
    """The metrics of the core that took longest; empty without any."""
    return max(summary.values(), key=lambda m: m["total_time"], default={})
