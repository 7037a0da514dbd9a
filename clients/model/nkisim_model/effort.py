"""Estimates the instructions of a step, which decide how many of its layers are simulated, and whether it is at all."""

from __future__ import annotations

from .architecture import ModelError
from .sampling import OF_LONG_STEP, OF_LONGEST, OF_STEP, Sample
from .share import ROUND, Share

BANK = 512         # columns of a product
OF_TILE = 3        # instructions for a tile of 128 tokens of a cache
OF_LATENT = 6      # the same for each 128 elements of a compressed row
OF_STATE = 6       # for a head of values and a sequence
OF_GATHERED = 2    # for each product of an expert that a token reads by itself
MOST = 1_000_000   # of a core, in all simulated layers: about a minute and 3 GB

LONG, LONGEST = 4_000, 20_000  # instructions of a layer, beyond which fewer are simulated


def instructions(share: Share, layer: int) -> int:
    """The instructions of a core in a layer, roughly."""
    m, sizes, mixer = share.model, share.sizes, share.model.mixer(layer)
    blocks = -(-share.batch // ROUND)
    found = blocks * m.mixer_weights(layer, sizes) / (ROUND * BANK)
    tiles = share.batch * share.cached(layer) / ROUND
    if "attention" in mixer and m.latent:
        row = -(-(m.latent.kv_rank + m.latent.rotated) // ROUND)
        found += tiles * row * OF_LATENT
    elif "attention" in mixer:
        found += tiles * share.kv_heads * OF_TILE * -(-m.head_dim // ROUND)
    if "linear" in mixer:
        found += share.batch * share.value_heads * OF_STATE
    for part, count in m.mlp_weights(layer, sizes).items():
        each = count / (ROUND * BANK)
        if part == "experts" and share.sorts(share.batch):
            found += each * -(-share.rows_of_expert(share.batch) // ROUND)
        elif part == "experts" and share.batch <= ROUND and share.pairs < share.experts:
            found += OF_GATHERED * each * share.pairs / share.experts
        else:
            found += blocks * each
    return round(found / share.lnc)


def samples(share: Share) -> list[Sample]:
    """The Samples that are tried one after another, until the time is steady: fewer layers of more instructions."""
    most = max(instructions(share, n) for n in range(share.model.layers))
    every = [OF_LONGEST, OF_LONG_STEP, OF_STEP]
    return every[2:] if most <= LONG else every[1:] if most <= LONGEST else every


def check(share: Share, layers: int) -> None:
    """Raises a ModelError where the first `layers` are too much to simulate."""
    found = sum(instructions(share, n) for n in range(layers))
    if found > MOST:
        needed = (share.weight_bytes + share.cache_bytes) / 2**30
        less = "" if share.fits else f", and {needed:.1f} of {share.memory_bytes / 2**30:.0f} GiB a rank"
        raise ModelError(f"about {found / 1e6:.1f} million instructions to simulate, for batch {share.batch} and "
                         f"context {share.context}{less}", f"at most {MOST / 1e6:.0f} million: fewer --layers, "
                         "sequences or tokens, or more ranks")
