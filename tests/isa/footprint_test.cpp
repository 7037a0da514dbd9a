// Tests the computation of the bytes that operands touch, and of their overlap.
#include "isa/program/footprint.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using namespace nkisim::isa;

namespace {

isa::Footprint make(std::int64_t first, std::int64_t run, std::vector<isa::Footprint::Dim> dims,
                    int partition = 0, int partitions = 128) {
  isa::Footprint f;
  f.first = first;
  f.run = run;
  f.last = first + run;
  f.partition = partition;
  f.partition_end = partition + partitions;
  for (const auto& d : dims) {
    f.dims.at(static_cast<std::size_t>(f.dim_count++)) = d;
    f.last += d.stride * (d.count - 1);
  }
  return f;
}

std::set<std::int64_t> bytes(const isa::Footprint& f) {
  std::set<std::int64_t> starts = {f.first}, all;
  for (int i = 0; i < f.dim_count; ++i) {
    std::set<std::int64_t> next;
    const auto& d = f.dims.at(static_cast<std::size_t>(i));
    for (const auto s : starts) {
      for (std::int64_t k = 0; k < d.count; ++k) next.insert(s + k * d.stride);
    }
    starts = next;
  }
  for (const auto s : starts) {
    for (std::int64_t b = 0; b < f.run; ++b) all.insert(s + b);
  }
  return all;
}

}  // namespace

TEST_CASE("halves of a tile do not overlap") {
  CHECK_FALSE(may_overlap(make(0, 1024, {}), make(1024, 1024, {})));
  CHECK(may_overlap(make(0, 1025, {}), make(1024, 1024, {})));
  CHECK_FALSE(may_overlap(make(0, 64, {}, 0, 64), make(0, 64, {}, 64, 64)));
  // interleaved even and odd elements of 2 bytes
  CHECK_FALSE(may_overlap(make(0, 2, {{4, 256}}), make(2, 2, {{4, 256}})));
  CHECK(may_overlap(make(0, 2, {{4, 256}}), make(1, 2, {{4, 256}})));
  // column blocks of a row-major matrix with 8 KiB rows
  CHECK_FALSE(may_overlap(make(0, 2048, {{8192, 128}}), make(2048, 2048, {{8192, 128}})));
  CHECK(may_overlap(make(0, 2049, {{8192, 128}}), make(2048, 2048, {{8192, 128}})));
}

TEST_CASE("a register moves a footprint by elements") {
  test::ProgramBuilder b("trn2");
  const auto t = b.sbuf("t", isa::Dtype::kFloat32, {128, 64});
  const isa::DynamicOffset offset{.reg = 3, .stride = 8};
  const isa::TensorRef* ref = b.view(t, {{1, 4}}, 2, 0, 1, b.program().add_dynamic(offset));
  isa::CoreState state;
  state.set_reg(3, 5);
  isa::Footprint f;
  find_footprint(*ref, b.program(), state, f);
  const std::int64_t tile = b.program().tensor(*ref).address;
  CHECK(f.first - tile == (2 + 5 * 8) * 4);
  CHECK(f.last - f.first == 4 * 4);
}

TEST_CASE("overlap is never denied where bytes are shared") {
  std::mt19937 random(7);
  const auto pick = [&] {
    std::vector<isa::Footprint::Dim> dims;
    for (unsigned i = 0; i < random() % 3; ++i) {
      dims.push_back({1 + static_cast<std::int64_t>(random() % 24),
                      2 + static_cast<std::int64_t>(random() % 4)});
    }
    return make(static_cast<std::int64_t>(random() % 40),
                1 + static_cast<std::int64_t>(random() % 5), dims);
  };
  int separated = 0;
  for (int i = 0; i < 20000; ++i) {
    const isa::Footprint a = pick(), b = pick();
    const auto x = bytes(a), y = bytes(b);
    const bool shared = std::any_of(x.begin(), x.end(), [&](auto v) { return y.count(v) != 0; });
    if (shared) CHECK(may_overlap(a, b));
    if (!may_overlap(a, b)) ++separated;
  }
  CHECK(separated > 1000);
}
