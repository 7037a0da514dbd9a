"""neuronxcc.nki.isa."""

from nkisim.api.language import public_names as _public_names
from nkisim.legacy import isa as _isa

# Without what makes these instructions of the present ones.
globals().update({name: value for name, value in _public_names(vars(_isa)).items() if not (
    getattr(value, "__module__", None) or type(value).__module__).startswith(
        ("nkisim.lowering", "nkisim.values.dtypes"))})

from . import constants  # noqa: E402,F401
