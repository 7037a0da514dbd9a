// Defines NKISIM_CLONES, which compiles a hot loop for several instruction sets and picks one at
// load time, and NKISIM_IVDEP, which lets the compiler vectorise a loop.
#pragma once

// NKISIM_CLONES compiles the function once per instruction set and picks at load time. Results
// cannot differ between the versions: the build forbids contraction (-ffp-contract=off) and the
// compiler does not reorder floating point. Sanitizers are not up yet when ifunc resolvers run, and
// clang (here: clang-tidy) cannot clone templates, so both see only the portable version. On other
// machines than x86-64 the first version has all vector instructions that every host has.
//
// NKISIM_IVDEP before a loop says that iterations are independent: an output may be the same array
// as an input, which a run-time overlap check would send to the scalar version.
#if defined(__clang__)
#define NKISIM_CLONES
#define NKISIM_IVDEP
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NKISIM_CLONES
#define NKISIM_IVDEP _Pragma("GCC ivdep")
#elif !defined(__x86_64__)
#define NKISIM_CLONES
#define NKISIM_IVDEP _Pragma("GCC ivdep")
#else
#define NKISIM_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#define NKISIM_IVDEP _Pragma("GCC ivdep")
#endif
