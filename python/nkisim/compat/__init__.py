"""Accepts the spellings of NKI 0.2 to 0.5 and calls the functions of the current release with them."""
