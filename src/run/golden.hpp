// Compares a program's outputs with reference arrays.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "isa/machine/memory.hpp"
#include "src/files/npy.hpp"
#include "src/run/compare.hpp"

namespace nkisim {

/// The distance of one output from the expected one.
struct Comparison : Difference {
  std::string tensor;
};

/// One row per array in `golden`. Throws Error if there is none, a name is not a tensor in HBM, or
/// shapes differ.
[[nodiscard]] std::vector<Comparison> compare(const isa::Program& program, isa::Memory& memory,
                                              const std::map<std::string, NpyArray>& golden,
                                              const Tolerance& tolerance);
/// Names of the outputs that `golden` has no array for.
[[nodiscard]] std::vector<std::string> left_out(const isa::Program& program,
                                                const std::map<std::string, NpyArray>& golden);
/// The arrays of an .npz that name tensors in HBM; any other name is an Error.
[[nodiscard]] std::map<std::string, NpyArray> read_golden(const isa::Program& program,
                                                          const std::filesystem::path& path);
[[nodiscard]] bool all_match(const std::vector<Comparison>& rows);

/// True if a program returns a tensor.
[[nodiscard]] inline bool is_output(const isa::Tensor& t) {
  return t.space == isa::Space::kHbm &&
         (t.role == isa::TensorRole::kOutput || t.role == isa::TensorRole::kInputOutput);
}
/// Arrays of all output (and input/output) tensors, for --outputs.
[[nodiscard]] std::vector<std::pair<std::string, NpyArray>> output_arrays(
    const isa::Program& program, isa::Memory& memory);

}  // namespace nkisim
