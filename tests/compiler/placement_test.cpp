// Tests how the compiler assigns addresses and partitions to tensors: by hand, and by general
// rules.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "compiler/placement/allocator.hpp"
#include "compiler/placement/packing.hpp"

using namespace nkisim::compiler;

namespace {

using Addresses = std::map<std::uint32_t, std::int64_t>;

Addresses addresses(const Placing& placing) {
  const auto& placed = std::get<Placement>(placing).addresses;
  return {placed.begin(), placed.end()};
}

std::vector<Item> random_items(std::mt19937& random, bool bank) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<Item> items;
  for (std::uint32_t id = 0; id < static_cast<std::uint32_t>(pick(1, 40)); ++id) {
    const std::int64_t start = pick(0, 60);
    Item item{id, bank ? pick(1, 3000) : pick(1, 900), start, start + pick(0, 30)};
    if (pick(0, 9) == 0) item.address = pick(0, 2000);
    items.push_back(item);
  }
  return items;
}

// No two that live at a time share a byte, unless both addresses were given.
void check_apart(const std::vector<Item>& items, const Addresses& at) {
  for (const Item& a : items) {
    if (a.fixed()) CHECK(at.at(a.id) == a.address);
    if (!a.fixed()) CHECK(at.at(a.id) >= 0);
    for (const Item& b : items) {
      if (a.id >= b.id || !a.meets(b) || (a.fixed() && b.fixed())) continue;
      CHECK((at.at(a.id) + a.bytes <= at.at(b.id) || at.at(b.id) + b.bytes <= at.at(a.id)));
    }
  }
}

}  // namespace

TEST_CASE("the space that has been free longest is taken first", "[placement]") {
  // Four tiles of 64 bytes, two at a time: each begins where the one before ended, until the end.
  const std::vector<Item> items = {{0, 64, 0, 1}, {1, 64, 1, 2}, {2, 64, 2, 3}, {3, 64, 3, 4}};
  const auto rolling = allocate(items, {.capacity = 192});
  CHECK(addresses(rolling) == Addresses{{0, 0}, {1, 64}, {2, 128}, {3, 0}});
  CHECK(std::get<Placement>(rolling).peak == 192);
}

TEST_CASE("a tile that begins its life where another ends gets other addresses", "[placement]") {
  // One instruction reads the first and writes the second: 64 bytes are too few for both.
  const std::vector<Item> meeting = {{0, 64, 0, 1}, {1, 64, 1, 2}};
  CHECK(std::holds_alternative<Shortage>(allocate(meeting, {.capacity = 64})));
  CHECK(std::holds_alternative<Shortage>(allocate(meeting, {.capacity = 64, .thorough = false})));
  CHECK(addresses(allocate(meeting, {.capacity = 128})) == Addresses{{0, 0}, {1, 64}});
  const std::vector<Item> apart = {{0, 64, 0, 1}, {1, 64, 2, 3}};
  CHECK(addresses(allocate(apart, {.capacity = 64})) == Addresses{{0, 0}, {1, 0}});
}

TEST_CASE("tensors begin at multiples of 32 bytes and keep given addresses", "[placement]") {
  // Bytes 10 to 110 are taken until 5: 33 bytes fit only after 110, at 128.
  const std::vector<Item> items = {{0, 100, 0, 5, 10}, {1, 33, 2, 3}, {2, 33, 6, 7}};
  CHECK(addresses(allocate(items, {.capacity = 161})) == Addresses{{0, 10}, {1, 128}, {2, 0}});
}

TEST_CASE("PSUM tiles take whole banks one by one, then share them", "[placement]") {
  const AllocatorOptions psum{.capacity = 4096, .bank = 2048};
  const std::vector<Item> whole = {{0, 2048, 0, 0}, {1, 512, 1, 1}, {2, 2048, 2, 2}};
  CHECK(addresses(allocate(whole, psum)) == Addresses{{0, 0}, {1, 2048}, {2, 0}});
  const std::vector<Item> shared = {{0, 1024, 0, 9}, {1, 1024, 0, 9}, {2, 1024, 0, 9}};
  CHECK(addresses(allocate(shared, psum)) == Addresses{{0, 0}, {1, 2048}, {2, 1024}});
}

TEST_CASE("small tiles do not break up the space of large ones", "[placement]") {
  // Three large tiles, each with a small one that outlives it: in order of time every small tile
  // lies on top of a large one, and no whole gap is left for the last, twice as large.
  std::vector<Item> items;
  for (std::uint32_t i = 0; i < 3; ++i) {
    items.push_back({i, 40 * kAlign, 10 * i, 10 * i + 12});
    items.push_back({10 + i, kAlign, 10 * i + 5, 10 * i + 34});
  }
  items.push_back({20, 80 * kAlign, 33, 40});
  for (const bool rolling : {true, false}) {
    CHECK(std::holds_alternative<Shortage>(
        allocate_in_time_order(items, {}, 83 * kAlign, 0, rolling)));
  }
  const auto placed = allocate(items, {.capacity = 83 * kAlign, .thorough = false});
  const Addresses at = addresses(placed);
  check_apart(items, at);
  CHECK(std::get<Placement>(placed).peak <= 83 * kAlign);
  CHECK(at.at(20) == 0);
  for (std::uint32_t i = 10; i < 13; ++i) CHECK(at.at(i) >= 80 * kAlign);
}

TEST_CASE("a shortage names what lives, and without strict the space grows", "[placement]") {
  const std::vector<Item> items = {{0, 64, 0, 9}, {1, 64, 1, 2}, {2, 96, 4, 9}};
  const auto full = allocate(items, {.capacity = 128});
  const auto* shortage = std::get_if<Shortage>(&full);
  REQUIRE(shortage != nullptr);
  CHECK(shortage->item.id == 2);
  REQUIRE(shortage->live.size() == 1);
  CHECK(shortage->live[0].id == 0);
  const auto grown = allocate(items, {.capacity = 128, .strict = false});
  CHECK(addresses(grown) == Addresses{{0, 0}, {1, 64}, {2, 64}});
  const std::vector<Item> vast = {{0, std::int64_t{1} << 43U, 0, 1}};
  CHECK(std::holds_alternative<Placement>(allocate(vast, {.capacity = 128, .strict = false})));
  const auto banks = allocate(vast, {.capacity = 4096, .bank = 2048, .strict = false});
  CHECK(std::holds_alternative<Shortage>(banks));  // no number of banks is as large
}

TEST_CASE("random tensors never overlap and stay within the capacity", "[placement]") {
  const auto seed = 20240611U;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int placed = 0;
  for (int round = 0; round < 400; ++round) {
    const bool psum = round % 2 == 1;
    const std::vector<Item> items = random_items(random, psum);
    const AllocatorOptions options{.capacity = psum ? 16384 : 4096,
                                   .bank = psum ? 2048 : 0,
                                   .strict = round % 5 != 0,
                                   .thorough = round % 3 != 0};
    const auto placing = allocate(items, options);
    if (std::holds_alternative<Shortage>(placing)) continue;
    ++placed;
    const Addresses at = addresses(placing);
    CHECK(at.size() == items.size());
    check_apart(items, at);
    for (const Item& i : items) {
      const std::int64_t first = at.at(i.id), last = first + i.bytes - 1;
      if (options.strict && !i.fixed()) CHECK(last < options.capacity);
      if (psum && !i.fixed() && i.bytes <= 2048) CHECK(first / 2048 == last / 2048);
      if (!psum && !i.fixed()) CHECK(first % kAlign == 0);
    }
  }
  CHECK(placed > 100);
}

TEST_CASE("narrow tensors lie side by side", "[placement]") {
  // Two of 64 partitions and one of 128, as large as all there is together: 64 bytes next to 64.
  const std::vector<NarrowItem> items = {
      {{0, 64, 0, 9}, 0, 0, 64}, {{1, 64, 0, 9}, 1, 0, 64}, {{2, 64, 0, 9}, -1, 0, 128}};
  const auto found = pack(items, 128);
  const auto* packed = std::get_if<Packed>(&found);
  REQUIRE(packed != nullptr);
  CHECK(packed->placement.peak == 128);
  CHECK(packed->starts == std::vector<std::pair<std::uint32_t, std::uint16_t>>{{0, 0}, {1, 64}});
  CHECK(std::holds_alternative<Shortage>(pack(items, 127)));
}

TEST_CASE("random narrow tensors never overlap", "[placement]") {
  const auto seed = 77U;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int placed = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<NarrowItem> items;
    for (const Item& item : random_items(random, false)) {
      const std::int64_t rows = std::array{32, 64, 128}.at(random() % 3);
      const bool moves = rows < 128 && !item.fixed() && random() % 4 != 0;
      items.push_back({item, moves ? static_cast<std::int32_t>(random() % 8) : -1, 0, rows});
    }
    const auto found = pack(items, 4096);
    const auto* packed = std::get_if<Packed>(&found);
    if (packed == nullptr) continue;
    ++placed;
    const Addresses at(packed->placement.addresses.begin(), packed->placement.addresses.end());
    std::map<std::uint32_t, std::int64_t> starts(packed->starts.begin(), packed->starts.end());
    std::map<std::int32_t, std::int64_t> of_group;
    for (const NarrowItem& a : items) {
      if (a.group >= 0)
        CHECK(of_group.emplace(a.group, starts[a.item.id]).first->second == starts[a.item.id]);
      if (a.rows > 32) CHECK(starts[a.item.id] % 64 == 0);
      CHECK(starts[a.item.id] + a.rows <= 128);
      if (!a.item.fixed()) CHECK(at.at(a.item.id) + a.item.bytes <= 4096);
      for (const NarrowItem& b : items) {
        if (a.item.id >= b.item.id || !a.item.meets(b.item)) continue;
        if (a.item.fixed() && b.item.fixed()) continue;
        const std::int64_t p = starts[a.item.id], q = starts[b.item.id];
        const bool apart = p + a.rows <= q || q + b.rows <= p;
        const std::int64_t x = at.at(a.item.id), y = at.at(b.item.id);
        CHECK((apart || x + a.item.bytes <= y || y + b.item.bytes <= x));
      }
    }
  }
  CHECK(placed > 50);
}
