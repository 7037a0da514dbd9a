"""Builds the case tables of vector and GpSimd instructions for make_cases.py."""
