"""The module `builtin`, into which nki-library's tests make Python's: no kernel uses anything of it."""
