"""nki.isa and nki.collectives: one call, one instruction."""
