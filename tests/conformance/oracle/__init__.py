"""A NumPy reference of the functions of nki.isa (the oracle), written from AWS's documents alone."""
