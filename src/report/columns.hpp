// Tables of integers that grow by a row per event and take little room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/npy.hpp"

namespace nkisim {

/// Integers in order. Whole blocks are kept as differences from their smallest value, in as few
/// bytes as the largest difference needs: most columns of a run take one or two bytes per value.
class Column {
 public:
  void add(std::int64_t value) {
    open_.push_back(value);
    if (open_.size() == kBlock) close();
  }
  [[nodiscard]] std::size_t size() const { return blocks_.size() * kBlock + open_.size(); }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const {
    if (i / kBlock == blocks_.size()) return open_[i % kBlock];
    const Block& block = blocks_[i / kBlock];
    if (block.width == 0) return block.base;
    const std::byte* bytes = block.bytes.data() + i % kBlock * block.width;
    std::uint64_t rest = 0;
    for (std::size_t b = 0; b < sizeof rest; ++b) {
      rest |= static_cast<std::uint64_t>(bytes[b]) << (8 * b);
    }
    rest &= ~std::uint64_t{0} >> (8 * (sizeof rest - block.width));  // not its successors
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(block.base) + rest);
  }

 private:
  static constexpr std::size_t kBlock = 4096;
  struct Block {
    std::int64_t base = 0;
    std::size_t width = 0;         // bytes per value
    std::vector<std::byte> bytes;  // and some more: the last value, too, is read as a word
  };
  void close();
  std::vector<Block> blocks_;
  std::vector<std::int64_t> open_;
};

/// Integer columns of one table; saved as `<table>.<column>`.
class Columns {
 public:
  Columns(std::string table, std::initializer_list<std::string_view> names);
  void add(std::initializer_list<std::int64_t> row);
  [[nodiscard]] std::size_t rows() const { return data_.empty() ? 0 : data_.front().size(); }
  [[nodiscard]] const Column& column(std::size_t i) const { return data_[i]; }
  /// Rows in the order of add(), or the last one first.
  enum class Order : std::uint8_t { kForwards, kBackwards };
  void save(NpzWriter& out, Order order = Order::kForwards) const;

 private:
  std::string table_;
  std::vector<std::string> names_;
  std::vector<Column> data_;
};

/// Writes `count` integers, value(i) each, as the array `key`.
template <typename Value>
void write_integers(NpzWriter& out, const std::string& key, std::size_t count, Value&& value) {
  constexpr std::size_t kChunk = 8192;
  out.begin(key, "<i8", {static_cast<std::int64_t>(count)});
  std::vector<std::int64_t> chunk;
  chunk.reserve(kChunk);
  const auto flush = [&] {
    out.write({reinterpret_cast<const char*>(chunk.data()), chunk.size() * sizeof(std::int64_t)});
    chunk.clear();
  };
  for (std::size_t i = 0; i < count; ++i) {
    chunk.push_back(value(i));
    if (chunk.size() == kChunk) flush();
  }
  flush();
  out.end();
}

}  // namespace nkisim
