"""Builds the programs of the validation table, as traces with the structure of the measured kernels."""
