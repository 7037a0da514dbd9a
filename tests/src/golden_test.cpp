// Tests the comparison of outputs with expected arrays, for dtypes that NumPy has and others.
#include "src/run/golden.hpp"

#include <catch2/catch.hpp>
#include <cstring>

namespace {

using namespace nkisim;

/// One row for an output tensor of `dtype` holding `bytes`, against `want`.
template <typename T>
Comparison compare_with(isa::Dtype dtype, const std::vector<T>& elements, const NpyArray& want,
                        const Tolerance& tolerance = {.rtol = 0, .atol = 0}) {
  isa::Program program(*isa::find_machine("trn2"));
  isa::Tensor tensor;
  tensor.name = "y";
  tensor.dtype = dtype;
  tensor.role = isa::TensorRole::kOutput;
  tensor.shape = {static_cast<std::int64_t>(elements.size())};
  const std::uint32_t id = program.add_tensor(tensor);
  isa::Memory memory(program);
  memory.load(id, std::as_bytes(std::span(elements)));
  return compare(program, memory, {{"y", want}}, tolerance).at(0);
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
  const Comparison row = compare_with(isa::Dtype::kBfloat16, got, near, {.rtol = 0.01, .atol = 0});
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
  CHECK_THROWS_WITH(compare(program, memory, {}, {}), Catch::Matchers::Contains("no array"));
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

// Comparisons of two numbers that are not finite, by elements and by the whole.
TEST_CASE("a NaN matches a NaN and nothing else, an infinity itself") {
  struct Case {
    float got, want;
    bool equal;
  };
  const std::vector<Case> cases = {
      {NAN, NAN, true},        {NAN, 1.0F, false},         {1.0F, NAN, false},
      {NAN, INFINITY, false},  {INFINITY, INFINITY, true}, {INFINITY, -INFINITY, false},
      {INFINITY, 1.0F, false}, {1.0F, INFINITY, false},    {0.0F, -0.0F, true}};
  for (const Case& c : cases) {
    INFO(c.got << " where " << c.want << " is expected");
    // At the front, within a block's lanes and behind its last whole ones.
    for (const std::size_t at : {0U, 5U, 2047U, 2048U, 2050U}) {
      std::vector<float> got(2051, 2.0F), want(2051, 2.0F);
      got[at] = c.got;
      want[at] = c.want;
      const auto expected = array_of("<f4", want);
      const Comparison each =
          compare_with(isa::Dtype::kFloat32, got, expected, {.rtol = 0.5, .atol = 1e6});
      CHECK(each.equal == c.equal);
      CHECK(each.mismatches == (c.equal ? 0 : 1));
      CHECK(each.first == (c.equal ? -1 : static_cast<std::int64_t>(at)));
      const Comparison whole = compare_with(isa::Dtype::kFloat32, got, expected, {.rel_l2 = 1e6});
      CHECK(whole.equal == c.equal);
    }
  }
}

TEST_CASE("a relative L2 error is of the whole output") {
  // A difference of 0.5 from a vector of length 5.
  const std::vector<float> got = {3.5F, 4.0F, NAN, INFINITY};
  const auto want = array_of<double>("<f8", {3.0, 4.0, NAN, INFINITY});
  const Comparison row = compare_with(isa::Dtype::kFloat32, got, want, {.rel_l2 = 0.1});
  CHECK(row.rel_l2 == 0.1);
  CHECK(row.equal);
  CHECK_FALSE(compare_with(isa::Dtype::kFloat32, got, want, {.rel_l2 = 0.0999}).equal);
  const auto zeros = array_of<float>("<f4", {0.0F, 0.0F});
  const std::vector<float> three_four = {3.0F, -4.0F};
  CHECK(compare_with(isa::Dtype::kFloat32, three_four, zeros, {.rel_l2 = 5}).rel_l2 == 5);
}

TEST_CASE("the worst element, the first and the largest errors are found anywhere") {
  std::vector<float> got(5000, 1.0F), want(5000, 1.0F);
  got[4100] = 1.5F;   // 0.5 off, 5 times the tolerance
  got[4999] = 1.25F;  // 0.25 off of 1
  want[3000] = 0.0F;  // 1 off of nothing: no relative error
  want[10] = 100.0F;  // 99 off of 100
  const Comparison row =
      compare_with(isa::Dtype::kFloat32, got, array_of("<f4", want), {.rtol = 0, .atol = 0.1});
  CHECK(row.mismatches == 4);
  CHECK(row.first == 10);
  CHECK(row.worst == 10);
  CHECK(row.got == 1.0);
  CHECK(row.expected == 100.0);
  CHECK(row.max_abs_error == 99.0);
  CHECK(row.max_rel_error == 0.99);
}
