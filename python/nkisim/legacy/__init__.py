"""neuronxcc.nki: the legacy API, in terms of the present one."""
