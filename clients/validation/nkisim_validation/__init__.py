"""Compares simulated times with measured ones, for `nkisim validate` and `nkisim calibrate`."""
