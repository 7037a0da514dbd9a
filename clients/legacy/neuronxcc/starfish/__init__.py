"""neuronxcc.starfish: a package of helpers that AWS's tests of neuronxcc.nki import."""
