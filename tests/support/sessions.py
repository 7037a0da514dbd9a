"""Reads the arrays of a profile file (session) without the reader under test."""
import numpy as np


def session_arrays(path):
    """Every column as it was in the run, by `<table>.<column>`."""
    with np.load(path, allow_pickle=False) as file:
        stored = dict(file)
    arrays = {key: array for key, array in stored.items() if key.count(".") < 2}
    for key, array in stored.items():
        if key.endswith(".steps"):
            arrays[key.removesuffix(".steps")] = np.cumsum(array, dtype=np.int64)
    while left := [key for key in stored if ".minus." in key and key.split(".minus.")[0] not in arrays]:
        for key in left:
            column, other = key.split(".minus.")
            base = arrays.get(f"{column.split('.')[0]}.{other}")
            if base is not None:
                arrays[column] = stored[key].astype(np.int64) + base
    return {key: a.astype(np.int64) if a.dtype.kind == "i" else a for key, a in arrays.items()}
