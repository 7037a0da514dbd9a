"""neuronxcc.starfish.support: helpers that AWS's legacy tests import."""
