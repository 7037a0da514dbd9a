"""Defines NKIObject, the base of classes that kernels pass around."""


class NKIObject:
    """Accepts what the NKI compiler accepts of a plain class.

    Class attributes without annotations become dataclass fields, and a class without an __init__
    of its own takes its attributes as positional or keyword arguments.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        annotations = cls.__dict__.get("__annotations__")
        if annotations is None:
            annotations = {}
            cls.__annotations__ = annotations
        ordered = {}
        for name, value in list(vars(cls).items()):
            if name.startswith("__") or callable(value) or name in annotations:
                continue
            if isinstance(value, (property, classmethod, staticmethod)):
                continue
            ordered[name] = type(value) if value is not None else object
        for name in annotations:  # None without a default, also for @dataclass (language guide)
            if not hasattr(cls, name) and name != "_":
                setattr(cls, name, None)
        annotations.update(ordered)

    def __init__(self, *args, **kwargs):
        names = []
        for base in reversed(type(self).__mro__):
            for name in vars(base).get("__annotations__", {}):
                if name not in names:
                    names.append(name)
        for name in names:
            if not hasattr(self, name):
                object.__setattr__(self, name, None)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} arguments, "
                            f"{len(args)} were given")
        for name, value in zip(names, args):
            object.__setattr__(self, name, value)
        for name, value in kwargs.items():
            object.__setattr__(self, name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()
