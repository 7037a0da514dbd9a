"""neuronxcc.starfish.support: helpers that AWS's tests of neuronxcc.nki import."""
