"""nki.collectives: operations between ranks, such as all_reduce."""

from nkisim.isa.collectives import *  # noqa: F403
