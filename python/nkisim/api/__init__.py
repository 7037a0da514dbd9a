"""nki.language, and nki.jit with its kin."""
