// Tests groups and rings of ranks that run together, and the memory that ranks share until they
// write.
#include "isa/program/world.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "isa/base/error.hpp"
#include "isa/host/host.hpp"
#include "isa/machine/memory.hpp"

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::byte> bytes_of(std::int64_t count, int value) {
  return std::vector<std::byte>(static_cast<std::size_t>(count), static_cast<std::byte>(value));
}

std::uint32_t add_input(Program& program, const char* name, std::int64_t elements) {
  Tensor t;
  t.name = name;
  t.dtype = Dtype::kUint8;
  t.shape = {elements};
  t.role = TensorRole::kInputOutput;
  return program.add_tensor(std::move(t));
}

}  // namespace

TEST_CASE("groups of ranks are stored one behind the other") {
  const std::vector<std::int64_t> list = {2, 0, kGroupEnd, kGroupEnd, 5, kGroupEnd};
  const auto groups = groups_in(list);
  REQUIRE(groups.size() == 3);
  CHECK(std::vector<std::int64_t>(groups[0].begin(), groups[0].end()) ==
        std::vector<std::int64_t>{2, 0});
  CHECK(groups[1].empty());
  CHECK(groups[2][0] == 5);
}

TEST_CASE("every ring order goes round all ranks of the group") {
  const std::vector<std::int64_t> group = {4, 1, 7, 2, 9, 3};
  for (const char* text : {"group", "reverse", "shuffle", "shuffle:1", "shuffle:4294967295"}) {
    INFO(text);
    const RingOrder order = parse_ring_order(text);
    for (std::int64_t channel = 0; channel < 4; ++channel) {
      const auto ring = ring_of(group, channel, order);
      CHECK(std::is_permutation(ring.begin(), ring.end(), group.begin(), group.end()));
      CHECK(ring == ring_of(group, channel, order));
    }
  }
  CHECK(ring_of(group, 0, {}) == group);
  CHECK(ring_of(group, 0, parse_ring_order("reverse")).front() == 3);
  std::set<std::vector<std::int64_t>> drawn;
  for (std::int64_t channel = 0; channel < 4; ++channel) {
    drawn.insert(ring_of(group, channel, parse_ring_order("shuffle:5")));
  }
  CHECK(drawn.size() > 1);
  for (const char* text :
       {"", "Group", "shuffle:", "shuffle:x", "shuffle:-1", "shuffle:4294967296"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_ring_order(text), Error);
  }
}

TEST_CASE("memories begin with the same bytes and write their own") {
  for (const std::int64_t size : {std::int64_t{16}, std::int64_t{1} << 20}) {
    Program program(*find_machine("trn2"));
    const std::uint32_t id = add_input(program, "x", size);
    Memory a(program), b(program);
    {
      const SharedBytes shared(bytes_of(size, 7));
      a.load(id, shared);
      b.load(id, shared);
    }
    a.hbm(id).data()[size / 2] = std::byte{1};
    CHECK(a.read(id)[static_cast<std::size_t>(size / 2)] == std::byte{1});
    CHECK(b.read(id) == bytes_of(size, 7));
    CHECK(b.bits(id).find_undefined(0, size) == -1);
    CHECK_THROWS_AS(a.load(id, SharedBytes(bytes_of(size + 1, 0))), Error);
  }
}

TEST_CASE("a copy of an output is its holder's", "[world]") {
  constexpr std::int64_t kSize = std::int64_t{8} << 20U;
  Program program(*find_machine("trn2"));
  const std::uint32_t id = add_input(program, "x", kSize);
  Memory memory(program);
  memory.copy_outputs();
  memory.load(id, bytes_of(kSize, 7));
  {
    const Pages copy = memory.copy(id);
    REQUIRE(static_cast<bool>(copy) == host::missing_services().empty());
    if (copy) {
      auto* at = static_cast<std::byte*>(copy.data());
      CHECK(std::equal(at, at + kSize, bytes_of(kSize, 7).begin()));
      at[5] = std::byte{1};
    }
  }
  CHECK(memory.read(id) == bytes_of(kSize, 7));
  Memory other(program);
  other.load(id, bytes_of(kSize, 7));
  CHECK_FALSE(other.copy(id));  // it was not said that it would be wanted
}

TEST_CASE("a fully written tensor keeps no bits until a byte is undefined") {
  Definedness bits(100);
  CHECK(bits.find_undefined(10, 5) == 10);
  CHECK(bits.find_undefined(10, 0) == -1);
  bits.define(0, 100);
  CHECK(bits.find_undefined(0, 100) == -1);
  bits.undefine(40, 4, 3);
  CHECK(bits.find_undefined(0, 100) == 40);
  CHECK(bits.find_undefined(44, 56) == -1);
  CHECK(bits.origin(41) == 3);
  bits.define(40, 4);
  CHECK(bits.find_undefined(0, 100) == -1);
  Definedness part(100);
  part.define(0, 99);
  CHECK(part.find_undefined(0, 100) == 99);
}

TEST_CASE("a fully written tensor is no longer so once a byte is undefined", "[world]") {
  constexpr std::int64_t kSize = 1000;
  Definedness bits(kSize);
  for (std::int64_t row = 0; row < kSize; row += 100) {
    CHECK(bits.find_undefined(0, kSize) == row);
    bits.define(row, 100);
  }
  for (int look = 0; look < 3; ++look) CHECK(bits.find_undefined(0, kSize) == -1);
  bits.define(300, 40);
  bits.undefine(777, 2, 5);
  CHECK(bits.find_undefined(0, kSize) == 777);
  CHECK(bits.find_undefined(0, 777) == -1);
  CHECK(bits.find_undefined(779, kSize - 779) == -1);
  CHECK(bits.origin(777) == 5);
  bits.define(0, kSize);
  CHECK(bits.find_undefined(0, kSize) == -1);
  bits.undefine(0, 1, 6);
  CHECK(bits.find_undefined(0, kSize) == 0);
  CHECK(bits.find_undefined(1, kSize - 1) == -1);
}

TEST_CASE("any bit of many words is found", "[world]") {
  for (std::int64_t hole = 0; hole < 900; ++hole) {
    Definedness bits(900);
    bits.define(0, 900);
    bits.undefine(hole, 1, 1);
    for (const std::int64_t first : {std::int64_t{0}, hole / 2, hole}) {
      CHECK(bits.find_undefined(first, 900 - first) == hole);
      CHECK(bits.find_undefined(first, hole - first) == -1);
    }
  }
}
