// Where the initial bytes of a tensor come from, and how they get into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "isa/memory.hpp"
#include "isa/program.hpp"
#include "src/files/npy.hpp"

namespace nkisim {

enum class Generator : std::uint8_t { kUniform, kNormal, kArange, kIntegers, kZeros, kOnes };
inline constexpr int kGeneratorCount = 6;
[[nodiscard]] std::string_view name(Generator generator);

/// The "data" of a tensor declaration.
struct DataSource {
  enum class Kind : std::uint8_t { kNone, kNpy, kNpz, kGenerator, kValues };
  Kind kind = Kind::kNone;
  std::string file, key;  // relative to the trace's folder; below it, the working folder or a root
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
  bool allow_missing = false;                     // leave inputs without data unwritten
};

/// All bytes of `tensor`, row-major; of a file, if it is a regular one below options.folder, the
/// working folder or a root. Throws isa::Error naming the tensor.
[[nodiscard]] std::vector<std::byte> tensor_bytes(const isa::Tensor& tensor,
                                                  const DataSource& source,
                                                  const LoadOptions& options);

/// Which arrays of an .npz are inputs of `program`, and their largest size (read_npz). An array of
/// another name is an isa::Error.
[[nodiscard]] NpyRoom input_room(const isa::Program& program);

/// Writes every input and constant into `memory`. `sources` is indexed by tensor id and may be
/// shorter. An input without data, or data for an unknown tensor, is an isa::Error.
void load_inputs(const isa::Program& program, const std::vector<DataSource>& sources,
                 isa::Memory& memory, const LoadOptions& options);

}  // namespace nkisim
