"""torch_xla.core.xla_model: simulated devices and steps of torch_xla. Everything has run when its
call returns, so there is nothing to mark or wait for.
"""

import contextlib

import torch
from nkisim_torch.legacy import unsupported


def xla_device(n=None, devkind=None):
    """The simulated device; n and devkind choose among several, and there is one."""
    return torch.device("xla", 0)


def xla_real_devices(devices=None):
    return ["NEURON:0"]


def get_xla_supported_devices(devkind=None, max_devices=None):
    return ["xla:0"]


def xla_device_hw(device):
    return "NEURON"


def mark_step(wait=False, reset_scope=True):
    """Does nothing."""


def wait_device_ops(devices=()):
    """Does nothing."""


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None, pin_layout=True):
    """The optimizer's step; gradients of one replica need no reduction."""
    return optimizer.step(**(optimizer_args or {}))


def get_ordinal(defval=0):
    return 0


def is_master_ordinal(local=True):
    return True


def xrt_world_size(defval=1):
    return 1


def master_print(*args, fd=None, local=False, flush=False):
    print(*args, file=fd, flush=flush)


def save(data, file_or_path, master_only=True, global_master=False):
    """torch.save of the data on the host."""
    from torch.utils._pytree import tree_map
    torch.save(tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, data),
               file_or_path)


def set_rng_state(seed, device=None):
    torch.manual_seed(seed)


def _device(index=None):
    """torch_xla.device()."""
    return xla_device(index)


def _devices():
    return [xla_device()]


def _sync(wait=False, reset_scope=True):
    """torch_xla.sync(): does nothing."""


@contextlib.contextmanager
def _step():
    """with torch_xla.step(): nothing is held back until its end."""
    yield


__getattr__ = unsupported(__name__)
