// Tests how memory addresses of a device profile become operands, also addresses that no memory
// has.
#include "src/device_profile/profile_addresses.hpp"

#include <catch2/catch.hpp>

namespace nkisim {
namespace {

constexpr std::uint64_t kRow = 0x40000, kPsum = 0x2000000,
                        kDma = 0x802000000000;  // as the profiles print them

struct Map {
  isa::Program program{*isa::find_machine("trn2")};
  AddressMap addresses{program};

  const isa::TensorRef* tensor(std::uint64_t address, int partitions,
                               std::vector<std::int64_t> steps, std::vector<std::int64_t> counts) {
    ProfileTensor t;
    t.address = address;
    t.steps = std::move(steps);
    t.counts = std::move(counts);
    return addresses.make(t, isa::Dtype::kFloat32, partitions, 0);
  }
};

TEST_CASE("an operand on chip is where its address says") {
  Map map;
  const auto* sbuf = map.tensor(5 * kRow + 64, 8, {1}, {16});
  REQUIRE(sbuf != nullptr);
  CHECK(sbuf->space == isa::Space::kSbuf);
  CHECK(sbuf->partition == 5);
  CHECK(sbuf->partitions == 8);
  CHECK(sbuf->offset == 64);
  CHECK(sbuf->columns() == 16);
  const auto* psum = map.tensor(kPsum + 32 * kRow + 8, 96, {1, 4}, {4, 2});
  REQUIRE(psum != nullptr);
  CHECK(psum->space == isa::Space::kPsum);
  CHECK(psum->partition == 32);
  CHECK(psum->rows() == 96);
  CHECK(psum->columns() == 8);
}

TEST_CASE("an operand has partitions that the machine has") {
  Map map;
  CHECK(map.tensor(0, 1, {1}, {4}) != nullptr);
  CHECK(map.tensor(0, 128, {1}, {4}) != nullptr);
  CHECK(map.tensor(120 * kRow, 8, {1}, {4}) != nullptr);
  CHECK(map.tensor(0, 0, {1}, {4}) == nullptr);
  CHECK(map.tensor(0, -1, {1}, {4}) == nullptr);
  CHECK(map.tensor(0, 129, {1}, {4}) == nullptr);
  CHECK(map.tensor(120 * kRow, 9, {1}, {4}) == nullptr);
  CHECK(map.tensor(127 * kRow, 2, {1}, {4}) == nullptr);
}

TEST_CASE("an operand lies within its partitions") {
  Map map;
  const std::int64_t bytes = isa::find_machine("trn2")->sbuf_partition_bytes;
  const auto last = static_cast<std::uint64_t>(bytes - 64);
  CHECK(map.tensor(last, 1, {1}, {16}) != nullptr);
  CHECK(map.tensor(last, 1, {1}, {17}) == nullptr);
  CHECK(map.tensor(last, 1, {2}, {8}) != nullptr);
  CHECK(map.tensor(last, 1, {2}, {9}) == nullptr);
  CHECK(map.tensor(60, 1, {-1}, {16}) != nullptr);
  CHECK(map.tensor(60, 1, {-1}, {17}) == nullptr);
  CHECK(map.tensor(0, 1, {1}, {0}) == nullptr);
  CHECK(map.tensor(0, 1, {1}, {-4}) == nullptr);
  CHECK(map.tensor(0, 1, {std::int64_t{1} << 40}, {4}) == nullptr);
}

TEST_CASE("one dimension of a DMA walks over partitions") {
  Map map;
  ProfileDmaSide side;
  side.given = true;
  side.address = kDma + 3 * kRow + 16;
  side.element_bytes = 4;
  side.steps = {static_cast<std::int64_t>(kRow), 8};
  side.counts = {16, 5};
  const auto* ref = map.addresses.make(side, 0);
  REQUIRE(ref != nullptr);
  CHECK(ref->space == isa::Space::kSbuf);
  CHECK(ref->partition == 3);
  CHECK(ref->partitions == 16);
  CHECK(ref->offset == 16);
  CHECK(ref->columns() == 5 * 4);  // in bytes
  side.address = kDma + 113 * kRow;
  CHECK(map.addresses.make(side, 0) == nullptr);
  side.given = false;
  side.address = kDma;
  CHECK(map.addresses.make(side, 0) == nullptr);
}

TEST_CASE("an address outside of the chip becomes a tensor of the sizes seen") {
  Map map;
  ProfileDmaSide side;
  side.given = true;
  side.address = 4096;
  side.element_bytes = 256;
  side.steps = {1024};
  side.counts = {8};
  CHECK(map.addresses.make(side, 0) == nullptr);
  map.addresses.note(side);
  map.addresses.declare();
  const auto* ref = map.addresses.make(side, 0);
  REQUIRE(ref != nullptr);
  CHECK(ref->space == isa::Space::kHbm);
  CHECK(map.program.tensor(ref->tensor).extent_bytes() == 7 * 1024 + 256);
  side.counts = {0};
  CHECK(map.addresses.make(side, 0) == nullptr);
}

}  // namespace
}  // namespace nkisim
