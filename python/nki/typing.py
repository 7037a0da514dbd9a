"""nki.typing: annotations."""

from nkisim.values.shape import Shape
from nkisim.values.tensor import NkiTensor


class _Annotation:
    """An annotation of a kernel's parameter: tensor[128, 512], or tensor[[128, 512], nl.float32]."""

    def __init__(self, name, shape=None):
        self.name = name
        self.shape = shape  # of tensor[128, 512]

    def __getitem__(self, shape):
        """tensor[[128, 512], nl.float32] is the shape of an argument; tensor[128, 512] and tensor[mutable] annotate."""
        if isinstance(shape, _Annotation):
            return shape
        if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], (list, tuple)):
            return Shape(*shape)
        return _Annotation(self.name, shape if isinstance(shape, tuple) else (shape,))

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
