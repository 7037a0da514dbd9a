"""Shows a tile's values as a table and as a small picture. NaN, infinities and never-written
elements are marked.
"""

from __future__ import annotations

import html

import numpy as np

SHADES = " .:-=+*#%@"
NEVER, NAN, INFINITE = "?", "!", "^"
#: In pictures of notebooks.
COLOURS = {NEVER: "#d9d9d9", NAN: "#d62728", INFINITE: "#ff9f1c"}


class Tile:
    def __init__(self, name: str, space: str, core: int, dtype: str, array: np.ndarray, valid: np.ndarray,
                 writers: list[str]) -> None:
        self.name, self.space, self.core, self.dtype = name, space, core, dtype
        self.array = array        # where `valid` is False: whatever memory held
        self.valid = valid        # elements that complete instructions have written
        self.writers = writers    # instructions under way that write it

    @property
    def values(self) -> np.ndarray:
        """As NumPy's own numbers, float32 for narrow floats; NaN where a float was never written."""
        array = self.array
        if array.dtype.kind not in "iub":
            array = array.astype(np.float32) if array.dtype.itemsize < 8 else array
            if array.dtype.kind == "f" and not self.valid.all():
                array = np.where(self.valid, array, np.float32(np.nan))
        return array

    def counts(self) -> dict[str, int]:
        """{"never written": n, "NaN": n, "infinite": n}, without those that are 0."""
        numbers = self.values[self.valid]
        real = numbers.dtype.kind == "f"
        found = {"never written": int((~self.valid).sum()), "NaN": int(np.isnan(numbers).sum()) if real else 0,
                 "infinite": int(np.isinf(numbers).sum()) if real else 0}
        return {what: count for what, count in found.items() if count}

    def __str__(self) -> str:
        """One line: type, shape, range and what is odd."""
        numbers = self.values[self.valid]
        finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
        text = f"{self.dtype}{list(self.array.shape)}"
        if finite.size:
            text += f" {_number(finite.min())} .. {_number(finite.max())}"
        text += "".join(f", {count} {what}" for what, count in self.counts().items())
        return text + (f"; {', '.join(self.writers)} writes it" if self.writers else "")

    def element(self, index: tuple[int, ...]) -> str:
        if not self.valid[index]:
            return "never written"
        return _number(self.values[index])

    def _flat(self):
        shape = self.array.shape
        columns = self.array[0].size if self.space != "hbm" and len(shape) > 1 else shape[-1] if shape else 1
        return self.values.reshape(-1, columns), self.valid.reshape(-1, columns)

    def table(self, rows: int = 8, columns: int = 8) -> str:
        """The corner elements with their indices: a row for each partition, in HBM for each index but the last."""
        values, valid = self._flat()
        shown = [_ends(count, most) for count, most in zip(values.shape, (rows, columns))]
        cells = [["", *("..." if c is None else str(c) for c in shown[1])]]
        for r in shown[0]:
            cells.append(["..." if r is None else str(r)] + [
                "..." if r is None or c is None else
                _number(values[r, c]) if valid[r, c] else NEVER for c in shown[1]])
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)

    def cells(self, rows: int = 16, columns: int = 64) -> list[list[float | str]]:
        """Means of blocks from 0 to 1 of the tile's range, or a mark: of what is odd in a block one is enough."""
        values, valid = self._flat()
        numbers = values.astype(np.float64)
        finite = valid & np.isfinite(numbers)
        low, high = (numbers[finite].min(), numbers[finite].max()) if finite.any() else (0.0, 0.0)
        edges = [np.linspace(0, n, min(n, most) + 1).astype(int) for n, most in zip(values.shape, (rows, columns))]
        drawn: list[list[float | str]] = []
        for top, bottom in zip(edges[0], edges[0][1:]):
            drawn.append([])
            for left, right in zip(edges[1], edges[1][1:]):
                at = np.s_[top:bottom, left:right]
                block, has = numbers[at], valid[at]
                if np.isnan(block[has]).any():
                    drawn[-1].append(NAN)
                elif np.isinf(block[has]).any():
                    drawn[-1].append(INFINITE)
                elif not has.all():
                    drawn[-1].append(NEVER)
                else:
                    drawn[-1].append(float((block.mean() - low) / (high - low)) if high > low else 0.5)
        return drawn

    def picture(self, rows: int = 16, columns: int = 64) -> str:
        """Shades from the least to the greatest value; ! has a NaN, ^ an infinity, ? what was never written."""
        return "\n".join("".join(cell if isinstance(cell, str) else SHADES[min(int(cell * 10), 9)] for cell in row)
                         for row in self.cells(rows, columns))

    def shown(self, view: str) -> str:
        """The line of the tile, and below it its "table" or its "picture"."""
        return f"{self}\n{self.table() if view == 'table' else self.picture()}"

    def svg(self) -> str:
        cells, size = self.cells(32, 64), 6
        rects = "".join(
            f'<rect x="{c * size}" y="{r * size}" width="{size}" height="{size}" fill="'
            f'{COLOURS[cell] if isinstance(cell, str) else _grey(cell)}"/>'
            for r, row in enumerate(cells) for c, cell in enumerate(row))
        width, height = size * max(map(len, cells), default=0), size * len(cells)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
                f'aria-label="{html.escape(self.name)}">{rects}</svg>')

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.name)}</b></p>{self.svg()}<pre>{html.escape(self.shown('table'))}</pre>"


def _grey(cell):
    blue = round(255 - 200 * cell)
    return f"rgb({blue - 40 if blue > 95 else 55},{blue - 15 if blue > 70 else 55},{blue})"


def _ends(count, most):
    """The first and the last of so many indices, None between them."""
    if count <= most:
        return list(range(count))
    half = most // 2
    return [*range(half), None, *range(count - (most - half), count)]


def _number(value):
    if isinstance(value, (np.floating, float)):
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
        return f"{float(value):.6g}"
    return str(value)
