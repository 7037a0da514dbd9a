"""nki.typing: annotations."""

from nkisim.values.tensor import NkiTensor


class _Annotation:
    def __init__(self, name):
        self.name = name

    def __getitem__(self, shape):
        return self

    def __call__(self, *args, **kwargs):
        return args[0] if args else self

    def __repr__(self):
        return f"nki.typing.{self.name}"

    def __or__(self, other):
        return self

    __ror__ = __or__


tensor = _Annotation("tensor")
mutable_tensor = _Annotation("mutable_tensor")
const_tensor = _Annotation("const_tensor")
Tensor = NkiTensor
