"""torch_neuronx.xla_impl.ops: a second import path of nki_jit."""

from nkisim_torch.legacy import nki_jit

__all__ = ["nki_jit"]
