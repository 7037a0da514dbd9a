"""Translates (lowers) functions of nki.language, and assignments to tiles, to instructions of
nki.isa.
"""

from ..record.refusals import report_refused
from ..values.hooks import above
from ..values.region import region
from . import division  # noqa: F401  (adds to FUNCTIONS)
from .elementwise import FUNCTIONS, affine, update, where
from .kept import copied_rows
from .moves import (allocate, assign, broadcast_to, copy, copy_into, fill, gather_flattened, in_sbuf, inferred, load,
                    store)
from .products import load_transpose2d, masked_product, matmul, same_width, transpose, transpose_into
from .randoms import dropout, random_fill
from .reductions import (all, max, mean, min, prod, reduce_build, reduced_shape, rms_norm, softmax,
                         sum, var)
from .tiles import broadcast_shapes, masked_views, operand, promote, result_tile, same_partitions, work_tile

__all__ = ["FUNCTIONS", "affine", "all", "assign", "broadcast_shapes", "broadcast_to", "copied_rows", "copy",
           "copy_into", "dropout", "fill", "gather_flattened", "in_sbuf", "load", "load_transpose2d",
           "masked_product", "masked_views", "matmul", "max", "mean", "min", "operand", "prod",
           "promote", "random_fill", "reduce_build", "reduced_shape", "result_tile", "rms_norm",
           "same_partitions", "same_width", "softmax", "store", "sum", "transpose", "transpose_into",
           "update", "var", "where", "work_tile"]

above.fill(allocate=allocate, region=region, functions=FUNCTIONS, assign=assign, update=update,
           copy=copy, broadcast_to=broadcast_to, transpose=transpose, inferred=inferred, refused=report_refused)
