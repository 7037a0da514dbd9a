"""neuronxcc.nki.compiler: allocators of the older NKI API (before SDK 2.27)."""

from nki.compiler import *  # noqa: F401,F403
from nki.compiler import psum, sbuf  # noqa: F401
