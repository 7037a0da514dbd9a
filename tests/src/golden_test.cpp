// Comparing outputs with expected arrays, for the dtypes that NumPy has and those it lacks.
#include "src/run/golden.hpp"

#include <catch2/catch.hpp>
#include <cstring>

namespace {

using namespace nkisim;

/// One row for an output tensor of `dtype` holding `bytes`, against `want`.
template <typename T>
Comparison compare_with(isa::Dtype dtype, const std::vector<T>& elements, const NpyArray& want,
                        double rtol = 0, double atol = 0) {
  isa::Program program(*isa::find_machine("trn2"));
  isa::Tensor tensor;
  tensor.name = "y";
  tensor.dtype = dtype;
  tensor.role = isa::TensorRole::kOutput;
  tensor.shape = {static_cast<std::int64_t>(elements.size())};
  const std::uint32_t id = program.add_tensor(tensor);
  isa::Memory memory(program);
  memory.load(id, std::as_bytes(std::span(elements)));
  return compare(program, memory, {{"y", want}}, rtol, atol).at(0);
}

template <typename T>
NpyArray array_of(const std::string& descr, const std::vector<T>& elements) {
  NpyArray array{.descr = descr, .shape = {static_cast<std::int64_t>(elements.size())}, .data = {}};
  array.data.resize(elements.size() * sizeof(T));
  std::memcpy(array.data.data(), elements.data(), array.data.size());
  return array;
}

}  // namespace

TEST_CASE("bfloat16 outputs are compared as numbers") {
  const std::vector<std::uint16_t> got = {0x3f80, 0xc040, 0x7f80};  // 1, -3, inf
  const auto numbers = array_of<float>("<f4", {1.0F, -3.0F, INFINITY});
  CHECK(compare_with(isa::Dtype::kBfloat16, got, numbers).mismatches == 0);
  CHECK(compare_with(isa::Dtype::kBfloat16, got, array_of("<V2", got)).mismatches == 0);
  const auto near = array_of<float>("<f4", {1.001F, -3.5F, INFINITY});
  const Comparison row = compare_with(isa::Dtype::kBfloat16, got, near, 0.01);
  CHECK(row.mismatches == 1);
  CHECK(row.worst == 1);
  CHECK(row.got == -3.0);
  CHECK(row.expected == -3.5);
}

TEST_CASE("32-bit integers are compared exactly") {
  const std::vector<std::int32_t> got = {-16777217, 2147483647};
  CHECK(compare_with(isa::Dtype::kInt32, got, array_of("<i4", got)).mismatches == 0);
  const std::vector<std::int32_t> off = {-16777216, 2147483647};
  CHECK(compare_with(isa::Dtype::kInt32, got, array_of("<i4", off)).mismatches == 1);
  const std::vector<std::uint32_t> large = {4294967295U};
  CHECK(compare_with(isa::Dtype::kUint32, large, array_of("<u4", large)).mismatches == 0);
}

TEST_CASE("an expected array of another size or name is an error") {
  const std::vector<float> got = {1.0F};
  const auto two = array_of<float>("<f4", {1.0F, 2.0F});
  CHECK_THROWS_AS(compare_with(isa::Dtype::kFloat32, got, two), isa::Error);
}

TEST_CASE("an expected array of another shape is an error") {
  const std::vector<float> got = {1.0F, 2.0F, 3.0F, 4.0F};
  NpyArray want = array_of<float>("<f4", got);
  want.shape = {2, 2};
  CHECK_THROWS_WITH(compare_with(isa::Dtype::kFloat32, got, want),
                    Catch::Matchers::Contains("of shape [2, 2]; [4] is required"));
}

TEST_CASE("nothing to compare with is an error") {
  isa::Program program(*isa::find_machine("trn2"));
  isa::Memory memory(program);
  CHECK_THROWS_WITH(compare(program, memory, {}, 0, 0), Catch::Matchers::Contains("no array"));
}

TEST_CASE("outputs without an expected array are named") {
  isa::Program program(*isa::find_machine("trn2"));
  const auto add = [&](const char* name, isa::TensorRole role) {
    isa::Tensor t;
    t.name = name;
    t.role = role;
    t.shape = {1};
    program.add_tensor(t);
  };
  add("x", isa::TensorRole::kInput);
  add("y", isa::TensorRole::kOutput);
  add("z", isa::TensorRole::kInputOutput);
  add("scratch", isa::TensorRole::kInternal);
  CHECK(left_out(program, {}) == std::vector<std::string>{"y", "z"});
  CHECK(left_out(program, {{"z", {}}}) == std::vector<std::string>{"y"});
}
