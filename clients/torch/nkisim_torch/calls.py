"""Makes NKI kernels torch operators: nki_op, and calls while torch traces (fake, meta, compiled)."""

import functools
import inspect

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from nkisim.run import hostarrays
from nkisim.run.kernel import KERNELS
from nkisim.run.shapes import record_shapes
from nkisim.values.shape import Shape


def nki_op(name, fn=None, *, mutates_args=(), **settings):
    """@nki_op("mylib::my_op", mutates_args={}): registers a function that calls kernels as a torch
    operator, a torch.library.CustomOpDef with register_autograd and its like. It may return what it writes,
    of which the caller gets a copy.

    name: namespace::operator. mutates_args: the names of the arguments that it writes. The function
    needs type annotations, from which torch makes the operator's schema; `schema`, `device_types`
    and `tags` are those of torch.library.custom_op. While torch traces, the function itself runs on
    fake tensors: torch's functions give shapes, and the kernels are recorded on shapes alone.
    """
    if fn is None:
        return lambda f: nki_op(name, f, mutates_args=mutates_args, **settings)
    inner, renamed = _as_operator(fn)
    operator = torch.library.custom_op(name, inner, mutates_args=tuple(renamed.get(a, a) for a in mutates_args),
                                       **settings)
    operator.register_fake(inner)
    return _by_names(fn, operator, renamed) if renamed else operator


#: Names that torch's functions behind an operator have for arguments of their own.
_TAKEN = ("mode",)
_METHODS = ("register_autograd", "register_fake", "register_kernel", "register_vmap", "register_autocast",
            "register_torch_dispatch", "set_kernel_enabled")


def _as_operator(fn):
    """(`fn` as torch takes an operator, its parameters' names there where they are others): what it returns
    shares no memory with its arguments, so that a tensor that it writes and returns comes back as a copy."""
    signature = inspect.signature(fn)
    renamed = {name: f"{name}_" for name in signature.parameters if name in _TAKEN}
    original = {new: name for name, new in renamed.items()}

    @functools.wraps(fn)
    def inner(*args, **kwargs):
        given = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        leaves, tree = tree_flatten(fn(*args, **{original.get(k, k): v for k, v in kwargs.items()}))
        return tree_unflatten([t.clone() if isinstance(t, torch.Tensor) and any(
            torch._C._is_alias_of(t, g) for g in given) else t for t in leaves], tree)

    inner.__signature__ = signature.replace(parameters=[
        p.replace(name=renamed.get(name, name)) for name, p in signature.parameters.items()])
    return inner, renamed


def _by_names(fn, operator, renamed):
    """The operator as a function that takes its arguments by the names that `fn` has for them."""
    @functools.wraps(fn)
    def call(*args, **kwargs):
        return operator(*args, **{renamed.get(k, k): v for k, v in kwargs.items()})

    for name in _METHODS:
        setattr(call, name, getattr(operator, name))
    return call


class _Call:
    """A kernel and its arguments, less the torch tensors among them."""

    def __init__(self, kernel, args, kwargs):
        self.kernel = kernel
        self.leaves, self.tree = tree_flatten((args, kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if hostarrays.is_torch(leaf)]
        for place in self.places:
            self.leaves[place] = None

    def key(self):
        """The key that makes two calls the same but for their tensors, or None."""
        if not all(leaf is None or isinstance(leaf, (bool, int, float, str))
                   for leaf in self.leaves):
            return None
        return (self.kernel.func, repr(self.kernel.grid), self.kernel.dialect.name, str(self.tree),
                repr(self.leaves))

    def arguments(self, tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        return tree_unflatten(leaves, self.tree)

    def record(self, tensors):
        """(recording, the Shape that each tensor was recorded as)."""
        known = {id(t): Shape(tuple(int(n) for n in t.shape), t.dtype) for t in tensors}
        known = [known[id(t)] for t in tensors]
        args, kwargs = self.arguments(known)
        return record_shapes(self.kernel, args, kwargs), known


_calls, _numbers = [], {}  # the calls that the operator stands for; their places by key


@torch.library.custom_op("nkisim::kernel", mutates_args=())
def kernel_operator(tensors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    """Runs call `number`; gives what the kernel makes, then what it leaves in each argument that
    it writes, in the order of the arguments."""
    call = _calls[number]
    recording, known = call.record(tensors)
    written = {id(k): t.clone() for k, t in zip(known, tensors) if recording.writes(k)}
    args, kwargs = call.arguments([written.get(id(k), t) for k, t in zip(known, tensors)])
    made = _tensors(call.kernel(*args, **kwargs))
    return [t for t, argument in zip(made, recording.aliases) if argument is None] + list(
        written.values())


@kernel_operator.register_fake
def _(tensors, number):
    recording, known = _calls[number].record(tensors)
    made = [s for s, argument in zip(_shapes(recording.outputs), recording.aliases)
            if argument is None]
    made += {id(k): k for k in known if recording.writes(k)}.values()
    return [torch.empty(s.shape, dtype=_dtype(s), device=tensors[0].device) for s in made]


def _dtype(shape):
    return getattr(torch, shape.dtype.name)


def _leaves(value, kind):
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v, kind)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v, kind)]
    return []


def _tensors(value):
    return _leaves(value, torch.Tensor)


def _shapes(value):
    return _leaves(value, Shape)


def traced(kernel, args, kwargs):
    """A call on tensors without values, as an operator of the graph that torch makes."""
    call = _Call(kernel, args, kwargs)
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if hostarrays.is_torch(leaf)]
    key = call.key()
    number = _numbers.get(key)
    if number is None:
        number = len(_calls)
        _calls.append(call)
        if key is not None:
            _numbers[key] = number
    recording, known = call.record(tensors)
    with torch.no_grad():
        results = iter(kernel_operator(tensors, number))
        given = {id(k): t for k, t in zip(known, tensors)}
        aliases = iter(recording.aliases)

        def place(value):
            if isinstance(value, Shape):
                argument = next(aliases)
                return next(results) if argument is None else given[id(argument)]
            if isinstance(value, (list, tuple)):
                items = [place(v) for v in value]
                return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
            if isinstance(value, dict):
                return {k: place(v) for k, v in value.items()}
            return value

        outputs = place(recording.outputs)
        for argument in {id(k): given[id(k)] for k in known if recording.writes(k)}.values():
            argument.copy_(next(results))
    return outputs


def opaque():
    """The function that torch.compile calls in a kernel's place: not looked into, traced by its operators."""

    def call(number, grid, args, kwargs):
        return traced(KERNELS[number][grid], args, kwargs)

    return torch._dynamo.nonstrict_trace(call)


def add_backend():
    """torch.compile(backend="neuron"): the graph as traced; its kernels are simulated."""
    def neuron(graph, inputs, **settings):
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs, **settings)

    torch._dynamo.register_backend(neuron, "neuron")


def is_traced(value):
    """True if a tensor's values are not known yet, or become part of a graph."""
    return isinstance(value, (FakeTensor, FunctionalTensor)) or (
        isinstance(value, torch.Tensor) and value.device.type == "meta")
