// Run-time CPU dispatch for the hot element loops.
#pragma once

// Compiles the function once per instruction set and picks at load time. Results cannot differ
// between the versions: the build forbids contraction (-ffp-contract=off) and GCC does not
// reorder floating point. Sanitizers run before their runtime is up in ifunc resolvers, so
// sanitized builds keep only the portable version.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NKISIM_CLONES
#else
#define NKISIM_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
