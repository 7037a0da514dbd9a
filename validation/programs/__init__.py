"""Programs of the validation table, written as traces to the structure of the measured kernels."""
