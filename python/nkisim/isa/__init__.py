"""Implements nki.isa and nki.collectives, where each call records one instruction."""
