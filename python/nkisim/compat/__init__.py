"""Spellings of NKI 0.2 to 0.5, in terms of today's functions, which know nothing of them."""
