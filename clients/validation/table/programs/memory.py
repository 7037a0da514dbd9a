"""Assigns SBUF addresses in rebuilt measured kernels that need more than there is: addresses, reuse
and spills.

Tiles made by Program.tile() have no address. fit() gives each one an address for the time between
its first and its last use. Where the live tiles exceed SBUF, the tile that is needed last leaves
(Belady's rule: no choice moves less data). A tile that an unchanged HBM tensor still holds is only
dropped, any other is stored first; both are loaded again before their next use. Free space is taken
one after another (next fit), as late reuse as possible, so that instructions need not wait for old readers.
"""
from collections import deque

from .common import LOAD, STORE

# Per partition: architecture guides; from trn2 on less the compiler's DynamicDMAScratchLoc and
# EvalAccelReservedLoc (nki-library core/mlp/mlp_cte/mlp_cte_constants.py).
SBUF_BYTES = {"trn1": 192 * 1024, "trn2": 224 * 1024 - 16384 - 8}
ALIGN = 32


class _Tile:
    """A tile's uses and where it is at the moment."""

    def __init__(self, line, size):
        self.line, self.name, self.size = line, line["name"], -(-size // ALIGN) * ALIGN
        self.uses = deque()   # instructions, as indices into the program
        self.source = None    # HBM operand that holds the same
        self.address = None   # None: not in SBUF
        self.stays = 0        # residences so far

    def resident(self):
        return f"{self.name}_{self.stays}"


def fit(program, capacity=None):
    """The program with every tile in SBUF while it is used. ValueError if one instruction needs more."""
    return _Fit(program, capacity or SBUF_BYTES[program.target]).run()


def _name(operand):
    if isinstance(operand, dict):
        return operand.get("tensor", "")
    return operand.partition("[")[0] if isinstance(operand, str) else ""


def _operands(line):
    return {k: _name(v) for k, v in line.items() if k not in ("i", "engine", "op", "dge_mode")}


class _Fit:
    def __init__(self, program, capacity):
        self.program, self.capacity = program, capacity
        self.lines, self.pointer, self.inside = [], 0, {}
        self.tiles = {line["name"]: _Tile(line, program.bytes_of(line)) for line in program.tiles}
        self.base = program.fixed_bytes()
        for at, line in enumerate(program.lines):
            for name in dict.fromkeys(_operands(line).values()):
                if "i" in line and name in self.tiles:
                    self.tiles[name].uses.append(at)

    def run(self):
        for at, line in enumerate(self.program.lines):
            if "i" not in line:
                self.lines.append(line)
                continue
            named = {n: self.tiles[n] for n in _operands(line).values() if n in self.tiles}
            for tile in named.values():
                if tile.address is None:
                    self.bring(tile, at, named)
            self.lines.append(self.renamed(line, named))
            self.remember(line, named)
            for tile in named.values():
                tile.uses.popleft()
                if not tile.uses:
                    self.leave(tile)
        self.program.lines = self.lines
        return self.program

    def remember(self, line, named):
        """True if an HBM tensor holds what the instruction wrote."""
        written = named.get(_name(line.get("dst")))
        if written is None:
            return
        whole = line["i"] == "dma_copy" and "[" not in line["dst"]
        source = _name(line.get("src"))
        written.source = line["src"] if whole and source in self.program.constants else None

    def bring(self, tile, at, needed):
        address = self.hole(tile.size)
        while address is None:
            self.evict(at, needed)
            address = self.hole(tile.size)
        tile.address, self.pointer = address, address + tile.size
        self.inside[tile.name] = tile
        tile.stays += 1
        self.lines.append({"tensor": {**tile.line, "name": tile.resident(), "address": address}})
        if tile.stays > 1:
            self.lines.append(self.copy(tile.resident(), tile.source, LOAD))

    def evict(self, at, needed):
        """Frees space by the tile whose next use is farthest."""
        others = [t for t in self.inside.values() if t.name not in needed]
        if not others:
            raise ValueError(f"instruction {at} needs more SBUF than there is")
        tile = max(others, key=lambda t: t.uses[0])
        if tile.source is None:
            tile.source = f"{tile.name}_spilled"
            if tile.source not in self.program.tensors:
                self.program.tensors[tile.source] = {}
                self.lines.append({"tensor": {"name": tile.source, "space": "hbm",
                                              "shape": tile.line["shape"],
                                              "dtype": tile.line["dtype"]}})
            self.lines.append(self.copy(tile.source, tile.resident(), STORE))
        self.leave(tile)

    def leave(self, tile):
        tile.address = None
        del self.inside[tile.name]

    def copy(self, dst, src, engines):
        return {"i": "dma_copy", "dst": dst, "src": src, **engines[self.program.target]}

    def hole(self, size):
        """Next fit: the first free range behind the last one given, then from the start."""
        taken = sorted((t.address, t.address + t.size) for t in self.inside.values())
        holes, begin = [], self.base
        for low, high in taken + [(self.capacity, self.capacity)]:
            if low - begin >= size:
                holes.append((begin, low))
            begin = max(begin, high)
        for low, high in holes:
            if max(low, self.pointer) + size <= high:
                return max(low, self.pointer)
        return holes[0][0] if holes else None

    def renamed(self, line, named):
        result = dict(line)
        for key, name in _operands(line).items():
            if name not in named:
                continue
            now, old = named[name].resident(), line[key]
            result[key] = {**old, "tensor": now} if isinstance(old, dict) else now + old[len(name):]
        return result
