"""An oracle (independent reference) of the NKI instruction API in NumPy, written from AWS's documents alone."""
