"""torch_neuronx.xla_impl.ops: where nki_jit is as well."""

from nkisim.frameworks.torch_legacy import nki_jit

__all__ = ["nki_jit"]
