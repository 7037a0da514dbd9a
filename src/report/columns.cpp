#include "src/report/columns.hpp"

#include <algorithm>

namespace nkisim {

void Column::add(std::int64_t value) {
  open_.push_back(value);
  if (open_.size() == kBlock) close();
}

void Column::close() {
  const auto [low, high] = std::minmax_element(open_.begin(), open_.end());
  Block block{.base = *low, .width = 0, .bytes = {}};
  // Differences may exceed the range of signed numbers: they are taken modulo 2^64.
  const auto range = static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(*low);
  while (block.width < sizeof range && (range >> (8 * block.width)) != 0) ++block.width;
  block.bytes.resize(kBlock * block.width + sizeof range);  // so that the last can be read whole
  std::byte* to = block.bytes.data();
  for (const std::int64_t value : open_) {
    const auto rest = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(*low);
    for (std::size_t b = 0; b < block.width; ++b) to[b] = static_cast<std::byte>(rest >> (8 * b));
    to += block.width;
  }
  blocks_.push_back(std::move(block));
  open_.clear();
}

std::int64_t Column::operator[](std::size_t i) const {
  if (i / kBlock == blocks_.size()) return open_[i % kBlock];
  const Block& block = blocks_[i / kBlock];
  const std::byte* bytes = block.bytes.data() + i % kBlock * block.width;
  if (block.width == 0) return block.base;
  std::uint64_t rest = 0;
  for (std::size_t b = 0; b < sizeof rest; ++b) {
    rest |= static_cast<std::uint64_t>(bytes[b]) << (8 * b);
  }
  rest &= ~std::uint64_t{0} >> (8 * (sizeof rest - block.width));  // not its successors
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(block.base) + rest);
}

Columns::Columns(std::string table, std::initializer_list<std::string_view> names)
    : table_(std::move(table)), names_(names.begin(), names.end()), data_(names.size()) {}

void Columns::add(std::initializer_list<std::int64_t> row) {
  auto column = data_.begin();
  for (const std::int64_t value : row) (column++)->add(value);
}

void Columns::save(NpzWriter& out, Order order) const {
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const Column& column = data_[c];
    const std::size_t count = column.size();
    write_integers(out, table_ + "." + names_[c], count, [&](std::size_t i) {
      return column[order == Order::kForwards ? i : count - 1 - i];
    });
  }
}

}  // namespace nkisim
