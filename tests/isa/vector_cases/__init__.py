"""Makes the tables of tests for vector and GpSimd instructions (make_cases.py)."""
