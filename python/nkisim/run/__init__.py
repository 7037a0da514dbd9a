"""Runs a kernel function on arrays in the simulator, and returns a Result."""
