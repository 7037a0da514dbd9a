"""Defines the objects that a kernel holds (tensors and their views, indices, registers, dtypes), and errors."""
