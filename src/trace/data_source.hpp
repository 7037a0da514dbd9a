// Writes the initial bytes of a tensor into memory, from a file, a generator or listed values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "isa/machine/memory.hpp"
#include "isa/program/program.hpp"
#include "src/files/npy.hpp"

namespace nkisim {

enum class Generator : std::uint8_t { kUniform, kNormal, kArange, kIntegers, kZeros, kOnes };
inline constexpr int kGeneratorCount = 6;
[[nodiscard]] std::string_view name(Generator generator);

/// The "data" of a tensor declaration.
struct DataSource {
  enum class Kind : std::uint8_t { kNone, kNpy, kNpz, kGenerator, kValues };
  Kind kind = Kind::kNone;
  bool per_rank = false;  // generator: rank r takes seed + r
  std::string file, key;  // "{rank}" in them stands for the rank; relative to the trace's folder;
                          // below it, the working folder or a root
  Generator generator = Generator::kZeros;
  std::int64_t seed = 0;
  double low = 0, high = 1;    // uniform: [low, high); integers: [low, high)
  double mean = 0, scale = 1;  // normal: mean + scale * n
  double start = 0, step = 1;  // arange: start + i * step
  std::vector<double> values;  // row-major, or one value for all
  bool operator==(const DataSource&) const = default;
};

/// Element values of a generator, before rounding to the tensor's dtype. Exactly reproducible in
/// NumPy: docs/trace-format.md, traces/generators.py.
void generate(const DataSource& source, std::int64_t first, std::size_t count, double* out);

struct LoadOptions {
  std::filesystem::path folder = {};              // of the trace
  std::vector<std::filesystem::path> roots = {};  // where its data files may be as well
  std::map<std::string, NpyArray> inputs = {};    // replace what the trace says, by tensor name
  std::set<std::string> done = {};                // tensors that have their bytes already
  bool allow_missing = false;                     // leave inputs without data unwritten
  int rank = 0;                                   // of the memory
};

/// All bytes of `tensor`, row-major; of a file, if it is a regular one below options.folder, the
/// working folder or a root. Throws isa::Error naming the tensor.
[[nodiscard]] std::vector<std::byte> tensor_bytes(const isa::Tensor& tensor,
                                                  const DataSource& source,
                                                  const LoadOptions& options);

/// The arrays of an .npz that are inputs of `program`, and their largest size (read_npz). An array
/// of another name is an isa::Error.
[[nodiscard]] NpySizeLimit input_size_limit(const isa::Program& program);

/// True if ranks have data of their own.
[[nodiscard]] bool differs_by_rank(const DataSource& source);

/// Writes every input and constant into `memory`. `sources` is indexed by tensor id and may be
/// shorter. An input without data, or data for an unknown tensor, is an isa::Error.
void load_inputs(const isa::Program& program, const std::vector<DataSource>& sources,
                 isa::Memory& memory, const LoadOptions& options);
/// The same for the memories of a world, by rank. What ranks have in common they share until one
/// writes it. options.inputs are every rank's.
void load_ranks(const isa::Program& program, const std::vector<DataSource>& sources,
                const std::vector<std::unique_ptr<isa::Memory>>& memories, LoadOptions options);

}  // namespace nkisim
