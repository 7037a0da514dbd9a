"""Implements nki.isa and nki.collectives: each call adds one instruction to the kernel's program."""
