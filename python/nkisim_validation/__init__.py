"""Simulations held against measurements, for `nkisim validate` and `nkisim calibrate`."""
