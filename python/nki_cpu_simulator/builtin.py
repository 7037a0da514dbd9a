"""What nki-library's tests make Python's `builtin`: no kernel uses anything of it."""
