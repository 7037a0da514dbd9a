"""neuronxcc.starfish.support.dtype: dtypes that AWS's tests of neuronxcc.nki import."""

from nkisim.values.hostcast import static_cast
from nkisim.values.dtypes import *  # noqa: F401,F403
from nkisim.values.dtypes import BY_NAME

globals().update({k: v for k, v in BY_NAME.items() if k != "bool"})
__all__ = ["static_cast"]
