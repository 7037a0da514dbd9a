"""Lists the public API of every release of NKI from the history of AWS's documentation.

    python tests/conformance/public_api.py SDK > python/nkisim/record/public_api.txt

SDK is a repository of aws-neuron/aws-neuron-sdk with its tags. A name is public where a page lists
it (autosummary) or where the documentation's stub of the module declares it. One line each: module,
first and last SDK release, name with parameters (without annotations) or value. Releases to 2.26 are
`neuronxcc.nki`; 2.27 and 2.28 are NKI 0.2, then one minor version of NKI each.

The tree of SDK 2.33 is not public. NEWER has what the rendered pages of v2.33.0 and v2.33.1 list anew;
what 2.32 has and no page takes back counts as there (assumed).
"""

import ast
import re
import subprocess
import sys

TAGS = ("v2.20.2 v2.21.0 v2.22.0 v2.23.0 v2.24.0 v2.25.0 v2.26.1 v2.27.1 v2.28.0 v2.29.1 v2.30.0 "
        "v2.31.1 v2.32.0").split()
_LAST_LEGACY = 26
NEWEST = "2.33"
_GRID = ("buffer", "data", "dtype", "element_shape", "index_step_elements", "is_data_representable",
         "is_remainder", "shape", "tile_shape")
_SPLIT = ("(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, "
          "priority=None, name=None)")
_ALLOC = "element_shape, buffer, dtype, address=None, name='')"
#: (module, name) -> signature, of SDK 2.33 (NKI 0.7.0).
NEWER = {
    ("nki.language", "tiles"): "(source, *, tile_shape=None)",
    ("nki.language", "blocks"): "(source, *, tile_shape=None, block_shape)",
    ("nki.language", "alloc_tiles"): f"(*, tile_shape, {_ALLOC}",
    ("nki.language", "alloc_blocks"): f"(*, tile_shape, block_shape, {_ALLOC}",
    ("nki.language", "empty_like"):
        "(x, dtype=None, buffer=None, name='', *, transpose_axes=None, address=None)",
    ("nki.language", "int64"): "",
    **{("nki.language", grid): "" for grid in ("NkiGrid", "NkiTileGrid", "NkiBlockGrid")},
    **{("nki.language", f"{grid}.{name}"): "" for grid in ("NkiGrid", "NkiTileGrid", "NkiBlockGrid")
       for name in _GRID},
    ("nki.language", "NkiBlockGrid.block_shape"): "",
    ("nki.isa", "NkiScalar"): "",
    ("nki.isa", "NkiScalar.dtype"): "",
    ("nki.isa", "activation"): "(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
                               "reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None)",
    ("nki.isa", "activate2"): "(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, "
                              "reverse1=False, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, "
                              "engine=engine.scalar, name=None)",
    ("nki.isa", "scalar_tensor_tensor"): "(dst, data, op0, operand0, op1, operand1, reverse0=False, "
                                         "reverse1=False, reduce_cmd=reduce_cmd.reset_reduce, reduce_op=..., "
                                         "reduce_res=None, name=None)",
    ("nki.isa", "topk"): "(val_dst, idx_dst, src, n, sorted=False, name=None)",
    ("nki.isa", "sendrecv_compute"): "(src, dst, send_to_rank, recv_from_rank, reduce_op, name=None)",
    ("nki.isa", "scalar_load"): "(src)",
    ("nki.isa", "scalar_store"): "(dst, value)",
    ("nki.collectives", "ReplicaGroup.from_partition_op"): "(world_size, op, operand)",
    ("nki.collectives", "rg_partition_op"): "",
    **{("nki.collectives", f"rg_partition_op.{name}"): "" for name in ("bitwise_and", "div", "mod")},
    **{("nki.collectives", f"{name}_prepare"): _SPLIT for name in ("all_to_all_v", "all_gather_v")},
    **{("nki.collectives", f"{name}_trigger"): "(prepare_instr, name=None)"
       for name in ("all_to_all_v", "all_gather_v")},
}
#: Signatures of pages that AWS's samples of the same releases contradict.
CONTRADICTED = {("nki.language", "sequential_range", "(start, stop, step)"): "(start, stop=None, step=1)"}

#: Names that AWS's own code of a release (the SDK's examples, nki-samples, nki-library) uses and no page of it lists.
USED = ("nki 2.29-2.29 dtype",
        "nki.isa 2.27-2.28 tensor_copy(dst, src, engine=engine.unknown, name=None, *, dtype=None)",
        "nki.language 2.29-2.29 range(*args)",
        "nki.language 2.29-2.29 shared_constant(constant, dtype=None)")


def _git(root, *args):
    return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True,
                          check=True).stdout


def _signature(node, method=False):
    """"(a, b=1, *, c)" of a function definition, without annotations and without self."""
    args = node.args
    positional = args.posonlyargs + args.args
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    if method and positional and positional[0].arg in ("self", "cls"):
        positional, defaults = positional[1:], defaults[1:]
    parts = [_parameter(p, d) for p, d in zip(positional, defaults)]
    if args.vararg or args.kwonlyargs:
        parts.append("*" + (args.vararg.arg if args.vararg else ""))
    parts += [_parameter(p, d) for p, d in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        parts.append("**" + args.kwarg.arg)
    return "(" + ", ".join(parts) + ")"


def _parameter(arg, default):
    return arg.arg + ("" if default is None else "=" + ast.unparse(default))


def _targets(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("_")]


def _value(node):
    """"=1" of a member that is a number, as those of enumerations are."""
    return f"={node.value}" if isinstance(node, ast.Constant) and type(node.value) is int else ""


def _members(node):
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            marks = [ast.unparse(d) for d in member.decorator_list]
            text = "" if any("property" in m for m in marks) else _signature(member, True)
            yield f"{node.name}.{member.name}", text
        elif isinstance(member, (ast.Assign, ast.AnnAssign)):
            for name in _targets(member):
                yield f"{node.name}.{name}", _value(member.value)


def _declared(text):
    """(name, signature) of what a stub declares; values, classes and properties have none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, _signature(node)
        elif isinstance(node, ast.ClassDef):
            if not node.name.startswith("_"):
                yield node.name, ""
            yield from _members(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in _targets(node):
                yield name, ""


def _listed(text):
    """The names of a page's autosummaries."""
    inside = False
    for line in text.splitlines():
        if line.startswith(".. autosummary"):
            inside = True
        elif inside and re.fullmatch(r"   ~?[\w.]+\s*", line):
            yield line.strip().lstrip("~"), ""
        elif inside and line.strip() and not line.startswith(" "):
            inside = False


def _module(page, path):
    """The module that a page gives for its names, else the one of its path."""
    found = re.search(r"^\.\. currentmodule:: (\S+)", page, re.M)
    return found[1] if found else path.replace("/", ".")


def _release(root, tag):
    """{(module, name): signature} of one release."""
    found = {}
    files = _git(root, "ls-tree", "-r", "--name-only", tag).splitlines()
    prefix = "neuronxcc." if int(tag.split(".")[1]) <= _LAST_LEGACY else ""
    for path in files:
        page = re.search(r"/api/(nki(?:\.\w+)*)\.rst$", path)
        stub = re.search(r"/api/(nki(?:/\w+)*)/__init__\.py$", path)
        if page or stub:
            text = _git(root, "show", f"{tag}:{path}")
            module = prefix + _module(text if page else "", (page or stub)[1])
            for name, signature in (_listed if page else _declared)(text):
                name = name.replace("_TileSize.", "tile_size.")
                found[module, name] = signature or found.get((module, name), "")
    return found


def _add_newest(spans):
    """Continues the last tag's names, but for other signatures of those that NEWER lists."""
    last = len(TAGS) - 1
    for (module, name, signature), runs in spans.items():
        if runs[-1][1] == last and NEWER.get((module, name), signature) == signature:
            runs[-1][1] += 1
    for (module, name), signature in NEWER.items():
        spans.setdefault((module, name, signature), [[last + 1, last + 1]])


def main(root):
    spans = {}
    for number, tag in enumerate(TAGS):
        for (module, name), signature in _release(root, tag).items():
            signature = CONTRADICTED.get((module, name, signature), signature)
            runs = spans.setdefault((module, name, signature), [])
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
    _add_newest(spans)
    short = [t[1:].rsplit(".", 1)[0] for t in TAGS] + [NEWEST]
    print(f"# {__doc__.splitlines()[0]}\n# Written by tests/conformance/public_api.py; "
          f"releases {TAGS[0]} to {TAGS[-1]} of aws-neuron-sdk, and its pages of {NEWEST}.")
    for (module, name, signature), runs in sorted(spans.items()):
        when = ",".join(f"{short[a]}-{short[b]}" for a, b in runs)
        print(module, when, name + signature)
    print("# Used by AWS's own code, on no page:", *USED, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
