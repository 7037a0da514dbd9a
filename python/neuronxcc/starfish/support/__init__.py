"""Helpers that legacy tests import."""
