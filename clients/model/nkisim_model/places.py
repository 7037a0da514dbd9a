"""Computes where a KV cache's tokens lie for nkisim's own attention kernel: chunks, masks and
slots.
"""

from __future__ import annotations

LANES = 128
MOST = 16    # tiles of 128 tokens in a chunk: a partition's are one run of 4 KiB
BANK = 512   # scores of a partition in a bank of PSUM


def depth(heads: int) -> int:
    """Tiles of a chunk, for so many query heads of one head of keys and values."""
    return max(1, min(MOST, BANK // min(heads, LANES)))


def chunks(tokens: int, most: int) -> list[tuple[int, int]]:
    """(first tile of 128 tokens, tiles) of the chunks of `most` tiles whose scores are computed together. Of a chunk of
    128 k tokens partition p has the k from p * k on."""
    tiles = tokens // LANES
    return [(at, min(most, tiles - at)) for at in range(0, tiles, most)]
