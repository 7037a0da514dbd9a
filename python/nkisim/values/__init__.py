"""Defines the objects that a kernel handles (tensors and their views, indices, registers, dtypes),
and errors.
"""
