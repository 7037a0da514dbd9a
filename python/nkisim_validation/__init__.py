"""Compares simulations with measurements, for `nkisim validate` and `nkisim calibrate`."""
