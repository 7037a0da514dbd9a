"""Defines nki.compiler's configuration of a kernel (SDK 2.33), which nki.jit takes and which changes no result here."""

import dataclasses
import enum

from ..values.errors import fail_on


class AddressRotation(enum.Enum):
    """States if the compiler's backend may move a tensor that has an address: by who gave it, always, never."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclasses.dataclass(frozen=True)
class CompileConfig:
    """Steers the compiler behind the kernel; None stands for its own default, which no page says."""

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True


@dataclasses.dataclass(frozen=True)
class SpecializationConfig:
    """Steers the tracing of a kernel."""

    allow_nested_config_override: bool = False


def check_configs(compile_config, specialization_config):
    """Refuses what is no configuration of its kind."""
    for name, value, kind in (("compile_config", compile_config, CompileConfig),
                              ("specialization_config", specialization_config, SpecializationConfig)):
        if value is not None and not isinstance(value, kind):
            fail_on("argument_kind", name, repr(value), f"an nki.compiler.{kind.__name__}", "jit")
