"""nki.dtype: the element types."""

from nkisim.values.dtypes import *  # noqa: F401,F403
from nkisim.values.dtypes import DType, BY_NAME, bool_

globals().update({name: value for name, value in BY_NAME.items() if name != "bool"})
float8e4, float8e5 = BY_NAME["float8_e4m3"], BY_NAME["float8_e5m2"]
__all__ = ["DType", "bool_"] + [n for n in BY_NAME if n != "bool"]
