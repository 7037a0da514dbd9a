// Tests rules on operands that another rule usually reports first.
#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using PB = test::ProgramBuilder;
using Catch::Matchers::Contains;

namespace {

std::string iota(const isa::IntList& pattern) {
  PB b;
  const auto* dst = b.all(b.sbuf("dst", Dtype::kInt32, {4, 16}));
  return PB::error_of([&] { b.op("iota", {{"dst", PB::arg(dst)}, {"pattern", b.list(pattern)}}); });
}

// Over the axes of a tile [4 x 2 x 3], whose result has as many elements as are left.
std::string reduce(const isa::IntList& axis, std::int64_t left) {
  PB b;
  const auto tile = b.sbuf("data", Dtype::kFloat32, {4, 6});
  const auto* data = b.view(tile, {{3, 2}, {1, 3}});
  const auto* dst = b.all(b.sbuf("dst", Dtype::kFloat32, {4, left}));
  return PB::error_of([&] {
    b.op("tensor_reduce", {{"dst", PB::arg(dst)},
                           {"op", PB::arg(isa::AluOp::kAdd)},
                           {"data", PB::arg(data)},
                           {"axis", b.list(axis)}});
  });
}

std::string random(std::vector<std::int64_t> shape, const char* tensor, const char* constant,
                   double value) {
  PB b("trn3");  // the first that has it
  const auto* dst = b.all(b.sbuf("dst", Dtype::kFloat32, {4, 16}));
  const auto* bound = b.all(b.sbuf("bound", Dtype::kFloat32, std::move(shape)));
  return PB::error_of([&] {
    b.op("rand2", {{"dst", PB::arg(dst)}, {tensor, PB::arg(bound)}, {constant, PB::arg(value)}});
  });
}

}  // namespace

TEST_CASE("a pattern's dimensions are of at least one element each") {
  CHECK(iota({1, 16}).empty());
  CHECK(iota({8, 2, 1, 8}).empty());
  CHECK_THAT(iota({1, -2, 1, -8}), Contains("a dimension of -2"));  // which multiply to 16, too
  CHECK_THAT(iota({1, 0}), Contains("a dimension of 0"));
  CHECK_THAT(iota({1, 17}), Contains("a dimension of 17"));
  CHECK_THAT(iota({1, 8}), Contains("8 elements"));
}

TEST_CASE("a reduction is over the last dimensions, without the partitions") {
  CHECK(reduce({2}, 2).empty());
  CHECK(reduce({-1}, 2).empty());
  CHECK(reduce({1, 2}, 1).empty());
  CHECK(reduce({2, 1}, 1).empty());
  for (const isa::IntList& axis : {isa::IntList{}, {0}, {1}, {-2}, {0, 1, 2}, {0, 2}, {1, 1, 2}}) {
    CHECK_THAT(reduce(axis, axis.size() == 3 ? 1 : 3), Contains("the last free dimensions"));
  }
}

TEST_CASE("the bounds of random numbers are constants or a value per partition") {
  CHECK(random({4, 1}, "min", "max", 1.0).empty());
  CHECK(random({4, 1}, "max", "min", 0.0).empty());
  for (const char* bound : {"min", "max"}) {
    const char* other = bound == std::string("min") ? "max" : "min";
    CHECK_THAT(random({2, 1}, bound, other, 0.5), Contains(bound));
    CHECK_THAT(random({4, 2}, bound, other, 0.5), Contains(bound));
  }
}
