"""Takes NumPy, PyTorch and JAX arrays as kernel arguments and returns such results, without
importing the frameworks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..values import dtypes
from ..values.errors import KernelTypeError
from ..values.shape import Shape


def _module(value):
    return type(value).__module__.split(".")[0]


def is_torch(value: object) -> bool:
    """True if this is a torch tensor, of whatever subclass."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_array(value: object) -> bool:
    if isinstance(value, (np.ndarray, Shape)) or is_torch(value):
        return True
    return (_module(value) in ("jax", "jaxlib") and hasattr(value, "dtype") and
            hasattr(value, "shape"))


def to_numpy(value: Any) -> tuple[str, np.ndarray]:
    """(kind, array)."""
    if isinstance(value, np.ndarray):
        return "numpy", value
    if is_torch(value):
        return "torch", _torch_to_numpy(value)
    if isinstance(value, Shape) or not hasattr(value, "__array__"):  # jax.ShapeDtypeStruct
        raise KernelTypeError(f"an argument is {value!r}, a shape without values; timing='only' "
                              "takes it, and nkisim.shapes records a kernel on shapes", rule="shape_argument")
    return "jax", np.asarray(value)


def device_of(value: Any) -> Any:
    """The torch device of a tensor that is not on the host, else None."""
    return value.device if is_torch(value) and value.device.type != "cpu" else None


def settle(value: Any) -> None:
    """Waits for the JAX arrays in (nested) arguments: a computation that they come from may itself
    call a kernel, and only one runs at a time."""
    if isinstance(value, (list, tuple)):
        for v in value:
            settle(v)
    elif isinstance(value, dict):
        settle(list(value.values()))
    elif hasattr(value, "block_until_ready"):
        value.block_until_ready()


_TORCH_BITS = {"torch.bfloat16": ("int16", "bfloat16"),
               "torch.float8_e4m3fn": ("int8", "float8_e4m3fn"),
               "torch.float8_e5m2": ("int8", "float8_e5m2"),
               "torch.float8_e8m0fnu": ("int8", "float8_e8m0fnu")}


def _torch_to_numpy(value):
    value = value.detach().cpu().contiguous()
    bits = _TORCH_BITS.get(str(value.dtype))
    if bits is None:
        return value.numpy()
    torch = sys.modules["torch"]
    return value.view(getattr(torch, bits[0])).numpy().view(dtypes.BY_NAME[bits[1]].dtype)


def from_numpy(array: np.ndarray, kind: str, dtype: dtypes.DType | None = None, device: Any = None) -> Any:
    """The array as one of `kind`, for torch on `device` (None: the host); packed types (`dtype`)
    keep their name in NumPy (neuron_dtypes)."""
    if kind == "numpy" and dtype is not None and dtype.is_packed:
        return array.view([(str(dtype), array.dtype)])
    if kind == "torch":
        tensor = _numpy_to_torch(array)
        return tensor if device is None else tensor.to(device)
    if kind == "jax":
        return sys.modules["jax"].numpy.asarray(array)
    return array


def _numpy_to_torch(array):
    """A tensor with the array's memory, or with a copy of it where torch could not write there."""
    torch = sys.modules["torch"]
    array = np.ascontiguousarray(array)
    if not array.flags.writeable:
        array = array.copy()
    for torch_name, (bits, name) in _TORCH_BITS.items():
        if array.dtype.name == name and hasattr(torch, torch_name[6:]):
            raw = torch.from_numpy(array.view(bits))
            return raw.view(getattr(torch, torch_name[6:]))
    return torch.from_numpy(array)


def can_change(host: Any) -> bool:
    """True if an argument's array can take what the kernel writes: JAX arrays never do."""
    if isinstance(host, np.ndarray):
        return host.flags.writeable
    return is_torch(host)


def write_back(host: Any, array: np.ndarray) -> None:
    """Stores what the kernel wrote to an argument in the caller's array, if it can change."""
    array = array.reshape(tuple(host.shape))
    if isinstance(host, np.ndarray):
        if host.flags.writeable:
            host[...] = array.astype(host.dtype)
    elif is_torch(host):
        host.detach().copy_(_numpy_to_torch(array))


def bits(array: np.ndarray) -> np.ndarray:
    """An array that np.load takes: it refuses float8_e5m2, which np.save calls '<f1', and knows the
    others of ml_dtypes as raw bytes only."""
    return array.view(f"V{array.itemsize}") if array.dtype.isbuiltin == 2 else array


def save_archive(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an .npz file, whole or not at all: as np.savez does, whose own arguments (file, allow_pickle) no
    array may be called."""
    import zipfile

    from nkisim_work.files import replacing  # whose package starts pools

    with replacing(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
