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

template <typename T>
std::vector<std::int64_t> widened(const NpyArray& array) {
  std::vector<T> stored(array.data.size() / sizeof(T));
  std::memcpy(stored.data(), array.data.data(), array.data.size());
  return {stored.begin(), stored.end()};
}

std::vector<std::int64_t> numbers(const NpyArray& array) {
  if (array.descr == "|i1") return widened<std::int8_t>(array);
  if (array.descr == "<i2") return widened<std::int16_t>(array);
  if (array.descr == "<i4") return widened<std::int32_t>(array);
  REQUIRE(array.descr == "<i8");
  return widened<std::int64_t>(array);
}

std::filesystem::path own_file() {
  return std::filesystem::temp_directory_path() / ("nkisim-columns" + std::to_string(getpid()));
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
  const auto path = own_file();
  Columns table("t", {"a", "b"});
  std::vector<std::int64_t> a, b;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    a.push_back(i * 1'000'000'007);
    b.push_back(i % 3 - 1);
    table.add({a.back(), b.back()});
  }
  NpzWriter out(path);
  table.save(out);
  write_integers(out, "none", {});
  out.commit();
  const auto arrays = read_npz(path);
  REQUIRE(arrays.size() == 3);
  CHECK(numbers(arrays.at("t.a")) == a);
  CHECK(numbers(arrays.at("t.b")) == b);
  CHECK(arrays.at("none").shape == std::vector<std::int64_t>{0});
  CHECK(std::filesystem::file_size(path) < 20'000 * 2 * sizeof(std::int64_t) / 2);
  std::filesystem::remove(path);
}

TEST_CASE("numbers are stored in the smallest type that holds them") {
  const auto path = own_file();
  NpzWriter out(path);
  const std::vector<std::pair<std::vector<std::int64_t>, std::string>> cases = {
      {{-128, 127}, "|i1"},
      {{128}, "<i2"},
      {{-129}, "<i2"},
      {{-32768, 32767}, "<i2"},
      {{32768}, "<i4"},
      {{-(1LL << 31U), (1LL << 31U) - 1}, "<i4"},
      {{1LL << 31U}, "<i8"},
      {{kLow, kHigh}, "<i8"},
      {std::vector<std::int64_t>(300'000, 7), "|i1"}};  // compressed in parallel
  for (std::size_t i = 0; i < cases.size(); ++i) {
    write_integers(out, std::to_string(i), cases[i].first);
  }
  out.commit();
  const auto arrays = read_npz(path);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const NpyArray& stored = arrays.at(std::to_string(i));
    CHECK(stored.descr == cases[i].second);
    CHECK(numbers(stored) == cases[i].first);
  }
  std::filesystem::remove(path);
}

TEST_CASE("columns are stored as differences from a column or from the row before") {
  const auto path = own_file();
  Columns table("t", {"from by steps", "to from from", "late from to", "own"});
  // Differences of the last row do not fit 64 bits: they wrap.
  table.add({10, 12, 12, 5});
  table.add({15, 16, 20, 5});
  table.add({kHigh, kLow, 0, 5});
  for (const auto order : {Columns::Order::kForwards, Columns::Order::kBackwards}) {
    NpzWriter out(path);
    table.save(out, order);
    out.commit();
    const auto arrays = read_npz(path);
    const bool forwards = order == Columns::Order::kForwards;
    CHECK(numbers(arrays.at("t.from.steps")) ==
          (forwards ? std::vector<std::int64_t>{10, 5, kHigh - 15}
                    : std::vector<std::int64_t>{kHigh, 15 - kHigh, -5}));
    CHECK(numbers(arrays.at("t.to.minus.from")) ==
          (forwards ? std::vector<std::int64_t>{2, 1, 1} : std::vector<std::int64_t>{1, 1, 2}));
    CHECK(
        numbers(arrays.at("t.late.minus.to")) ==
        (forwards ? std::vector<std::int64_t>{0, 4, kLow} : std::vector<std::int64_t>{kLow, 4, 0}));
    CHECK(arrays.at("t.own").descr == "|i1");
  }
  std::filesystem::remove(path);
}
