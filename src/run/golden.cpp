// Reads reference arrays and compares a program's output tensors with them.

#include "src/run/golden.hpp"

#include <algorithm>

namespace nkisim {
namespace {

// The expected numbers of a tensor, of any NumPy type; raw arrays have the tensor's own dtype.
// `kept` holds converted bytes.
Numbers expected_numbers(const isa::Tensor& tensor, const NpyArray& want,
                         std::vector<std::byte>& kept) {
  const std::string what = "expected " + tensor.name;
  const auto dtype = dtype_of(want);
  const bool numbers = dtype && (isa::is_integer(*dtype) || *dtype == isa::Dtype::kFloat32);
  if (want.descr == "<f8" || (numbers && !isa::is_packed(tensor.dtype))) {
    if (numbers) return {dtype, want.data};
    return {std::nullopt, want.data};
  }
  kept = to_dtype(want, tensor.dtype, what);
  return {tensor.dtype, kept};
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
                       const NpyArray& want, const Tolerance& tolerance) {
  std::vector<std::byte> kept;
  const Numbers x{tensor.dtype, got}, y = expected_numbers(tensor, want, kept);
  const std::vector<std::int64_t> shape = shape_of(tensor, want);
  if (want.shape != shape || x.count() != y.count()) {
    isa::fail(isa::Rule::array_shape, "expected " + tensor.name,
              "of shape " + shape_text(want.shape), shape_text(shape));
  }
  return {compare(x, y, tolerance), tensor.name};
}

}  // namespace

std::vector<Comparison> compare(const isa::Program& program, isa::Memory& memory,
                                const std::map<std::string, NpyArray>& golden,
                                const Tolerance& tolerance) {
  if (golden.empty())
    isa::fail(isa::Rule::expected_array, "what is expected", "no array",
              "an array for each output");
  std::vector<Comparison> rows;
  for (const auto& [key, want] : golden) {
    std::uint32_t id = 0;
    const isa::Tensor& tensor = expected_tensor(program, key, id);
    rows.push_back(compare_one(tensor, memory.read(id), want, tolerance));
  }
  return rows;
}

std::vector<std::string> left_out(const isa::Program& program,
                                  const std::map<std::string, NpyArray>& golden) {
  std::vector<std::string> names;
  for (const isa::Tensor& t : program.tensors()) {
    if (is_output(t) && golden.count(t.name) == 0) {
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
  return std::all_of(rows.begin(), rows.end(), [](const Comparison& row) { return row.equal; });
}

std::vector<std::pair<std::string, NpyArray>> output_arrays(const isa::Program& program,
                                                            isa::Memory& memory) {
  std::vector<std::pair<std::string, NpyArray>> arrays;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (is_output(t)) {
      arrays.emplace_back(t.name, make_array(t.dtype, t.shape, memory.read(id)));
    }
  }
  return arrays;
}

}  // namespace nkisim
