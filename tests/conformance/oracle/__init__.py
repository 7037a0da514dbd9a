"""An oracle of the NKI instruction API, written from AWS's documents alone, in NumPy."""
