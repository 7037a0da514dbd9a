"""Defines the enumerations of nki.isa, as integers that know their name."""


class Choice(int):
    """One value of an enumeration; compares and hashes as its integer."""

    def __new__(cls, value, name, kind):
        self = super().__new__(cls, value)
        self.name = name
        self.kind = kind
        return self

    @property
    def value(self):
        return int(self)

    def __repr__(self):
        return f"{self.kind}.{self.name}"

    __str__ = __repr__

    def __reduce__(self):
        return (_restore, (self.kind, self.name))


class _Choices(type):
    def __iter__(cls):
        return iter(cls.members.values())

    def __contains__(cls, value):
        return any(value is m for m in cls.members.values())

    def __getitem__(cls, name):
        return cls.members[name]

    def __call__(cls, value):
        for member in cls.members.values():
            if value in (member.name, int(member)) or value is member:
                return member
        raise ValueError(f"{value!r} is not one of {', '.join(cls.members)}")


_ALL = {}


def _choices(kind, **values):
    members = {name: Choice(value, name, kind) for name, value in values.items()}
    about = f"One of {', '.join(f'{kind}.{name}' for name in members)}."
    cls = _Choices(kind, (), {"members": members, "__doc__": about, **members})
    _ALL[kind] = cls
    return cls


def _restore(kind, name):
    return _ALL[kind].members[name]


engine = _choices("engine", tensor=1, vector=5, scalar=2, gpsimd=3, dma=4, sync=6, unknown=0)
reduce_cmd = _choices("reduce_cmd", idle=0, reset=1, reduce=2, reset_reduce=3, load_reduce=4)
dge_mode = _choices("dge_mode", unknown=0, swdge=1, hwdge=2, none=3)
oob_mode = _choices("oob_mode", error=0, skip=1)
matmul_perf_mode = _choices("matmul_perf_mode", none=0, double_row=1, double_column=2,
                            double_pixel=3, double_row_sw_interleave=4)
nc_version = _choices("nc_version", gen1=1, gen2=2, gen3=3, gen4=4)
dma_engine = _choices("dma_engine", dma=1, gpsimd_dma=2)

# Engine tokens -> the core's numbering (isa/base/machine.hpp); `dma` queues are the core's default.
ENGINE_CODES = {engine.tensor: 0, engine.vector: 1, engine.scalar: 2, engine.gpsimd: 3,
                engine.sync: 4, engine.dma: 5, engine.unknown: 5}
ENGINE_CODES.update({name: ENGINE_CODES[member] for name, member in engine.members.items()})
ENGINE_CODES.update({"tensor_engine": 0, "vector_engine": 1, "scalar_engine": 2,
                     "gpsimd_engine": 3, "sync_engine": 4, "Activation": 2, "Pool": 3})
