"""Rebuilds measured kernels as programs, for the table of simulated and measured times."""
