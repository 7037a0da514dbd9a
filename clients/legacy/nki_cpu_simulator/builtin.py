"""nki.builtin: an empty module under a name that nki-library's tests need; no kernel uses anything of it."""
