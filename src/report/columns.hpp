// Stores tables of integers that grow by a row per event and take little memory.
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
  static constexpr std::size_t kBlock = 4096;
  /// The number of values in block `b`, and these: to[i] is operator[](b * kBlock + i).
  [[nodiscard]] std::size_t block_size(std::size_t b) const {
    return b < blocks_.size() ? kBlock : open_.size();
  }
  [[nodiscard]] std::size_t block_count() const { return blocks_.size() + (open_.empty() ? 0 : 1); }
  void read_block(std::size_t b, std::int64_t* to) const;

 private:
  struct Block {
    std::int64_t base = 0;
    std::size_t width = 0;         // bytes per value
    std::vector<std::byte> bytes;  // and some more: the last value, too, is read as a word
  };
  void close();
  std::vector<Block> blocks_;
  std::vector<std::int64_t> open_;
};

/// The values of a column one after the other.
class ColumnReader {
 public:
  explicit ColumnReader(const Column& column) : column_(&column), values_(Column::kBlock) {}
  /// There must be one more.
  std::int64_t next() {
    if (at_ == size_) {
      size_ = column_->block_size(block_);
      column_->read_block(block_++, values_.data());
      at_ = 0;
    }
    return values_[at_++];
  }

 private:
  const Column* column_;
  std::vector<std::int64_t> values_;  // of a block
  std::size_t block_ = 0, at_ = 0, size_ = 0;
};

/// Integer columns of one table.
class Columns {
 public:
  /// A column's name, and how its numbers are stored: "end from start" as differences from the
  /// column `start` of the same row, "start by steps" as differences from the row before (0 before
  /// the first). Both keep times in few bytes.
  Columns(std::string table, std::initializer_list<std::string_view> names);
  void add(std::initializer_list<std::int64_t> row);
  [[nodiscard]] std::size_t rows() const { return data_.empty() ? 0 : data_.front().size(); }
  [[nodiscard]] const Column& column(std::size_t i) const { return data_[i]; }
  /// Rows in the order of add(), or the last one first.
  enum class Order : std::uint8_t { kForwards, kBackwards };
  /// As arrays `<table>.<column>`, `<table>.<column>.minus.<other column>` and
  /// `<table>.<column>.steps`.
  void save(NpzWriter& out, Order order = Order::kForwards) const;

 private:
  static constexpr std::size_t kOwn = ~std::size_t{0}, kSteps = kOwn - 1;
  [[nodiscard]] std::string key(std::size_t column) const;
  [[nodiscard]] std::vector<std::int64_t> stored(std::size_t column, Order order) const;
  std::string table_;
  std::vector<std::string> names_;
  std::vector<std::size_t> from_;  // another column, kSteps or kOwn
  std::vector<Column> data_;
};

/// Writes numbers as the array `key`, in the smallest of NumPy's signed types that holds them all.
void write_integers(NpzWriter& out, const std::string& key,
                    const std::vector<std::int64_t>& numbers);

}  // namespace nkisim
