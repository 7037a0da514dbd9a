"""Implements the ready-made kernels that SDK 2.20 and 2.21 shipped as neuronxcc.nki.kernels,
written anew from their documented signatures, layouts and results. Outputs may be arguments
(2.20) or returned (2.21).
"""
