#include "src/run/golden.hpp"

#include <algorithm>
#include <cmath>

namespace nkisim {
namespace {

bool is_output(isa::TensorRole role) {
  return role == isa::TensorRole::kOutput || role == isa::TensorRole::kInputOutput;
}

// Element bytes as doubles; NumPy alone has no bfloat16 or fp8, so the tensor's dtype decides.
std::vector<double> values(isa::Dtype dtype, const std::vector<std::byte>& bytes) {
  if (isa::is_integer(dtype)) {  // exact beyond 24 bits
    const auto count = static_cast<std::int64_t>(bytes.size()) / isa::size_bytes(dtype);
    return to_doubles(make_array(dtype, {count}, bytes), "output");
  }
  const std::size_t n = bytes.size() / static_cast<std::size_t>(isa::size_bytes(dtype));
  std::vector<float> floats(n * (isa::is_packed(dtype) ? 4 : 1));
  isa::decode(dtype, bytes.data(), n, floats.data());
  return {floats.begin(), floats.end()};
}

// Numbers of any NumPy type; raw arrays hold the tensor's own dtype.
std::vector<double> expected_values(const isa::Tensor& tensor, const NpyArray& want) {
  const std::string what = "expected " + tensor.name;
  const auto dtype = dtype_of(want);
  const bool numbers = dtype && (isa::is_integer(*dtype) || *dtype == isa::Dtype::kFloat32);
  if (want.descr == "<f8" || (numbers && !isa::is_packed(tensor.dtype)))
    return to_doubles(want, what);
  return values(tensor.dtype, to_dtype(want, tensor.dtype, what));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// The shape an expected array must have: four numbers where they are not packed into an element.
std::vector<std::int64_t> shape_of(const isa::Tensor& tensor, const NpyArray& want) {
  std::vector<std::int64_t> shape = tensor.shape;
  if (isa::is_packed(tensor.dtype) && want.descr == "<f8") shape.back() *= 4;
  return shape;
}

const isa::Tensor& expected_tensor(const isa::Program& program, const std::string& key,
                                   std::uint32_t& id) {
  const std::uint32_t* found = program.find_tensor(key);
  if (found == nullptr || program.tensor(*found).space != isa::Space::kHbm) {
    isa::fail(isa::Rule::expected_array,
              "expected array " + key + " names no HBM tensor of the program");
  }
  id = *found;
  return program.tensor(id);
}

Comparison compare_one(const isa::Tensor& tensor, const std::vector<std::byte>& got,
                       const NpyArray& want, double rtol, double atol) {
  const std::vector<double> x = values(tensor.dtype, got);
  const std::vector<double> y = expected_values(tensor, want);
  const std::vector<std::int64_t> shape = shape_of(tensor, want);
  if (want.shape != shape || x.size() != y.size()) {
    isa::fail(isa::Rule::array_shape, "expected " + tensor.name,
              "of shape " + shape_text(want.shape), shape_text(shape));
  }
  Comparison row{.tensor = tensor.name, .elements = static_cast<std::int64_t>(x.size())};
  double worst = -1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    const double error = same ? 0 : std::abs(x[i] - y[i]);
    const double tolerance = std::isfinite(y[i]) ? atol + rtol * std::abs(y[i]) : 0;
    const bool match = same || error <= tolerance;  // a NaN error matches nothing
    if (!match) ++row.mismatches;
    if (std::isfinite(error)) {
      row.max_abs_error = std::max(row.max_abs_error, error);
      if (y[i] != 0) row.max_rel_error = std::max(row.max_rel_error, error / std::abs(y[i]));
    }
    const double badness = std::isfinite(error) ? error / (tolerance + 1e-300) : HUGE_VAL;
    if (badness > worst) {
      worst = badness;
      row.worst = static_cast<std::int64_t>(i);
      row.got = x[i];
      row.expected = y[i];
    }
  }
  return row;
}

}  // namespace

std::vector<Comparison> compare(const isa::Program& program, isa::Memory& memory,
                                const std::map<std::string, NpyArray>& golden, double rtol,
                                double atol) {
  if (golden.empty())
    isa::fail(isa::Rule::expected_array, "what is expected", "no array",
              "an array for each output");
  std::vector<Comparison> rows;
  for (const auto& [key, want] : golden) {
    std::uint32_t id = 0;
    const isa::Tensor& tensor = expected_tensor(program, key, id);
    rows.push_back(compare_one(tensor, memory.read(id), want, rtol, atol));
  }
  return rows;
}

std::vector<std::string> left_out(const isa::Program& program,
                                  const std::map<std::string, NpyArray>& golden) {
  std::vector<std::string> names;
  for (const isa::Tensor& t : program.tensors()) {
    if (t.space == isa::Space::kHbm && is_output(t.role) && golden.count(t.name) == 0) {
      names.push_back(t.name);
    }
  }
  return names;
}

std::map<std::string, NpyArray> read_golden(const isa::Program& program,
                                            const std::filesystem::path& path) {
  return read_npz(path, [&program](const std::string& key) {
    std::uint32_t id = 0;
    const isa::Tensor& tensor = expected_tensor(program, key, id);
    return std::optional(npy_bytes(tensor.elements(), tensor.dtype));
  });
}

bool all_match(const std::vector<Comparison>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const Comparison& row) { return row.mismatches == 0; });
}

std::vector<std::pair<std::string, NpyArray>> output_arrays(const isa::Program& program,
                                                            isa::Memory& memory) {
  std::vector<std::pair<std::string, NpyArray>> arrays;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (t.space == isa::Space::kHbm && is_output(t.role)) {
      arrays.emplace_back(t.name, make_array(t.dtype, t.shape, memory.read(id)));
    }
  }
  return arrays;
}

}  // namespace nkisim
