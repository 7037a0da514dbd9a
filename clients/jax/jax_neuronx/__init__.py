"""jax_neuronx: the package that calls NKI kernels from JAX, here run by nkisim."""

from nkisim.tools.frameworks import require_package

require_package("jax", "jax_neuronx", "JAX")

from nkisim_jax.calls import nki_call  # noqa: E402

__all__ = ["nki_call"]
