"""Programs with intended races between engines, in PSUM accumulation groups, and on tensors that
share bytes, each with a correct version.
"""

from corpus import Trace, case, ge, up

READERS = ("vector", "scalar", "gpsimd")


def _hazard(kind, first, second, ok):
    """`first` touches t, then `second` does; only `second`'s wait orders them."""
    t = Trace()
    for name in "tuv":
        t.chip(name)
    t.fill("t", "vector" if first != "vector" else "gpsimd", post=[up("ready")])
    t.fill("u", "gpsimd", post=[up("other")])
    given = [ge("ready", 1), ge("other", 1)]
    wait = [ge("done", 1)] if ok else []
    if kind == "RAW":
        t.copy("t", "u", first, wait=given, post=[up("done")])
        t.copy("v", "t", second, wait=wait)
    elif kind == "WAR":
        t.copy("v", "t", first, wait=given, post=[up("done")])
        t.copy("t", "u", second, wait=[*wait, *given])
    else:
        t.copy("t", "u", first, wait=given, post=[up("done")])
        t.copy("t", "v" if ok is None else "u", second, wait=[*wait, *given])
    return t


def engine_pairs():
    for first in READERS:
        for second in READERS:
            if first == second:
                continue
            for kind in ("RAW", "WAR", "WAW"):
                name = f"{kind} {first} {second}"
                yield case(name, _hazard(kind, first, second, False), kind)
                yield case(f"{name}, waited for", _hazard(kind, first, second, True))


def _matmul(t, dst, accumulate, wait=(), post=()):
    t.op("nc_matmul", wait, post, dst=dst, stationary="w", moving="m", accumulate=accumulate)


def _group(waited, reader, products=4):
    t = Trace()
    t.chip("w", (128, 128), dtype="bfloat16")
    t.chip("m", (128, 512), dtype="bfloat16")
    t.chip("out")
    t.chip("bank", space="psum", address=0)
    t.fill("w", "vector", post=[up("in")])
    t.fill("m", "gpsimd", post=[up("in")])
    for n in range(products):
        _matmul(t, "bank", n > 0, wait=[ge("in", 2)] if n == 0 else [], post=[up("product")])
    t.copy("out", "bank", reader, wait=[ge("product", waited)] if waited else [])
    return t


def _bank_reuse(ok):
    t = Trace()
    t.chip("w", (128, 128), dtype="bfloat16")
    t.chip("m", (128, 512), dtype="bfloat16")
    t.chip("out")
    t.chip("bank", space="psum", address=0)
    t.fill("w", "vector", post=[up("in")])
    t.fill("m", "gpsimd", post=[up("in")])
    _matmul(t, "bank", False, wait=[ge("in", 2)], post=[up("product")])
    t.copy("out", "bank", "scalar", wait=[ge("product", 1)], post=[up("read")])
    _matmul(t, "bank", False, wait=[ge("read", 1)] if ok else [], post=[up("product")])
    return t


def _weights_overwritten(ok):
    t = Trace()
    t.chip("w", (128, 128), dtype="bfloat16")
    t.chip("m", (128, 512), dtype="bfloat16")
    t.chip("bank", space="psum", address=0)
    t.fill("w", "vector", post=[up("in")])
    t.fill("m", "gpsimd", post=[up("in")])
    _matmul(t, "bank", False, wait=[ge("in", 2)], post=[up("product")])
    t.fill("w", "vector", value=2.0, wait=[ge("product", 1)] if ok else [])
    return t


def psum_groups():
    for reader in ("vector", "scalar"):
        for waited in (0, 1, 2, 3):
            yield case(f"{reader} reads after {waited} of 4 products", _group(waited, reader), "RAW")
        yield case(f"{reader} reads after all products", _group(4, reader))
    yield case("bank reused before it is read", _bank_reuse(False), "WAR")
    yield case("bank reused after it is read", _bank_reuse(True))
    yield case("weights overwritten under a product", _weights_overwritten(False), "WAR")
    yield case("weights overwritten after it", _weights_overwritten(True))


def _shared_bytes(address, first, second, ok=False, partition=0):
    """Two tensors, the second at `address`; elements `first` are written, `second` read."""
    t = Trace()
    t.chip("a", address=0)
    t.lines.append({"tensor": {"name": "b", "space": "sbuf", "shape": [64, 512], "dtype": "float32",
                               "address": address, "partition": partition}})
    t.chip("out", (64, 512), address=8192)
    t.fill("b", "gpsimd", post=[up("b")])
    t.fill(f"a{first}", "vector", wait=[ge("b", 1)], post=[up("a")])
    t.copy(f"out{second}", f"b{second}", "scalar", wait=[ge("a" if ok else "b", 1)])
    return t


def addresses():
    yield case("the same address under another name", _shared_bytes(0, "", ""), "RAW")
    yield case("the same address, waited for", _shared_bytes(0, "", "", ok=True))
    yield case("half of it", _shared_bytes(1024, "", ""), "RAW")
    yield case("half of it, the other half used", _shared_bytes(1024, "[:, 0:256]", ""))
    yield case("one element", _shared_bytes(2044, "", "[:, 0:1]"), "RAW")
    yield case("next to it", _shared_bytes(2048, "", ""))
    yield case("every other element, the same", _shared_bytes(0, "[:, ::2]", "[:, ::2]"), "RAW")
    yield case("every other element, the others", _shared_bytes(0, "[:, ::2]", "[:, 1::2]"))
    yield case("strides that meet", _shared_bytes(0, "[:, ::3]", "[:, 1::2]"), "RAW")
    yield case("upper partitions", _shared_bytes(0, "[64:128]", "", partition=64), "RAW")
    yield case("other partitions", _shared_bytes(0, "[0:64]", "", partition=64))


CLASSES = {"engines": engine_pairs, "psum": psum_groups, "addresses": addresses}
