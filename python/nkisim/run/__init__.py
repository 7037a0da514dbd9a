"""From a kernel function and arrays to a Result."""
