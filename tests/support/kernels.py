"""Builds the small kernels that tests wrap around the functions that they test."""

import nkisim

nkisim.install()

import nki.language as nl  # noqa: E402


def stored(tile, language=nl):
    """A new tensor in HBM with the tile's elements."""
    out = language.ndarray(tile.shape, tile.dtype, buffer=language.shared_hbm)
    language.store(out, tile)
    return out


def of_tiles(function, language=nl):
    """A kernel: function(tiles...) of its arguments, loaded, and the result stored."""
    return lambda *tensors: stored(function(*[language.load(t) for t in tensors]), language)


def computed(function, *arrays, language=nl, **settings):
    """The array that function(tiles...) gives for arrays; without time if nothing else is asked."""
    settings = {"timing": False, "legacy": language is not nl, **settings}
    return nkisim.run(of_tiles(function, language), *arrays, **settings).outputs
