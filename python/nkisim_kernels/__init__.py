"""Implements the kernels that SDK 2.20 and 2.21 shipped as neuronxcc.nki.kernels, written anew from their documented
signatures, layouts and results. Both releases' forms are taken: outputs as arguments (2.20) or returned (2.21)."""
