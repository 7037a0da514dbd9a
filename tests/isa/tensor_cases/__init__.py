"""Builds the case tables of tensor and DMA instructions for make_cases.py."""
