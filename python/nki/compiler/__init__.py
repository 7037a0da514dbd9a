"""nki.compiler: the allocators and decorators of AWS's compiler that have a meaning in a simulator."""

from nkisim.api.alloc import (allocation_scope, enable_stack_allocator, force_auto_alloc,
                              multi_buffer, psum, sbuf, skip_middle_end_transformations)
from nkisim.api.configs import AddressRotation, CompileConfig, SpecializationConfig
from nkisim.api.language import no_reorder

__all__ = ["sbuf", "psum", "skip_middle_end_transformations", "enable_stack_allocator",
           "force_auto_alloc", "no_reorder", "allocation_scope", "multi_buffer", "AddressRotation",
           "CompileConfig", "SpecializationConfig"]
