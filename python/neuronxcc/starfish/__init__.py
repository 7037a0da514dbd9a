"""neuronxcc.starfish: the package of helpers that AWS's legacy tests import."""
