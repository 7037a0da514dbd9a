"""Damages files and command lines at random: bytes, JSON tokens and values, arrays of an .npz."""

import io
import json
import re
import zipfile

import numpy as np

SPLICES = [b"0", b"-1", b"128", b"65536", b"2147483648", b"4294967296", b"1099511627776",
           b"9223372036854775807", b"-9223372036854775808", b"99999999999999999999", b"1e999",
           b"1.5", b"null", b"true", b'"inf"', b'"nan"', b'"r3"', b"[]", b"{}", b"[[1,2]]", b'""',
           b"::-1", b"\xff\xfe", b"\\u0000", b"\\u001b[2J", b"\n", b"[[[[[[[[[[[[", b'"float32"',
           b'"hbm"', b'"psum"', b'"trn1"', b'"trn3"', b'"explicit"', b'"virtual"', b'"../x:1"',
           b'"/etc/passwd:1"', b'"@SCRIPT@"', b'"=1+1"']
NUMBERS = [0, 1, -1, 2, 3, 7, 127, 128, 255, 4096, 65536, 2 ** 31 - 1, 2 ** 31, -2 ** 31, 2 ** 32,
           2 ** 40, 2 ** 53, 2 ** 62, 2 ** 63 - 1, -2 ** 63, 0.5, -0.5, 1e30, 1e308]
TEXTS = ["", "x", "y", "t", "inf", "float32", "bfloat16", "uint8", "trn3", "hbm", "r0", "r65535",
         "..", "../a.py:3", "/dev/zero", "\u202e", "\x1b[2J", "=1", "@DATA@", "a" * 300, "y[0:1]"]
EDITS = [1, 1, 1, 1, 2, 3]
TOKEN = re.compile(rb'"[^"\n]{0,200}"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|true|false|null')


def edit_bytes(data, rng):
    """One to four edits of bytes or tokens."""
    data = bytearray(data)
    for _ in range(rng.choice(EDITS)):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randint(1, 16)]
        elif kind == 2:
            data[at:at] = bytes([rng.randrange(256)])
        elif kind == 3 and rng.random() < 0.3:
            del data[at:]
        elif kind == 4:
            data[at:at] = rng.choice(SPLICES)
        else:
            tokens = list(TOKEN.finditer(bytes(data[at:at + 4000])))
            if tokens:
                m = rng.choice(tokens)
                data[at + m.start():at + m.end()] = rng.choice(SPLICES)
    return bytes(data)


def _places(value, found, holder=None, key=None):
    if holder is not None:
        found.append((holder, key))
    if isinstance(value, dict):
        for k in value:
            _places(value[k], found, value, k)
    elif isinstance(value, list):
        for i, v in enumerate(value[:50]):
            _places(v, found, value, i)
    return found


def edit_json(value, rng):
    """Changes one to three values of a JSON document in place."""
    for _ in range(rng.choice(EDITS)):
        places = _places(value, [])
        if not places:
            return value
        holder, key = rng.choice(places)
        old, kind = holder[key], rng.randrange(8)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = old
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, old)
        elif kind == 3:
            holder[key] = rng.choice([None, True, [], {}, [old], {"value": old}])
        elif isinstance(old, str) and rng.random() < 0.5:
            holder[key] = rng.choice(TEXTS)
        elif isinstance(old, (int, float)) and rng.random() < 0.6:
            holder[key] = rng.choice([old + 1, old - 1, old + 128, old * 2, old * 1000, old // 2])
        else:
            holder[key] = rng.choice(NUMBERS)
    return value


def edit_lines(data, rng):
    """A trace: lines changed as JSON, dropped, repeated or exchanged, or bytes."""
    if rng.random() < 0.2:
        return edit_bytes(data, rng)
    lines = data.splitlines()
    for _ in range(rng.choice(EDITS)):
        at, kind = rng.randrange(len(lines)), rng.randrange(8)
        if kind == 0 and len(lines) > 2:
            del lines[at]
        elif kind == 1:
            lines.insert(at, rng.choice(lines))
        elif kind == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            try:
                lines[at] = json.dumps(edit_json(json.loads(lines[at]), rng)).encode()
            except ValueError:
                pass
    return b"\n".join(lines) + b"\n"


def edit_document(data, rng):
    """A JSON file."""
    if rng.random() < 0.2:
        return edit_bytes(data, rng)
    return json.dumps(edit_json(json.loads(data), rng)).encode()


def _edit_array(array, rng):
    kind = rng.randrange(7)
    if kind == 0:
        return array[:len(array) // 2] if array.ndim else array.reshape(1)
    if kind == 1:
        return array.reshape(1, *array.shape)
    if kind == 2:
        return array.astype(rng.choice(["i4", "f4", "f8", "u1", "S3", "c8", ">i8"]))
    if kind == 3:
        return np.concatenate([array, array]) if array.ndim else array
    array = array.copy()
    if array.size and array.dtype.kind in "iuf":
        wide = array.dtype.itemsize == 8
        value = rng.choice([0, 1, 2, 3, 100] + ([-1, 2 ** 40, -2 ** 63, 2 ** 62] if wide else []))
        flat = array.reshape(-1)
        flat[rng.randrange(flat.size)] = value
        if rng.random() < 0.1:
            flat[:] = value
    return array


def edit_npz(data, rng):
    """Arrays of an .npz dropped, renamed or changed; a session's facts as JSON; or bytes."""
    if rng.random() < 0.2:
        return edit_bytes(data, rng)
    with np.load(io.BytesIO(data)) as arrays:
        members = {k: arrays[k] for k in arrays.files}
    for _ in range(rng.choice(EDITS)):
        key, kind = rng.choice(list(members) or ["y"]), rng.randrange(8)
        if key not in members:
            break
        if key == "facts" or (kind == 2 and "facts" in members):
            facts = edit_json(json.loads(members["facts"].tobytes()), rng)
            members["facts"] = np.frombuffer(json.dumps(facts).encode(), "u1")
        elif kind == 0:
            del members[key]
        elif kind == 1:
            members[rng.choice(["z", "x.npy", "../y", "", "y" * 99])] = members.pop(key)
        else:
            members[key] = _edit_array(members[key], rng)
        if "facts" in members and not _is_json(members["facts"]):
            break
    out = io.BytesIO()
    if rng.random() < 0.5:
        np.savez_compressed(out, **members)
    else:
        _save_stored(out, members)
    return out.getvalue()


def _is_json(array):
    try:
        json.loads(array.tobytes())
        return True
    except ValueError:
        return False


def _save_stored(out, members):
    with zipfile.ZipFile(out, "w") as z:
        for key, array in members.items():
            content = io.BytesIO()
            np.save(content, array)
            z.writestr(f"{key}.npy", content.getvalue())
