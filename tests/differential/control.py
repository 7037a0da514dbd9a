"""Executes registers, loops and branches in the NumPy reference of random instruction tests."""


def wrap(value):
    """A 32-bit two's complement register."""
    return (value + 2**31) % 2**32 - 2**31


def value(m, x):
    return m.registers.get(x, 0) if isinstance(x, str) else x


COMPARE = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": lambda a, b: a == b,
           "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b, "gt": lambda a, b: a > b}  # fmt: skip
OPERATIONS = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << b, "right_shift": lambda a, b: (a % 2**32) >> b,
}  # fmt: skip
OPENS = ("loop_begin", "while_begin", "if_begin")
CLOSES = ("loop_end", "while_end", "if_end")


def _end(insts, at):
    """Index of the end of the block opened at `at`, and of its else (or None)."""
    depth, other = 0, None
    for k in range(at, len(insts)):
        depth += insts[k].op in OPENS
        depth -= insts[k].op in CLOSES
        if insts[k].op == "else_begin" and depth == 1:
            other = k
        if depth == 0:
            return k, other
    raise ValueError("a block is never closed")


def block(insts, m, execute):
    at = 0
    while at < len(insts):
        inst = insts[at]
        if inst.op in OPENS:
            end, other = _end(insts, at)
            _structure(insts, at, end, other, m, execute)
            at = end + 1
            continue
        if not _register(inst, m):
            execute(inst)
        at += 1


def _structure(insts, at, end, other, m, execute):
    a, body = insts[at].args, insts[at + 1 : end]
    if insts[at].op == "loop_begin":
        stop, counter = value(m, a["stop"]), value(m, a["start"])
        while counter < stop:
            m.registers[a["register"]] = counter
            block(body, m, execute)
            counter += a.get("step", 1)
    elif insts[at].op == "while_begin":
        while value(m, a["register"]) != 0:
            block(body, m, execute)
    else:
        split = (other or end) - at - 1
        taken = COMPARE[a["compare"]](value(m, a["lhs"]), value(m, a["rhs"]))
        block(body[:split] if taken else body[split + 1 :], m, execute)


def _register(inst, m):
    """Executes a register instruction; False if it is none."""
    a = inst.args
    if inst.op in ("register_alloc", "register_move"):
        m.registers[a["dst"]] = wrap(value(m, a.get("x", a.get("src", 0))))
    elif inst.op == "register_alu":
        result = OPERATIONS[a["op"]](value(m, a["lhs"]), value(m, a["rhs"]))
        m.registers[a["dst"]] = wrap(result)
    else:
        return False
    return True
