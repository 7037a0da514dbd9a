// Tests MX products with never-written (undefined) inputs: padding that meets zeros, unused scales.
#include <catch2/catch.hpp>
#include <cmath>

#include "isa/machine/undefined.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using PB = test::ProgramBuilder;

namespace {

// K is 64, of which the second quadrant of `stationary` is unwritten padding; `moving` is 1
// in the first quadrant and zero in the second. M is 2, N is 4.
struct Product {
  explicit Product(Dtype dtype = Dtype::kFloat8E4m3fnX4, std::int64_t scale_rows = 64)
      : b("trn3"),
        st(b.sbuf("st", dtype, {64, 2})),
        mv(b.sbuf("mv", Dtype::kFloat4E2m1fnX4, {64, 4})),
        ss(b.sbuf("ss", Dtype::kUint8, {scale_rows, 2})),
        ms(b.sbuf("ms", Dtype::kUint8, {64, 4})),
        d(b.psum("d", Dtype::kFloat32, {2, 4})),
        y(b.tensor("y", isa::Space::kHbm, Dtype::kFloat32, {2, 4})) {
    b.program().set_role(y, isa::TensorRole::kOutput);
    fill(st, 0, 32, 0x38383838);  // e4m3fn: ones
    for (const int row : {0, 32}) fill(ms, row, 4, 127);
    fill(ss, 0, 4, 127);
    std::vector<float> ones(64 * 4 * 4, 0.0F);
    std::fill_n(ones.begin(), 32 * 4 * 4, 1.0F);
    b.set(mv, ones);
  }
  // Writes the same bits to all elements of some rows.
  void fill(std::uint32_t id, int row, int rows, int bits, int columns = 0) {
    const isa::Tensor& t = b.program().tensor(id);
    const int width = columns != 0 ? columns : static_cast<int>(t.elements() / t.shape[0]);
    const isa::TensorRef* rows_of = b.view(id, {{1, width}}, 0, row, rows);
    const Dtype as = isa::size_bytes(t.dtype) == 4 ? Dtype::kInt32 : Dtype::kUint8;
    b.op("memset", {{"dst", PB::arg(b.as(rows_of, as))}, {"value", PB::arg(bits)}});
  }
  void run(bool accumulate = false) {
    b.op("nc_matmul_mx", {{"dst", PB::arg(b.all(d))},
                          {"stationary", PB::arg(b.all(st))},
                          {"moving", PB::arg(b.all(mv))},
                          {"stationary_scale", PB::arg(b.all(ss))},
                          {"moving_scale", PB::arg(b.all(ms))},
                          {"accumulate", PB::arg(accumulate)}});
    const auto copy = b.sbuf("copy", Dtype::kFloat32, {2, 4});
    b.op("tensor_copy", {{"dst", PB::arg(b.all(copy))}, {"src", PB::arg(b.all(d))}});
    b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(copy))}});
    isa::InterpretOptions options;
    options.conditions.warn = [&](const isa::Error& e) { warnings.push_back(e.message()); };
    try {
      b.run(options);
    } catch (const isa::Error& e) {
      errors.push_back(e.message());
    }
  }
  PB b;
  std::uint32_t st, mv, ss, ms, d, y;
  std::vector<std::string> warnings, errors;
};

const std::vector<float> kSum(8, 128.0F);  // 32 partitions x 4 values, 1 x 1 each

}  // namespace

TEST_CASE("padding that meets zeros does no harm unless it is NaN or infinite") {
  const Dtype dtype = GENERATE(Dtype::kFloat8E4m3fnX4, Dtype::kFloat8E5m2X4);
  Product p(dtype);
  if (dtype == Dtype::kFloat8E5m2X4) p.fill(p.st, 0, 32, 0x3c3c3c3c);  // ones
  SECTION("data and scale") { p.run(); }
  SECTION("data alone") {
    p.fill(p.ss, 32, 4, 127);
    p.run();
  }
  CHECK(p.errors.empty());
  CHECK(p.b.get(p.y) == kSum);
  REQUIRE(p.warnings.size() == 1);
  CHECK_THAT(p.warnings[0], Catch::Contains("multiplies undefined elements by zeros"));
  CHECK_THAT(p.warnings[0], Catch::Contains("tensor st on partition 32") ||
                                Catch::Contains("tensor ss on partition 32"));
}

TEST_CASE("padding that meets another value is undefined") {
  Product p;
  SECTION("in one column of moving") {
    std::vector<float> moving(64 * 4 * 4, 0.0F);
    std::fill_n(moving.begin(), 32 * 4 * 4, 1.0F);
    moving[(40 * 4 + 2) * 4 + 1] = 0.5F;
    p.b.set(p.mv, moving);
    p.run();
    REQUIRE(p.errors.size() == 1);
    CHECK_THAT(p.errors[0], Catch::Contains("undefined in 2 of 8 elements, first at [0, 2]"));
    const auto y = p.b.get(p.y);
    CHECK(std::isnan(y[2]));
    CHECK(y[1] == 128.0F);
  }
  SECTION("an undefined scale of defined data") {
    p.fill(p.st, 32, 32, 0x38383838);
    std::vector<float> moving(64 * 4 * 4, 1.0F);
    p.b.set(p.mv, moving);
    p.run();
    REQUIRE(p.errors.size() == 1);
    CHECK_THAT(p.errors[0], Catch::Contains("undefined in 8 of 8 elements"));
    CHECK(p.warnings.empty());
  }
  SECTION("a sum onto what was never written") {
    p.fill(p.st, 32, 32, 0x38383838);
    p.fill(p.ss, 32, 4, 127);
    p.run(true);
    REQUIRE(p.errors.size() == 1);
    CHECK(p.warnings.empty());
  }
}

TEST_CASE("rows of a scale tile that no group has are not read") {
  Product p(Dtype::kFloat8E4m3fnX4, 128);
  p.fill(p.st, 32, 32, 0x38383838);
  p.fill(p.ss, 32, 4, 127);  // rows 4 to 31 and 36 to 127 hold nothing
  p.run();
  CHECK(p.errors.empty());
  CHECK(p.warnings.empty());
  CHECK(p.b.get(p.y) == kSum);
}
