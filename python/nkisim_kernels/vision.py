"""Implements kernels of vision models: nearest resizing, and the gradient of max pooling."""

import nki.isa as nisa
import nki.language as nl


from .forms import ROWS, is_tensor, load, require, store, two_forms

_LOWEST = -3.0e38


def _resize(data, out):
    """Rows of the image on partitions; columns are repeated by copies, rows by transfers."""
    batch = nl.program_id(0)
    _, height, width, channels = data.shape
    _, out_height, out_width, _ = out.shape
    require(data.shape[0] == out.shape[0] and channels == out.shape[3],
            f"data is {list(data.shape)} and the output {list(out.shape)}; batches and channels "
            "must be equal")
    rows = [h * height // out_height for h in range(out_height)]
    for first in range(0, height, ROWS):
        held = min(ROWS, height - first)
        tile = load(data[batch, nl.ds(first, held)], data.dtype)
        wide = nl.ndarray((held, out_width, channels), dtype=data.dtype, buffer=nl.sbuf)
        for w in range(out_width):
            nisa.tensor_copy(dst=wide[:, w, :], src=tile[:, w * width // out_width, :])
        for h, row in enumerate(rows):
            if first <= row < first + held:
                store(out[batch, nl.ds(h, 1)], wide[row - first:row - first + 1])


def _resize_returning(data_tensor, out_shape):
    """Resizes images by taking the nearest lower pixel: out[h, w] = data[h H / H', w W / W'].

    data_tensor: (batch, h, w, channels); out_shape: (batch, h', w', channels), of the result. Launch
    grid [batch]. 2.20 took the output itself.
    """
    out = nl.ndarray(tuple(out_shape), dtype=data_tensor.dtype, buffer=nl.shared_hbm)
    _resize(data_tensor, out)
    return out


def _resize_writing(data_tensor, out_tensor):
    _resize(data_tensor, out_tensor)


_resize_returning.__name__ = "resize_nearest_fixed_dma_kernel"
resize_nearest_fixed_dma_kernel = two_forms(
    _resize_returning, _resize_writing,
    lambda args, kwargs: "out_tensor" in kwargs or len(args) > 1 and is_tensor(args[1]))


def _window(padded, i, j, height, width):
    """Element (i, j) of every 3 x 3 window, of windows two apart."""
    return padded[:, i:i + 2 * height - 1:2, j:j + 2 * width - 1:2]


def _tile(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def _scatter(operand, source):
    """operand: tile (planes, h, w); source: tile (planes, h', w'). The planes' result, padded."""
    planes, height, width = operand.shape
    small = source.shape
    padded, out = (_tile((planes, height + 2, width + 2)) for _ in range(2))
    nisa.memset(dst=padded, value=_LOWEST)
    nisa.memset(dst=out, value=0.0)
    nisa.tensor_copy(dst=padded[:, nl.ds(1, height), nl.ds(1, width)], src=operand)
    best, left, here = _tile(small), _tile(small), _tile(small)
    nisa.memset(dst=best, value=_LOWEST)
    for i in range(3):
        for j in range(3):
            nisa.tensor_tensor(dst=best, data1=best, data2=_window(padded, i, j, *small[1:]),
                               op=nl.maximum)
    nisa.tensor_copy(dst=left, src=source)  # what no earlier element of the window has taken
    for i in range(3):
        for j in range(3):
            nisa.tensor_tensor(dst=here, data1=_window(padded, i, j, *small[1:]), data2=best,
                               op=nl.equal)
            nisa.tensor_tensor(dst=here, data1=here, data2=left, op=nl.multiply)
            nisa.tensor_tensor(dst=left, data1=left, data2=here, op=nl.subtract)
            target = _window(out, i, j, *small[1:])
            nisa.tensor_tensor(dst=target, data1=target, data2=here, op=nl.add)
    return out


def _select(operand, source, out):
    n, c, height, width = operand.shape
    require(tuple(source.shape) == (n, c, (height - 1) // 2 + 1, (width - 1) // 2 + 1),
            f"source is {list(source.shape)}; {[n, c, (height - 1) // 2 + 1, (width - 1) // 2 + 1]} "
            "is required, a window for every second pixel")
    for batch in range(n):
        for first in range(0, c, ROWS):
            held = min(ROWS, c - first)
            planes = nl.ds(first, held)
            result = _scatter(load(operand[batch, planes], nl.float32),
                              load(source[batch, planes], nl.float32))
            whole = nl.ndarray((held, height, width), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=whole, src=result[:, nl.ds(1, height), nl.ds(1, width)])
            nisa.dma_copy(dst=out[batch, planes], src=whole)


def _select_returning(operand_tensor, source_tensor):
    """Adds each element of source to where its 3 x 3 window of operand (two apart, one of padding)
    has its first greatest element: the gradient of max pooling.

    operand_tensor: (n, c, h, w); source_tensor: (n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1); gives
    (n, c, h, w). Padding is never selected. 2.20 took the output as the last argument.
    """
    out = nl.ndarray(operand_tensor.shape, dtype=operand_tensor.dtype, buffer=nl.shared_hbm)
    _select(operand_tensor, source_tensor, out)
    return out


def _select_writing(operand_tensor, source_tensor, out_tensor):
    _select(operand_tensor, source_tensor, out_tensor)


_select_returning.__name__ = "select_and_scatter_kernel"
select_and_scatter_kernel = two_forms(
    _select_returning, _select_writing,
    lambda args, kwargs: "out_tensor" in kwargs or len(args) > 2)
