"""nki.compiler: allocators and decorators of the compiler that have a meaning in a simulator."""

from nkisim.legacy_alloc import (enable_stack_allocator, force_auto_alloc, psum, sbuf,
                                 skip_middle_end_transformations)
from nkisim.language import no_reorder

__all__ = ["sbuf", "psum", "skip_middle_end_transformations", "enable_stack_allocator",
           "force_auto_alloc", "no_reorder"]
