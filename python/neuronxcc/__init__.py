"""neuronxcc: the legacy name space of NKI, run by nkisim."""
