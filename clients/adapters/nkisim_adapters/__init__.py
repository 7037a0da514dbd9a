"""Lets published kernel search programs (AccelOpt, autocomp, ...) use nkisim in place of the
device.

Each speaks the loop's own interface and gets everything it says from nkisim.evaluate.
"""
