"""neuronxcc.starfish.support.dtype."""

from nkisim.hostcast import static_cast
from nkisim.dtypes import *  # noqa: F401,F403
from nkisim.dtypes import BY_NAME

globals().update({k: v for k, v in BY_NAME.items() if k != "bool"})
__all__ = ["static_cast"]
