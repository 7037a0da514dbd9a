"""torch_neuronx.xla_impl.ops: a second import path of nki_jit."""

from nkisim.frameworks.torch_legacy import nki_jit

__all__ = ["nki_jit"]
