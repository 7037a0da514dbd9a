"""Runs a kernel function on arrays and returns a Result."""
