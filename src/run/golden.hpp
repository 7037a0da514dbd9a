// Compares a program's outputs with reference arrays, as numpy.allclose does.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "isa/machine/memory.hpp"
#include "src/files/npy.hpp"

namespace nkisim {

struct Comparison {
  std::string tensor;
  std::int64_t elements = 0, mismatches = 0;
  double max_abs_error = 0, max_rel_error = 0;
  std::int64_t worst = 0;  // flat index of the largest |error| / tolerance
  double got = 0, expected = 0;
};

/// One row per array in `golden`. Element x matches y if |x - y| <= atol + rtol * |y|; NaN matches
/// NaN and infinities must be equal. Throws Error if there is none, a name is not a tensor in HBM,
/// or shapes differ.
[[nodiscard]] std::vector<Comparison> compare(const isa::Program& program, isa::Memory& memory,
                                              const std::map<std::string, NpyArray>& golden,
                                              double rtol, double atol);
/// Names of the outputs that `golden` has no array for.
[[nodiscard]] std::vector<std::string> left_out(const isa::Program& program,
                                                const std::map<std::string, NpyArray>& golden);
/// The arrays of an .npz that name tensors in HBM; any other name is an Error.
[[nodiscard]] std::map<std::string, NpyArray> read_golden(const isa::Program& program,
                                                          const std::filesystem::path& path);
[[nodiscard]] bool all_match(const std::vector<Comparison>& rows);

/// Arrays of all output (and input/output) tensors, for --outputs.
[[nodiscard]] std::vector<std::pair<std::string, NpyArray>> output_arrays(
    const isa::Program& program, isa::Memory& memory);

}  // namespace nkisim
