"""Weights as a product reads them from HBM: those of the step's dtype, and quantised ones."""

import nki.isa as nisa
import nki.language as nl


def of(weights):
    """What product() asks of weights: a tensor [k, n] in HBM is Plain."""
    return weights if isinstance(weights, Plain) else Plain(weights)


class Plain:
    """Weights [k, n] whose elements the Tensor engine takes as they are."""

    def __init__(self, data):
        self.data = data
        self.itemsize = data.itemsize

    def ring(self, lanes, tiles, most, width):
        """Room in SBUF for so many tiles: one tensor, so that none gets storage of its own."""
        return nl.ndarray((lanes, tiles, most, width), dtype=self.data.dtype, buffer=nl.sbuf)

    def tile(self, ring, n, piece, k, count, first, width):
        """The n-th tile: of a Piece's rows the `count` from the k-th on, of columns those from first on."""
        whole = self.data.shape[1]
        to = ring[:, n % ring.shape[1], nl.ds(0, count), nl.ds(0, width)]
        nisa.dma_copy(dst=to, src=self.data.ap(
            [[piece.lane_step * whole, piece.lanes], [piece.step * whole, count], [1, width]],
            offset=(piece.first + k * piece.step) * whole + first))
        return to

    def scaled(self, bank, first):
        """A finished piece of the product, whose first column is `first`."""
        return bank


class Gathered(Plain):
    """Weights whose rows of each partition begin at a number [lanes, 1] of rows, which the chip found."""

    def __init__(self, data, columns, rows):
        super().__init__(data)
        self.columns, self.rows = columns, rows

    def tile(self, ring, n, piece, k, count, first, width):
        to = ring[:, n % ring.shape[1], nl.ds(0, count), nl.ds(0, width)]
        nisa.dma_copy(dst=to, src=self.data.ap(
            [[self.columns, piece.lanes], [piece.step * self.columns, count], [1, width]],
            offset=k * piece.step * self.columns + first, vector_offset=self.rows, indirect_dim=0))
        return to
