"""Finds in a kernel's source and arguments the errors that AWS's page of neuronxcc.nki errors lists
(refusals.json).
"""

import ast
import functools
import inspect
import re
import types

from ..values.dtypes import float32
from ..values.errors import nearest_parameter
from ..values.tensor import NkiTensor
from .loop_names import TRACED
from .recorder import current
from .refusals import report_refused, report_refused_at
from .rewriting import definition_of, text_of

_LOOPS = {*TRACED, "range"}
#: Functions of neuronxcc.nki.language that give no tile.
_NO_TILES = {*_LOOPS, "static_range", "arange", "mgrid", "program_id", "num_programs", "program_ndim", "ds", "par_dim",
             "device_print", "store", "finfo"}
#: Texts that a source has where there may be something to find.
_READ = re.compile(r"\b(for|if|while) |isa\.")
_BLOCKS = (ast.For, ast.While, ast.If, ast.With)


def check_source(function, recorder):
    """Says what a kernel's source has that the compiler refuses."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for line, rule, parts in _found(function):
        report_refused_at(rule, code.co_filename, line, recorder, **parts)


def check_arguments(function, recorder, written, returned):
    """Says which written arguments are not annotated as mutable, or not returned. written: tensors; returned: the ids
    of what the kernel returns."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    notes = getattr(function, "__annotations__", {})
    for tensor in written:
        name = tensor.st.name
        if code is None or name not in code.co_varnames[:code.co_argcount]:
            continue
        if "mutable" not in repr(notes.get(name, "")):
            report_refused_at("immutable_parameter", code.co_filename, code.co_firstlineno, recorder, name=name)
        elif tensor.st.id not in returned:
            report_refused_at("mutable_not_returned", code.co_filename, code.co_firstlineno, recorder, name=name)


def check_activation(bias, scale):
    """Says which operands of an activation are of a dtype that the compiler refuses, or missing."""
    if bias is None and current().allocated:
        report_refused("bias_of_allocated")
    if isinstance(bias, NkiTensor) and bias.dtype.name not in ("float32", "float16", "bfloat16"):
        report_refused("activation_bias_dtype", dtype=bias.dtype)
    if isinstance(scale, NkiTensor) and scale.dtype is not float32:
        report_refused("activation_scale_dtype", dtype=scale.dtype)


@functools.lru_cache(maxsize=1024)
def _found(function):
    """[(line, rule, parts)] of a function."""
    text = text_of(function.__code__)
    tree = definition_of(function.__code__) if _READ.search(text) else None
    if not isinstance(tree, ast.FunctionDef):
        return []
    scope = function.__globals__
    found = [*_scopes(tree, scope), *_calls(tree, scope)]
    if "mask" in text and ("%" in text or "//" in text):
        found += _masks(tree, ())
    if "shared_hbm" in text:
        found += _shared(tree, scope)
    return [(function.__code__.co_firstlineno - 1 + node.lineno, rule, parts) for node, rule, parts in found]


def _calls(tree, scope):
    """Keywords that are nearly those of an instruction, which ignores them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not _legacy(node, scope):
            continue
        module = scope[node.func.value.id] if isinstance(node.func.value, ast.Name) else None
        if module is None or not module.__name__.endswith(".isa"):
            continue
        function = getattr(module, node.func.attr, None)
        own = inspect.signature(function).parameters if inspect.isfunction(function) else ()
        for given in node.keywords:
            if not given.arg or not own or given.arg in own:
                continue
            if meant := nearest_parameter(given.arg, own):
                yield given.value, "keyword_ignored", {"call": node.func.attr, "keyword": given.arg, "meant": meant}


def _legacy(node, scope):
    """The name of a function of neuronxcc.nki that a call calls, or None."""
    called = node.func if isinstance(node, ast.Call) else None
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return None
    module = scope.get(called.value.id)
    ours = isinstance(module, types.ModuleType) and module.__name__.startswith("neuronxcc.nki")
    return called.attr if ours and called.attr not in _NO_TILES else None


def _variable(node):
    """The name of a loop's index, or None."""
    called = node.iter.func if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) else None
    of_device = getattr(called, "attr", getattr(called, "id", None)) in _LOOPS
    return node.target.id if of_device and isinstance(node.target, ast.Name) else None


def _decides(test, variables):
    """True if a condition depends on a loop's index or the program's: others were decided as the kernel was traced."""
    return any(isinstance(n, ast.Name) and n.id in variables or isinstance(n, ast.Attribute) and n.attr == "program_id"
               for n in ast.walk(test))


class _Scopes:
    """Tiles made in the body of a loop or of a branch that depends on one, and used outside of it."""

    def __init__(self, scope):
        self.scope, self.found = scope, []
        self.variables: tuple[str, ...] = ()  # the indices of the loops around

    def run(self, body, bound, left):
        """bound: names set here or around; left: those of tiles that a block made which has ended. Gives the tiles
        that this body makes."""
        made = set()
        for statement in body:
            if not isinstance(statement, _BLOCKS):
                made |= self._plain(statement, bound, left)
                continue
            for part in ("iter", "test"):
                self._read(getattr(statement, part, None), left)
            made |= self._block(statement, bound, left)
        return made

    def _block(self, statement, bound, left):
        """The tiles that a block makes for what is behind it."""
        outer, name = self.variables, _variable(statement)
        ends = isinstance(statement, (ast.For, ast.While)) or (
            isinstance(statement, ast.If) and _decides(statement.test, outer))
        self.variables = (*outer, name) if name else outer
        inner = set()
        for block in (statement.body, getattr(statement, "orelse", [])):
            own = set(bound)
            inner |= self.run(block, own, left if not ends else set(left))
            if not ends:
                bound |= own
        self.variables = outer
        if ends:
            left |= inner - bound
        return set() if ends else inner

    def _plain(self, statement, bound, left):
        value = getattr(statement, "value", statement)
        self._read(value, left)
        targets = statement.targets if isinstance(statement, ast.Assign) else (
            [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else [])
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for target in targets:
            self._read(target, left)
        bound |= names
        left -= names
        return names if isinstance(statement, ast.Assign) and _legacy(value, self.scope) else set()

    def _read(self, node, left):
        for name in ast.walk(node) if node is not None else ():
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in left:
                left.discard(name.id)  # once
                self.found.append((name, "tile_out_of_scope", {"name": name.id}))


def _scopes(tree, scope):
    finder = _Scopes(scope)
    finder.run(tree.body, {a.arg for a in tree.args.args}, set())
    return finder.found


def _masks(node, variables):
    """Masks that are no affine expressions of the variables of loops."""
    if _variable(node):
        variables = (*variables, _variable(node))
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        for part in ast.walk(keyword.value) if keyword.arg == "mask" else ():
            bent = isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Mod, ast.FloorDiv)) and any(
                isinstance(n, ast.Name) and n.id in variables for n in ast.walk(part.left))
            if bent:
                yield part, "mask_not_affine", {"mask": ast.unparse(part)}
    for child in ast.iter_child_nodes(node):
        yield from _masks(child, variables)


def _shared(tree, scope):
    """Tensors in shared HBM that are made within a loop, or a branch that depends on one."""
    variables = {_variable(n) for n in ast.walk(tree)} - {None}
    for block in (n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.While, ast.If))):
        if isinstance(block, ast.If) and not _decides(block.test, variables):
            continue
        for call in (n for s in [*block.body, *block.orelse] for n in ast.walk(s) if isinstance(n, ast.Call)):
            if _legacy(call, scope) and any(
                    k.arg == "buffer" and ast.unparse(k.value).endswith("shared_hbm") for k in call.keywords):
                yield call, "shared_tensor_within", {"where": "a loop or a branch"}
