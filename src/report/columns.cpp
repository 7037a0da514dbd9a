#include "src/report/columns.hpp"

#include <algorithm>

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
    for (std::size_t b = 0; b < block.width; ++b) to[b] = static_cast<std::byte>(rest >> (8 * b));
    to += block.width;
  }
  blocks_.push_back(std::move(block));
  open_.clear();
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
