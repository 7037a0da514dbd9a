"""Lets published kernel search loops use nkisim in place of the device: one module per loop.

Each speaks the loop's own interface and gets everything it says from nkisim.evaluate.
"""
