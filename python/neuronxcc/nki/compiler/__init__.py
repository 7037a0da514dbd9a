"""neuronxcc.nki.compiler."""

from nki.compiler import *  # noqa: F401,F403
from nki.compiler import psum, sbuf  # noqa: F401
