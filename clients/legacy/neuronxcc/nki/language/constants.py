"""neuronxcc.nki.language.constants: limits of the target, and sizes of dtypes."""

from neuron_dtypes import sizeinbytes  # noqa: F401
from nkisim.api.language import tile_size as _limits


def __getattr__(name):
    """The attributes of nl.tile_size; some depend on the target."""
    return getattr(_limits, name)
