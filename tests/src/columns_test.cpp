// Tests compressed tables of integers, and .npz archives that are written piece by piece.
#include "src/report/columns.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "src/report/pointer_table.hpp"

namespace {

using namespace nkisim;

constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> numbers(const NpyArray& array) {
  REQUIRE(array.descr == "<i8");
  std::vector<std::int64_t> out(array.data.size() / sizeof(std::int64_t));
  std::memcpy(out.data(), array.data.data(), array.data.size());
  return out;
}

}  // namespace

TEST_CASE("a compressed column returns the numbers that were added") {
  std::mt19937_64 random(1);
  for (const std::int64_t span : {std::int64_t{0}, std::int64_t{1}, std::int64_t{255},
                                  std::int64_t{256}, std::int64_t{1} << 40U, kHigh}) {
    Column column;
    std::vector<std::int64_t> expected;
    for (int i = 0; i < 10'000; ++i) {
      const auto value = static_cast<std::int64_t>(
          span == kHigh ? random() : random() % (static_cast<std::uint64_t>(span) + 1) - 7);
      column.add(value);
      expected.push_back(value);
    }
    column.add(kLow);
    column.add(kHigh);
    expected.insert(expected.end(), {kLow, kHigh});
    REQUIRE(column.size() == expected.size());
    bool same = true;
    for (std::size_t i = 0; i < expected.size(); ++i) same = same && column[i] == expected[i];
    CHECK(same);
    ColumnReader reader(column);
    for (const std::int64_t value : expected) same = same && reader.next() == value;
    CHECK(same);
  }
}

TEST_CASE("a table keeps what belongs to an address while it grows") {
  std::vector<int> objects(5000);
  PointerTable<std::int64_t> table;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const auto [value, added] = table.find_or_add(&objects[i]);
    CHECK(added);
    CHECK(*value == 0);
    *value = static_cast<std::int64_t>(i) + 1;
  }
  std::int64_t sum = 0;
  table.for_each([&](std::int64_t value) { sum += value; });
  CHECK(sum == 5000 * 5001 / 2);
  bool same = true;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const auto [value, added] = table.find_or_add(&objects[i]);
    same = same && !added && *value == static_cast<std::int64_t>(i) + 1;
    same = same && table.find(&objects[i]) != nullptr;
  }
  CHECK(same);
  const int other = 0;
  CHECK(table.find(&other) == nullptr);
}

TEST_CASE("extreme values share a block") {
  Column column;
  for (int i = 0; i < 5000; ++i) column.add(i % 2 == 0 ? kLow : kHigh);
  CHECK(column[0] == kLow);
  CHECK(column[4095] == kHigh);
  CHECK(column[4999] == kHigh);
}

TEST_CASE("tables are saved as compressed arrays that read_npz knows") {
  const auto path =
      std::filesystem::temp_directory_path() / ("nkisim-columns" + std::to_string(getpid()));
  Columns table("t", {"a", "b"});
  std::vector<std::int64_t> a, b;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    a.push_back(i * 1'000'000'007);
    b.push_back(i % 3 - 1);
    table.add({a.back(), b.back()});
  }
  NpzWriter out(path);
  table.save(out);
  write_integers(out, "none", 0, [](std::size_t) { return std::int64_t{0}; });
  out.commit();
  const auto arrays = read_npz(path);
  REQUIRE(arrays.size() == 3);
  CHECK(numbers(arrays.at("t.a")) == a);
  CHECK(numbers(arrays.at("t.b")) == b);
  CHECK(arrays.at("none").shape == std::vector<std::int64_t>{0});
  CHECK(std::filesystem::file_size(path) < 20'000 * 2 * sizeof(std::int64_t) / 2);
  std::filesystem::remove(path);
}
