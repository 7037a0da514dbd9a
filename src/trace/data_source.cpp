// Reads or generates the initial elements of a program's input tensors.

#include "src/trace/data_source.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "isa/base/error.hpp"
#include "src/files/files.hpp"

namespace nkisim {
namespace {

/// Output i of splitmix64 seeded with `seed`.
std::uint64_t splitmix64(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

double uniform(std::uint64_t seed, std::uint64_t i) {
  return static_cast<double>(splitmix64(seed, i) >> 11U) * 0x1p-53;
}

/// Sum of twelve uniforms minus six: exact in integers, so the same on every host.
double normal(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t sum = 0;
  for (std::uint64_t k = 0; k < 6; ++k) {
    const std::uint64_t z = splitmix64(seed, 6 * i + k);
    sum += (z >> 32U) + (z & 0xffffffffU);
  }
  return static_cast<double>(sum) * 0x1p-32 - 6.0;
}

bool is_whole(const DataSource& s) {
  switch (s.generator) {
    case Generator::kUniform:
    case Generator::kNormal:
      return false;
    case Generator::kArange:
      return s.start == std::floor(s.start) && s.step == std::floor(s.step);
    default:
      return true;
  }
}

void store_integers(const double* values, std::size_t count, std::size_t size, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(values[i]));
    std::memcpy(out + i * size, &bits, size);
  }
}

/// Rounds doubles to FP32 and then to `dtype`; integers wrap as NumPy's astype does.
void store(isa::Dtype dtype, const std::vector<double>& values, std::byte* out) {
  if (isa::is_integer(dtype)) {
    store_integers(values.data(), values.size(), static_cast<std::size_t>(isa::size_bytes(dtype)),
                   out);
    return;
  }
  std::vector<float> floats(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) floats[i] = static_cast<float>(values[i]);
  const std::size_t lanes = isa::is_packed(dtype) ? 4 : 1;
  isa::encode(dtype, floats.data(), floats.size() / lanes, out);
}

void check_whole(const std::string& what, isa::Dtype dtype, double value) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && value >= -kLimit && value <= kLimit) return;
  isa::fail(isa::Rule::array_dtype, what, "data with " + std::to_string(value),
            "whole numbers for " + std::string(isa::name(dtype)));
}

std::vector<std::byte> generated(const isa::Tensor& t, const DataSource& s,
                                 const std::string& what) {
  constexpr std::size_t kBlock = 1U << 16U;
  if (isa::is_integer(t.dtype)) {
    if (!is_whole(s)) {
      isa::fail(isa::Rule::array_dtype, what, "data of generator " + std::string(name(s.generator)),
                "integers, arange, zeros or ones for " + std::string(isa::name(t.dtype)));
    }
    if (s.generator == Generator::kArange) {
      check_whole(what, t.dtype, s.start + static_cast<double>(t.elements()) * s.step);
      check_whole(what, t.dtype, s.start);
    }
  }
  const auto size = static_cast<std::size_t>(isa::size_bytes(t.dtype));
  const std::size_t lanes = isa::is_packed(t.dtype) ? 4 : 1;
  const auto count = static_cast<std::size_t>(t.elements());
  std::vector<std::byte> out(count * size);
  std::vector<double> block;
  for (std::size_t first = 0; first < count; first += kBlock) {
    block.resize(std::min(kBlock, count - first) * lanes);
    generate(s, static_cast<std::int64_t>(first * lanes), block.size(), block.data());
    store(t.dtype, block, out.data() + first * size);
  }
  return out;
}

std::vector<std::byte> from_values(const isa::Tensor& t, const DataSource& s,
                                   const std::string& what) {
  const std::size_t lanes = isa::is_packed(t.dtype) ? 4 : 1;
  const std::size_t count = static_cast<std::size_t>(t.elements()) * lanes;
  std::vector<double> values = s.values;
  if (values.size() == 1) values.assign(count, s.values.front());
  if (values.size() != count) {
    isa::fail(isa::Rule::array_shape, what, std::to_string(values.size()) + " values",
              "one value or " + std::to_string(count));
  }
  if (isa::is_integer(t.dtype)) {
    for (const double v : values) check_whole(what, t.dtype, v);
  }
  std::vector<std::byte> out(static_cast<std::size_t>(t.elements() * isa::size_bytes(t.dtype)));
  store(t.dtype, values, out.data());
  return out;
}

std::string list_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t s : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(s);
  return text + "]";
}

std::vector<std::byte> from_array(const isa::Tensor& t, const NpyArray& array,
                                  const std::string& what) {
  if (array.shape != t.shape) {
    isa::fail(isa::Rule::array_shape, what, "given an array of shape " + list_shape(array.shape),
              list_shape(t.shape));
  }
  return to_dtype(array, t.dtype, what);
}

std::uint64_t size_limit_for(const isa::Tensor& t) { return npy_bytes(t.elements(), t.dtype); }

const isa::Tensor& input_named(const isa::Program& program, const std::string& name) {
  const std::uint32_t* id = program.find_tensor(name);
  const bool input = id != nullptr && program.tensor(*id).role != isa::TensorRole::kInternal &&
                     program.tensor(*id).role != isa::TensorRole::kOutput;
  if (!input)
    isa::fail(isa::Rule::unknown_tensor, "input " + name, "given",
              "the name of an input tensor of the trace");
  return program.tensor(*id);
}

constexpr std::string_view kRank = "{rank}";

std::string with_rank(std::string text, int rank) {
  for (std::size_t at = text.find(kRank); at != std::string::npos; at = text.find(kRank)) {
    text.replace(at, kRank.size(), std::to_string(rank));
  }
  return text;
}

std::filesystem::path data_file(const DataSource& source, const std::string& what,
                                const LoadOptions& options) {
  std::vector<std::filesystem::path> roots = options.roots;
  roots.insert(roots.end(), {options.folder, "."});
  const std::filesystem::path file = options.folder / with_rank(source.file, options.rank);
  std::error_code ec;
  if (!std::filesystem::exists(file, ec))
    isa::fail(isa::Rule::file_unreadable, what + ": " + file.string() + " cannot be opened");
  if (const auto found = PermittedFiles(roots).find(file)) return *found;
  isa::fail(isa::Rule::data_outside, what, "data in " + source.file,
            "a regular file below the trace's folder, the working folder or a --root");
}

DataSource for_rank(DataSource source, int rank) {
  if (source.per_rank) source.seed += rank;
  return source;
}

}  // namespace

bool differs_by_rank(const DataSource& source) {
  return source.per_rank || source.file.find(kRank) != std::string::npos ||
         source.key.find(kRank) != std::string::npos;
}

void generate(const DataSource& s, std::int64_t first, std::size_t count, double* out) {
  const auto seed = static_cast<std::uint64_t>(s.seed);
  const bool integers = s.generator == Generator::kIntegers;
  const std::int64_t low = integers ? static_cast<std::int64_t>(s.low) : 0;
  const std::uint64_t span = integers ? static_cast<std::uint64_t>(s.high - s.low) : 1;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t i = static_cast<std::uint64_t>(first) + k;
    switch (s.generator) {
      case Generator::kUniform:
        out[k] = s.low + (s.high - s.low) * uniform(seed, i);
        break;
      case Generator::kNormal:
        out[k] = s.mean + s.scale * normal(seed, i);
        break;
      case Generator::kArange:
        out[k] = s.start + static_cast<double>(i) * s.step;
        break;
      case Generator::kIntegers:
        out[k] = static_cast<double>(low + static_cast<std::int64_t>(splitmix64(seed, i) % span));
        break;
      case Generator::kZeros:
        out[k] = 0;
        break;
      case Generator::kOnes:
        out[k] = 1;
        break;
    }
  }
}

std::vector<std::byte> tensor_bytes(const isa::Tensor& tensor, const DataSource& source,
                                    const LoadOptions& options) {
  const std::string what = "tensor " + tensor.name;
  switch (source.kind) {
    case DataSource::Kind::kNone:
      break;
    case DataSource::Kind::kNpy:
      return from_array(tensor, read_npy(data_file(source, what, options), size_limit_for(tensor)),
                        what);
    case DataSource::Kind::kNpz:
      return from_array(tensor,
                        read_npz(data_file(source, what, options),
                                 with_rank(source.key, options.rank), size_limit_for(tensor)),
                        what);
    case DataSource::Kind::kGenerator:
      return generated(tensor, for_rank(source, options.rank), what);
    case DataSource::Kind::kValues:
      return from_values(tensor, source, what);
  }
  isa::fail(isa::Rule::trace_data, what, "an input without data",
            "\"data\" in the trace or an array on the command line");
}

NpySizeLimit input_size_limit(const isa::Program& program) {
  return [&program](const std::string& name) {
    return std::optional(size_limit_for(input_named(program, name)));
  };
}

namespace {

// Calls fn(id, bytes) for every tensor that has data before the program starts.
template <typename Fn>
void each_input(const isa::Program& program, const std::vector<DataSource>& sources,
                const LoadOptions& options, Fn&& fn) {
  for (const auto& [name, array] : options.inputs) (void)input_named(program, name);
  static const DataSource kNoData;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (t.role == isa::TensorRole::kInternal || t.role == isa::TensorRole::kOutput) continue;
    if (options.done.count(t.name) != 0) continue;
    const auto given = options.inputs.find(t.name);
    const bool is_given = given != options.inputs.end();
    const DataSource& source = id < sources.size() ? sources[id] : kNoData;
    if (!is_given && source.kind == DataSource::Kind::kNone && options.allow_missing) continue;
    fn(id, !is_given && differs_by_rank(source), [&, is_given](int rank) {
      LoadOptions of_rank{.folder = options.folder, .roots = options.roots, .rank = rank};
      return is_given ? from_array(t, given->second, "tensor " + t.name)
                      : tensor_bytes(t, source, of_rank);
    });
  }
}

}  // namespace

void load_inputs(const isa::Program& program, const std::vector<DataSource>& sources,
                 isa::Memory& memory, const LoadOptions& options) {
  each_input(program, sources, options, [&](std::uint32_t id, bool, const auto& bytes) {
    (void)memory.hbm(id);  // whether it fits is said before any value is made
    memory.load(id, bytes(options.rank));
  });
}

void load_ranks(const isa::Program& program, const std::vector<DataSource>& sources,
                const std::vector<std::unique_ptr<isa::Memory>>& memories, LoadOptions options) {
  each_input(program, sources, options, [&](std::uint32_t id, bool differs, const auto& bytes) {
    if (differs) {
      for (std::size_t r = 0; r < memories.size(); ++r) {
        (void)memories[r]->hbm(id);
        memories[r]->load(id, bytes(static_cast<int>(r)));
      }
      return;
    }
    const isa::Tensor& t = program.tensor(id);
    memories.front()->require_memory(t.elements() * isa::size_bytes(t.dtype), "tensor " + t.name);
    const isa::SharedBytes shared(bytes(0));
    for (const auto& memory : memories) memory->load(id, shared);
  });
}

}  // namespace nkisim
