"""Finds and prints the differences between the recorded results of two builds."""

import json

#: If two cases differ in more fields than this, the rest is counted.
SHOWN = 12


def leaves(value, name=""):
    """(dotted name, value) of every number and text in nested dicts and lists."""
    if isinstance(value, dict) and value:
        for key in value:
            yield from leaves(value[key], f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, f"{name}[{i}]")
    else:
        yield name, value


def _text(value):
    return "absent" if value is None else value if isinstance(value, str) else json.dumps(value)


def fields(before, after):
    """(field, before, after) of everything that differs between two cases; None is absent."""
    a = {name: json.dumps(value) for name, value in leaves(before)}
    b = {name: json.dumps(value) for name, value in leaves(after)}
    for name in [*a, *(n for n in b if n not in a)]:
        if a.get(name) != b.get(name):
            yield name, *(None if x.get(name) is None else json.loads(x[name]) for x in (a, b))


def covered(before, after):
    """The parts in both snapshots, and what was selected within each of them."""
    return {part: [s["parts"][part]["match"] for s in (before, after)]
            for part in before["parts"] if part in after["parts"]}


def differences(before, after):
    """(case, field, before, after) over all cases that both snapshots cover."""
    parts = covered(before, after)
    names = [*before["cases"], *(n for n in after["cases"] if n not in before["cases"])]
    for name in names:
        selected = parts.get(name.split("/", 1)[0])
        if selected is None or not all(text in name for text in selected):
            continue
        cases = before["cases"].get(name), after["cases"].get(name)
        if None in cases:
            yield name, "", *("absent" if c is None else "present" for c in cases)
        else:
            for field, a, b in fields(*cases):
                yield name, field, _text(a), _text(b)


def lines(before, after):
    """The report, and how many differences there are."""
    shown, count, last, within = [], 0, None, 0
    for name, field, a, b in differences(before, after):
        if name != last:
            shown.append(name)
            last, within = name, 0
        count, within = count + 1, within + 1
        if within <= SHOWN:
            shown.append(f"  {field or 'the case'}: {a} -> {b}")
        elif within == SHOWN + 1:
            shown.append("  and more")
    parts = covered(before, after)
    for part in sorted({*before["parts"], *after["parts"]} - {*parts}):
        shown.append(f"{part}: only in one of the two, not compared")
    for part, selected in parts.items():
        cases = [n for n in before["cases"]
                 if n.startswith(f"{part}/") and all(text in n for text in selected)]
        shown.append(f"{part}: {len(cases)} cases compared")
    shown.append(f"{count} differences")
    return shown, count
