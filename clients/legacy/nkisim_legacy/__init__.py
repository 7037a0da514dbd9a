"""Implements the older API neuronxcc.nki (before SDK 2.27) by calls of the current API."""
