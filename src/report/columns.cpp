// Compresses tables of integers column by column, and saves them to .npz.

#include "src/report/columns.hpp"

#include <algorithm>
#include <cstring>

namespace nkisim {

void Column::close() {
  const auto [low, high] = std::minmax_element(open_.begin(), open_.end());
  Block block{.base = *low, .width = 0, .bytes = {}};
  // Differences may exceed the range of signed numbers: they are taken modulo 2^64.
  const auto range = static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(*low);
  while (block.width < sizeof range && (range >> (8 * block.width)) != 0) ++block.width;
  block.bytes.resize(kBlock * block.width + sizeof range);
  std::byte* to = block.bytes.data();
  for (const std::int64_t value : open_) {
    const auto rest = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(*low);
    std::memcpy(to, &rest, sizeof rest);
    to += block.width;  // what is beyond is written over
  }
  blocks_.push_back(std::move(block));
  open_.clear();
}

void Column::read_block(std::size_t b, std::int64_t* to) const {
  if (b == blocks_.size()) {
    std::copy(open_.begin(), open_.end(), to);
    return;
  }
  const Block& block = blocks_[b];
  if (block.width == 0) {
    std::fill_n(to, kBlock, block.base);
    return;
  }
  const std::uint64_t mask = ~std::uint64_t{0} >> (8 * (sizeof(std::uint64_t) - block.width));
  const std::byte* bytes = block.bytes.data();
  for (std::size_t i = 0; i < kBlock; ++i, bytes += block.width) {
    std::uint64_t rest = 0;
    std::memcpy(&rest, bytes, sizeof rest);
    to[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(block.base) + (rest & mask));
  }
}

Columns::Columns(std::string table, std::initializer_list<std::string_view> names)
    : table_(std::move(table)), names_(names.begin(), names.end()), data_(names.size()) {}

void Columns::add(std::initializer_list<std::int64_t> row) {
  auto column = data_.begin();
  for (const std::int64_t value : row) (column++)->add(value);
}

void Columns::save(NpzWriter& out, Order order) const {
  std::vector<std::int64_t> values(Column::kBlock);
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const Column& column = data_[c];
    out.begin(table_ + "." + names_[c], "<i8", {static_cast<std::int64_t>(column.size())});
    const std::size_t blocks = column.block_count();
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t block = order == Order::kForwards ? i : blocks - 1 - i;
      const auto size = column.block_size(block);
      column.read_block(block, values.data());
      if (order == Order::kBackwards) {
        std::reverse(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size));
      }
      out.write({reinterpret_cast<const char*>(values.data()), size * sizeof(std::int64_t)});
    }
    out.end();
  }
}

}  // namespace nkisim
