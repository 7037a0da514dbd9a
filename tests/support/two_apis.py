"""Makes random programs, each written three times: for neuronxcc.nki, for nki.isa, and for NumPy.

The texts are what a user would write in each: results that are assigned to slices and keep their names, views
of views, updates in place, in one; a destination for each instruction in the other. All numbers are integers
small enough for float32 to be exact, so that the three must agree to the bit.
"""

import random

import ml_dtypes
import numpy as np

ROWS, COLUMNS = 64, 12
EXACT = 1 << 22  # numbers stay below it
LIBRARIES = ("legacy", "nki", "numpy")
_BINARY = {"add": ("np.add", 1), "subtract": ("np.subtract", 1), "maximum": ("np.maximum", 0),
           "minimum": ("np.minimum", 0)}
_COMPARE = {"greater": "np.greater", "equal": "np.equal", "less_equal": "np.less_equal"}
_REDUCE = {"max": ("maximum", "np.max"), "min": ("minimum", "np.min")}


class Name:
    """A variable: its shape, dtype and, shared with all views of its tile, the largest number in it."""

    def __init__(self, text, shape, bound, dtype="float32", whole=True):
        self.text, self.shape, self.bound, self.dtype, self.whole = text, shape, bound, dtype, whole
        self.copied = dtype != "float32"  # only copies read it: results of others would take its dtype


def assigned(text):
    """A place as the left side of an assignment."""
    return text if "[" in text else text + "[...]"


class View:
    """A variable or a slice of it, as an expression in each library."""

    def __init__(self, name, shape, texts):
        self.name, self.shape, self.texts = name, shape, texts
        self.bound, self.dtype = name.bound, name.dtype


class Program:
    """The three texts of one program, made statement by statement."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.lines = {library: [] for library in LIBRARIES}
        self.names, self.made, self.indent = [], 0, ""
        self.calm = False  # in a loop, whose numbers must not grow
        for k in range(2):
            name = self.name((ROWS, COLUMNS), [4])
            self.say(f"{name.text} = nl.load(x{k})",
                     f"{self.fresh(name.text, name.shape)}; nisa.dma_copy({name.text}, x{k})",
                     f"{name.text} = x{k}.copy()")
        for _ in range(self.draw.randrange(5, 13)):
            self.statement()
            self.forget()

    # ---- texts ----
    def say(self, *texts):
        for library, text in zip(LIBRARIES, texts, strict=True):
            self.lines[library].append("    " + self.indent + text)

    def function(self, library):
        """The source of `program(nl, nisa, np, x0, x1)`, which returns the variables left."""
        left = ", ".join(n.text for n in self.names)
        return "\n".join(["def program(nl, nisa, np, x0, x1):", *self.lines[library], f"    return [{left}]", ""])

    def new_text(self):
        self.made += 1
        return f"t{self.made}"

    def name(self, shape, bound, dtype="float32", whole=True, text=None):
        """A variable that the next statement makes."""
        found = Name(text or self.new_text(), shape, bound, dtype, whole)
        self.names = [n for n in self.names if n.text != found.text] + [found]
        return found

    def forget(self):
        """Programs end with few variables; of the others some are deleted, some kept for nothing."""
        while len(self.names) > 7:
            gone = self.names.pop(self.draw.randrange(6))
            if self.draw.random() < 0.5:
                self.say(*[f"del {gone.text}"] * 3)

    @staticmethod
    def fresh(text, shape, dtype="float32", buffer="sbuf"):
        return f"{text} = nl.ndarray({tuple(shape)}, dtype=nl.{dtype}, buffer=nl.{buffer})"

    # ---- choices ----
    def view(self, shape=None, most=EXACT, copied=False):
        """A random variable or slice, of a shape if one is asked for; None if there is none."""
        fits = [n for n in self.names if n.bound[0] <= most and copied >= n.copied and
                (shape is None or (len(n.shape) == len(shape) and all(
                    a <= b for a, b in zip(shape, n.shape))))]
        if not fits:
            return None
        name = self.draw.choice(fits)
        key, new = [], []
        for d, n in enumerate(name.shape):
            if d == 0:
                count = shape[0] if shape else n if n != ROWS or self.draw.random() < 0.7 else 32
                start = self.draw.choice([0, 32]) if count == 32 < n else 0
            else:
                count = shape[d] if shape else self.draw.choice([n, n, self.draw.randrange(1, n + 1)])
                start = self.draw.randrange(n - count + 1)
            key.append((start, count, n))
            new.append(count)
        if all(count == n for _, count, n in key) and self.draw.random() < 0.7:
            return View(name, tuple(new), [name.text] * 3)
        return View(name, tuple(new), self._selected(name, key))

    def _selected(self, name, key):
        slices = ", ".join(":" if count == n and self.draw.random() < 0.5 else f"{start}:{start + count}"
                           for start, count, n in key)
        plain = f"{name.text}[{slices}]"
        if len(key) != 2 or self.draw.random() < 0.6:
            return [plain] * 3
        (row, rows, _), (column, columns, _) = key
        tiles = f"{name.text}[{row} + nl.arange({rows})[:, None], {column} + nl.arange({columns})[None, :]]"
        return [tiles, plain, plain]

    def target(self, shape):
        """The destination of a result: a function that says the statement, given its texts."""
        place = self.view(shape, copied=True) if self.draw.random() < 0.5 else None
        if place is None:
            rebound = [n.text for n in self.names if n.whole and not self.indent]
            text = self.draw.choice(rebound) if rebound and self.draw.random() < 0.25 else self.new_text()
            return text, None
        return None, place

    def result(self, shape, bound, legacy, nki, numpy, buffer="sbuf", dtype="float32"):
        """One statement that makes a tile of `shape`: `nki` is a text with {} for the destination."""
        text, place = self.target(shape)
        if place is None:
            if self.indent:
                text = self.new_text()
            self.say(f"{text} = {legacy}",
                     f"{self.fresh('_', shape, dtype, buffer)}; {nki.format('_')}; {text} = _",
                     f"{text} = {numpy}")
            name = self.name(shape, [bound], dtype, text=text)
            name.copied |= buffer == "psum"
            if buffer == "sbuf" and self.draw.random() < 0.4:
                self.keep(name)
            return
        place.bound[0] = max(place.bound[0], bound)
        left, right, other = place.texts
        straight = buffer == "sbuf" and self.draw.random() < 0.5
        self.say(f"{assigned(left)} = {legacy}",
                 nki.format(right) if straight else
                 f"{self.fresh('_', shape, dtype, buffer)}; {nki.format('_')}; nisa.tensor_copy({right}, _)",
                 f"{other}[...] = {numpy}")

    def keep(self, name):
        """A result that has a name is stored, perhaps twice, and the name used afterwards."""
        for _ in range(self.draw.choice([1, 1, 2])):
            place = self.view(name.shape, copied=True)
            if place is None or place.name.bound is name.bound:
                return
            place.bound[0] = max(place.bound[0], name.bound[0])
            self.say(f"{assigned(place.texts[0])} = {name.text}", f"nisa.tensor_copy({place.texts[1]}, {name.text})",
                     f"{place.texts[2]}[...] = {name.text}")

    # ---- statements ----
    def statement(self):
        kinds = [self.binary, self.binary, self.column, self.column, self.reduced, self.reduced, self.scaled,
                 self.copied, self.stored, self.number, self.aliased, self.chosen, self.updated, self.biased,
                 self.masked]
        if not self.indent:
            kinds += [self.product, self.narrowed, self.looked, self.loop, self.tops, self.reloaded, self.deep]
        self.draw.choice(kinds)()

    def pair(self):
        one = self.view()
        return one, one and self.view(one.shape)

    def binary(self):
        a, b = self.pair()
        op = self.draw.choice(list(_BINARY))
        other, grows = _BINARY[op]
        bound = a.bound[0] + b.bound[0] if grows else max(a.bound[0], b.bound[0])
        if bound > EXACT or (grows and self.calm):
            return
        self.result(a.shape, bound, f"nl.{op}({a.texts[0]}, {b.texts[0]})",
                    f"nisa.tensor_tensor({{}}, {a.texts[1]}, {b.texts[1]}, nl.{op})",
                    f"{other}({a.texts[2]}, {b.texts[2]})")

    def column(self):
        """A tile and one number per partition."""
        a = self.view()
        c = self.view((a.shape[0], 1)) if len(a.shape) == 2 else None
        if c is None or self.calm or a.bound[0] + c.bound[0] > EXACT:
            return
        op = self.draw.choice(["subtract", "add", "maximum"])
        self.result(a.shape, a.bound[0] + c.bound[0], f"nl.{op}({a.texts[0]}, {c.texts[0]})",
                    f"nisa.tensor_scalar({{}}, {a.texts[1]}, nl.{op}, {c.texts[1]})",
                    f"np.{op}({a.texts[2]}, {c.texts[2]})")

    def biased(self):
        a = self.view()
        c = self.view((a.shape[0], 1)) if len(a.shape) == 2 else None
        if c is None or self.calm or a.bound[0] + c.bound[0] > EXACT:
            return
        self.result(a.shape, a.bound[0] + c.bound[0],
                    f"nisa.activation(op=nl.relu, data={a.texts[0]}, bias={c.texts[0]})",
                    f"nisa.activation({{}}, nl.relu, {a.texts[1]}, bias={c.texts[1]})",
                    f"np.maximum({a.texts[2]} + {c.texts[2]}, 0)")

    def reduced(self):
        a = self.view()
        if len(a.shape) != 2:
            return
        kind = self.draw.choice(list(_REDUCE))
        op, other = _REDUCE[kind]
        legacy = self.draw.choice([f"nl.{kind}({a.texts[0]}, axis=[1], keepdims=True)",
                                   f"nl.{kind}({a.texts[0]}, axis=1)",
                                   f"nisa.tensor_reduce({other}, {a.texts[0]}, axis=[1])"])
        self.result((a.shape[0], 1), a.bound[0], legacy,
                    f"nisa.tensor_reduce({{}}, nl.{op}, {a.texts[1]}, axis=1)",
                    f"{other}({a.texts[2]}, axis=1, keepdims=True)")

    def scaled(self):
        a, factor = self.view(), self.draw.choice([-1.0, -1.0, 2.0, 3.0])
        bound = int(a.bound[0] * abs(factor))
        if bound > EXACT or (self.calm and factor != -1.0):
            return
        legacy = self.draw.choice([f"nl.multiply({a.texts[0]}, {factor})",
                                   f"nisa.tensor_scalar({a.texts[0]}, np.multiply, {factor})"])
        self.result(a.shape, bound, legacy, f"nisa.tensor_scalar({{}}, {a.texts[1]}, nl.multiply, {factor})",
                    f"{a.texts[2]} * np.float32({factor})")

    def copied(self):
        a = self.view(copied=True)
        self.result(a.shape, a.bound[0], f"nl.copy({a.texts[0]})", f"nisa.tensor_copy({{}}, {a.texts[1]})",
                    f"{a.texts[2]}.copy()", dtype=a.dtype)

    def stored(self):
        """A tile, or a view of one, stored as it is."""
        place = self.view(copied=True)
        a = self.view(place.shape, copied=True)
        if a.name.bound is place.name.bound:
            return
        place.bound[0] = max(place.bound[0], a.bound[0])
        self.say(f"{assigned(place.texts[0])} = {a.texts[0]}",
                 f"nisa.tensor_copy({place.texts[1]}, {a.texts[1]})", f"{place.texts[2]}[...] = {a.texts[2]}")

    def number(self):
        place, value = self.view(), float(self.draw.randrange(-3, 4))
        self.say(f"{assigned(place.texts[0])} = {value}", f"nisa.memset({place.texts[1]}, {value})",
                 f"{place.texts[2]}[...] = {value}")

    def aliased(self):
        a = self.view()
        if self.indent or "arange" in a.texts[0]:
            return
        text = self.new_text()
        self.say(*[f"{text} = {t}" for t in a.texts])
        self.names.append(Name(text, a.shape, a.bound, a.dtype, False))

    def chosen(self):
        a, b = self.pair()
        op = self.draw.choice(list(_COMPARE))
        shape, other = a.shape, _COMPARE[op]
        nki = (f"{self.fresh('p', shape, 'uint8')}; nisa.tensor_tensor(p, {a.texts[1]}, {b.texts[1]}, nl.{op}); "
               f"{self.fresh('q', shape)}; nisa.tensor_copy(q, {b.texts[1]}); "
               f"nisa.tensor_copy_predicated(q, {a.texts[1]}, p); nisa.tensor_copy({{}}, q)")
        self.result(shape, max(a.bound[0], b.bound[0]),
                    f"nl.where(nl.{op}({a.texts[0]}, {b.texts[0]}), {a.texts[0]}, {b.texts[0]})", nki,
                    f"np.where({other}({a.texts[2]}, {b.texts[2]}), {a.texts[2]}, {b.texts[2]})")

    def updated(self):
        place = self.view()
        a = self.view(place.shape)
        if self.calm or place.bound[0] + a.bound[0] > EXACT:
            return
        place.bound[0] += a.bound[0]
        self.say(f"{place.texts[0]} += {a.texts[0]}",
                 f"nisa.tensor_tensor({place.texts[1]}, {place.texts[1]}, {a.texts[1]}, nl.add)",
                 f"{place.texts[2]} += {a.texts[2]}")

    def masked(self):
        """Some rows of a place."""
        name = self.draw.choice(self.names)
        if name.copied or len(name.shape) != 2 or name.shape[0] != ROWS:
            return
        rows, n = self.draw.choice([5, 32, 40]), name.shape[1]
        a = self.view((ROWS, n))
        name.bound[0] = max(name.bound[0], a.bound[0])
        at = f"nl.arange({ROWS})[:, None], nl.arange({n})[None, :]"
        self.say(f"{name.text}[{at}] = nl.maximum({a.texts[0]}, -1.0, mask=nl.arange({ROWS})[:, None] < {rows})",
                 f"nisa.tensor_scalar({name.text}[0:{rows}], {a.texts[1]}[0:{rows}], nl.maximum, -1.0)",
                 f"{name.text}[0:{rows}] = np.maximum({a.texts[2]}, np.float32(-1))[0:{rows}]")

    def product(self):
        a = self.view(most=64)
        b = a and self.view((a.shape[0], self.draw.randrange(1, COLUMNS + 1)), most=64)
        if b is None or len(a.shape) != 2:
            return
        shape = a.shape[1], b.shape[1]
        self.result(shape, ROWS * a.bound[0] * b.bound[0], f"nisa.nc_matmul({a.texts[0]}, {b.texts[0]})",
                    f"nisa.nc_matmul({{}}, {a.texts[1]}, {b.texts[1]})",
                    f"{a.texts[2]}.T @ {b.texts[2]}", buffer="psum")

    def narrowed(self):
        """A tile of another dtype, whose slices take results."""
        a = self.view(most=1 << 12)
        if a is None:
            return
        name = self.name(a.shape, [2 * a.bound[0]], "bfloat16")
        self.say(f"{name.text} = nl.copy({a.texts[0]}, dtype=nl.bfloat16)",
                 f"{self.fresh('_', a.shape, 'bfloat16')}; nisa.tensor_copy(_, {a.texts[1]}); {name.text} = _",
                 f"{name.text} = {a.texts[2]}.astype(np.bfloat16)")

    def looked(self):
        a = self.view()
        self.say(f"{a.texts[0]}.numpy()", "pass", "pass")

    def deep(self):
        """A tile of three dimensions, or the view of one."""
        a = self.view((ROWS, COLUMNS))
        if a is None or a.texts[0] != a.name.text or not a.name.whole:
            return
        self.made += 1
        text = f"t{self.made}"
        self.say(*[f"{text} = {a.name.text}.reshape(({ROWS}, 3, 4))"] * 3)
        self.names.append(Name(text, (ROWS, 3, 4), a.bound, a.dtype, False))
        k = self.draw.randrange(3)
        row = f"t{self.made + 1}"
        self.made += 1
        self.say(*[f"{row} = {text}[:, {k}, :]"] * 3)
        self.names.append(Name(row, (ROWS, 4), a.bound, a.dtype, False))

    def reloaded(self):
        """Through memory in HBM."""
        a = self.view()
        if len(a.shape) != 2:
            return
        self.made += 1
        text = f"h{self.made}"
        self.say(f"{text} = nl.ndarray({a.shape}, dtype=nl.float32, buffer=nl.hbm); nl.store({text}, {a.texts[0]})",
                 f"{self.fresh('_', a.shape)}; nisa.tensor_copy(_, {a.texts[1]}); "
                 f"{self.fresh(text, a.shape, buffer='hbm')}; nisa.dma_copy({text}, _)",
                 f"{text} = {a.texts[2]}.copy()")
        n = self.draw.randrange(1, a.shape[1] + 1)
        self.result((a.shape[0], n), a.bound[0], f"nl.load({text}[:, 0:{n}])",
                    f"nisa.dma_copy({{}}, {text}[:, 0:{n}])", f"{text}[:, 0:{n}].copy()")

    def loop(self):
        """Statements that run several times."""
        iterations, kept = self.draw.randrange(2, 4), list(self.names)
        self.say(*[f"for _i in {r}({iterations}):" for r in (
            self.draw.choice(["nl.affine_range", "nl.sequential_range", "range"]), "range", "range")])
        self.indent, self.calm = "    ", True
        self.say(*["pass"] * 3)
        top = max(n.bound[0] for n in self.names)
        for n in self.names:  # any may become any other's, in time
            n.bound[0] = top
        for _ in range(self.draw.randrange(1, 4)):
            self.statement()
        self.indent, self.calm = "", False
        self.names = kept

    def tops(self):
        """The largest numbers of each row, one by one, in the slots of a tile."""
        a = self.view()
        if len(a.shape) != 2:
            return
        rows, n, k = a.shape[0], a.shape[1], min(3, a.shape[1])
        name, m, t = self.name((rows, k), [max(a.bound[0], EXACT // 4)]), f"m{self.made}", f"u{self.made}"
        low, shape = -float(EXACT // 4), (rows, n)
        self.say(f"{name.text} = nl.ndarray({(rows, k)}, dtype=nl.float32); {t} = {a.texts[0]}",
                 f"{self.fresh(name.text, (rows, k))}; {t} = {a.texts[1]}",
                 f"{name.text} = np.zeros({(rows, k)}, np.float32); {t} = {a.texts[2]}")
        self.say(f"for _k in nl.sequential_range({k}):", f"for _k in range({k}):", f"for _k in range({k}):")
        self.indent = "    "
        self.say(f"{m} = nl.max({t}, axis=[1])",
                 f"{self.fresh(m, (rows, 1))}; nisa.tensor_reduce({m}, nl.maximum, {t}, axis=1)",
                 f"{m} = np.max({t}, axis=1, keepdims=True)")
        self.say(f"{name.text}[:, _k:_k + 1] = {m}", f"nisa.tensor_copy({name.text}[:, _k:_k + 1], {m})",
                 f"{name.text}[:, _k:_k + 1] = {m}")
        self.say(f"{t} = nl.where(nl.equal({t}, {m}), nl.full({shape}, {low}, dtype=nl.float32), {t})",
                 f"{self.fresh('p', shape, 'uint8')}; nisa.tensor_scalar(p, {t}, nl.equal, {m}); "
                 f"{self.fresh('q', shape)}; nisa.tensor_copy(q, {t}); {self.fresh('r', shape)}; "
                 f"nisa.memset(r, {low}); nisa.tensor_copy_predicated(q, r, p); {t} = q",
                 f"{t} = np.where({t} == {m}, np.float32({low}), {t})")
        self.indent = ""


class _Numpy:
    """numpy with the one dtype that it lacks."""

    bfloat16 = ml_dtypes.bfloat16

    def __getattr__(self, name):
        return getattr(np, name)


NUMPY = _Numpy()


def compiled(program, library):
    """The function of a program in one library."""
    space = {}
    exec(compile(program.function(library), f"<{library}>", "exec"), space)
    return space["program"]
