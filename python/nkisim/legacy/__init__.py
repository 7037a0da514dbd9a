"""Implements the legacy API neuronxcc.nki by calls of the current API."""
