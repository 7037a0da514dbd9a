"""Implements nki.language, nki.jit and the other ways to run a kernel."""
