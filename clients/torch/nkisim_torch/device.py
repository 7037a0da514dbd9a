"""Provides the torch devices "neuron" and "xla": tensors in host memory that report that they are on the device.

"neuron" is torch's PrivateUse1 backend, written in Python: a DeviceTensor wraps a tensor on the
host, every operator runs on what it wraps, and factory functions reach us through the dispatcher's
fallback. "xla" has a dispatch key of its own but no device guard without torch_xla's C++; its
tensors are "neuron" to C++ and say "xla:0" to Python. No function of torch is replaced, but by the
stand-in for torch_xla: without a guard, C++ cannot say which device "xla" is, only "xla:0".
"""

import functools

import torch
from torch.utils import _device, backend_registration
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from . import autocast, native

DEVICES = ("neuron", "xla")
_libraries = []  # the fallbacks live as long as these
#: Operations that torch.tensor and its like call with dispatch to Python off: no fallback is asked then.
_UNDER_GUARD = ("copy_", "lift_fresh", "_to_copy")


class DeviceTensor(torch.Tensor):
    """A tensor on "neuron" or "xla": `host` has its values, `label` is the device it names."""

    @staticmethod
    def __new__(cls, host, device):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, host.shape, strides=host.stride(), storage_offset=host.storage_offset(),
            dtype=host.dtype, device=torch.device("neuron", 0), requires_grad=False)
        tensor.host = host
        tensor.label = torch.device(device.type, device.index or 0)
        return tensor

    def __init__(self, host, device):
        pass

    @property
    def device(self):
        return self.label

    @property
    def is_xla(self):
        return self.label.type == "xla"

    def numpy(self, *_, **__):
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() "
                        "to copy the tensor to host memory first.")

    def tolist(self):
        return self.host.tolist()

    def new_tensor(self, data, *, device=None, **settings):
        return torch.tensor(data, device=device or self.label,
                            **{"dtype": self.dtype, **settings})

    def __repr__(self, *, tensor_contents=None):
        text = repr(self.host)
        grad = (f", grad_fn=<{type(self.grad_fn).__name__}>" if self.grad_fn is not None else
                ", requires_grad=True" if self.requires_grad else "")
        return f"{text.rstrip()[:-1]}, device='{self.device}'{grad})"

    def __format__(self, spec):
        return format(self.host, spec) if self.dim() == 0 else object.__format__(self, spec)

    def __reduce_ex__(self, protocol):
        return _rebuild, (self.host, self.device.type, self.requires_grad)

    def __deepcopy__(self, memo):
        copied = DeviceTensor(self.host.detach().clone(), self.device)
        copied.requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            copied._is_param = True
        memo[id(self)] = copied
        return copied

    def __tensor_flatten__(self):
        return ["host"], self.label

    @staticmethod
    def __tensor_unflatten__(inner, label, size, stride):
        return DeviceTensor(inner["host"], label)

    def _stable_hash_for_caching(self):
        return f"nkisim.DeviceTensor:{self.label}"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _rebuild(host, device, requires_grad):
    register()
    return DeviceTensor(host, torch.device(device)).requires_grad_(requires_grad)


def _run(func, args, kwargs):
    """Runs an operator on the host; its results are where its operands are, or where `device`
    says."""
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, DeviceTensor)]
    asked = kwargs.get("device")
    if asked is None:
        device = given[0].label if given else None
        _check_together(func, args, kwargs, given)
    else:
        asked = torch.device(asked)
        # C++ takes "xla" for "neuron": what asks for "neuron" of an xla tensor means its own.
        device = asked if asked.type in DEVICES else None
        if device is not None and given and given[0].is_xla:
            device = given[0].label
        if device is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}
    host = tree_map(lambda leaf: leaf.host if isinstance(leaf, DeviceTensor) else leaf,
                    (args, kwargs))
    out = func(*host[0], **host[1])
    if device is None:
        return out
    out = tree_map(lambda leaf: DeviceTensor(leaf, device) if isinstance(leaf, torch.Tensor)
                   else leaf, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if given else out


#: Operators that may mix devices: copies, and those whose other operands are indices or numbers.
_MIXING = ("aten::copy_", "aten::_copy_from", "aten::index.Tensor", "aten::index_put_",
           "aten::index_put", "aten::_index_put_impl_", "aten::_to_copy")


def _check_together(func, args, kwargs, given):
    """As on a device, an operator takes tensors of one device; numbers without dimensions aside."""
    if not given or func.name().startswith(_MIXING) or not func.namespace == "aten":
        return
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.device != given[0].label:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, "
                f"{given[0].label} and {leaf.device}! ({func.name()})")


class _Module:
    """torch.neuron: what torch expects of a device's module."""

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def _is_in_bad_fork():
        return False

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def set_device(device):
        """One device is simulated; kernels choose their cores by their launch grid."""

    @staticmethod
    def synchronize(device=None):
        """Everything has run when its call returns."""

    @staticmethod
    def memory_allocated(device=None):
        return native.allocated(DeviceTensor)

    @staticmethod
    def manual_seed(seed):
        """Random numbers are the host's: torch.manual_seed has set them."""

    manual_seed_all = manual_seed

    @staticmethod
    def get_rng_state(device=None):
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state, device=None):
        torch.set_rng_state(state)

    @staticmethod
    def get_amp_supported_dtype():
        return [torch.bfloat16, torch.float16]


def _fallback(func, *args, **kwargs):
    return _run(func, args, kwargs)


@functools.cache
def register():
    """Makes torch know the devices; a second call does nothing."""
    setup = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        raise ImportError('the device "neuron" needs PyTorch 2.10 or newer; this is '
                          f"{torch.__version__}")
    setup("neuron", _Module())
    native.register(DeviceTensor)
    for key in ("PrivateUse1", "XLA"):
        library = torch.library.Library("_", "IMPL")  # noqa: TOR901
        library.fallback(_fallback, key)
        _libraries.append(library)
    autocast.register()
    for name in _UNDER_GUARD:
        operator = getattr(torch.ops.aten, name).default
        for key in ("PrivateUse1", "XLA"):
            _implement(name, functools.partial(_fallback, operator), key)
    _implement("_pin_memory", _pinned, "CPU")


def _implement(name, function, key):
    library = torch.library.Library("aten", "IMPL")  # noqa: TOR901
    library.impl(name, function, key)
    _libraries.append(library)


def _pinned(tensor, device=None):
    """Pinned memory of an accelerator that is the host: plain memory, a copy as ever."""
    return tensor.clone()


def _with_index(value):
    if isinstance(value, (str, torch.device)) and str(value) == "xla":
        return torch.device("xla", 0)
    return value


def _indexed(function):
    """`function` for which "xla" means "xla:0"."""

    @functools.wraps(function)
    def indexed(*args, **kwargs):
        return function(*map(_with_index, args), **{k: _with_index(v) for k, v in kwargs.items()})

    return indexed


@functools.cache
def enable_xla():
    """Lets Tensor.to, torch.tensor and the like take "xla" without a number."""
    register()
    _device._device_constructors()  # what a default device counts for, by the functions that there are
    torch.Tensor.to = _indexed(torch.Tensor.to)
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, _indexed(getattr(torch, name)))
