"""Makes the tables of tests for tensor-engine and DMA instructions (make_cases.py)."""
