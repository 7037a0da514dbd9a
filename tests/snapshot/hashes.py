"""Computes hashes of arrays and texts, so that results of two builds can be compared."""

import ast
import hashlib
import zipfile

import numpy as np


def of_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return hashlib.sha256(data).hexdigest()[:16]


def of_array(array):
    """Type, shape and a hash of every bit: -0 differs from 0, one NaN from another."""
    data = np.ascontiguousarray(array)
    return f"{array.dtype.name}{list(array.shape)} {of_text(data.tobytes())}"


def of_npz(path):
    """{name: hash} of an archive's arrays; the zip file around them and its headers do not count.

    Read here, as NumPy refuses the types that ml_dtypes adds.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            data = archive.read(member)
            start = 10 if data[6] == 1 else 12  # after the magic, the version and the length
            end = start + int.from_bytes(data[8:start], "little")
            header = ast.literal_eval(data[start:end].decode())
            order = " Fortran" if header["fortran_order"] and len(header["shape"]) > 1 else ""
            found[member.removesuffix(".npy")] = (
                f"{header['descr']}{list(header['shape'])}{order} {of_text(data[end:])}")
    return found
