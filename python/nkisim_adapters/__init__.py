"""nkisim in the place of the device for published kernel search loops: one module per loop.

Each speaks the loop's own interface and gets everything it says from nkisim.evaluate.
"""
