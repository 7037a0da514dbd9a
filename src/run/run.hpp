// Collects the functions that run programs of NKI instructions: the public header of src/run.
//
//   simulate(program, config, memory)  one simulation with any observers
//   run_world(ranks, config)  several ranks that communicate
//   compile_trace(trace, options, ...) what the compiler makes of a program file
//   compare, output_arrays             a run's outputs, also against reference arrays, and what
//                                      it means that two numbers match
//   recorded                           facts of a program from an untrusted process
//   same(a, b)                       whether two programs compute the same
//   refusals                           what the compiler of an SDK release would not take
#pragma once

#include "src/run/compare.hpp"
#include "src/run/compile_trace.hpp"
#include "src/run/golden.hpp"
#include "src/run/recorded.hpp"
#include "src/run/release.hpp"
#include "src/run/same.hpp"
#include "src/run/simulation.hpp"
#include "src/run/world.hpp"
