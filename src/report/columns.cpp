// Compresses tables of integers column by column, and saves them to .npz.

#include "src/report/columns.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

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
    : table_(std::move(table)), data_(names.size()) {
  constexpr std::string_view kFrom = " from ", kBySteps = " by steps";
  for (const std::string_view text : names) {
    const std::size_t from = text.find(kFrom);
    if (text.ends_with(kBySteps)) {
      names_.emplace_back(text.substr(0, text.size() - kBySteps.size()));
      from_.push_back(kSteps);
    } else if (from == std::string_view::npos) {
      names_.emplace_back(text);
      from_.push_back(kOwn);
    } else {
      names_.emplace_back(text.substr(0, from));
      const auto base = std::find(names_.begin(), names_.end(), text.substr(from + kFrom.size()));
      from_.push_back(static_cast<std::size_t>(base - names_.begin()));  // it comes before
    }
  }
}

void Columns::add(std::initializer_list<std::int64_t> row) {
  auto column = data_.begin();
  for (const std::int64_t value : row) (column++)->add(value);
}

std::string Columns::key(std::size_t column) const {
  const std::string name = table_ + "." + names_[column];
  if (from_[column] == kOwn) return name;
  return from_[column] == kSteps ? name + ".steps" : name + ".minus." + names_[from_[column]];
}

// Differences are taken modulo 2^64.
std::vector<std::int64_t> Columns::stored(std::size_t column, Order order) const {
  const auto values = [order](const Column& of) {
    std::vector<std::int64_t> all(of.block_count() * Column::kBlock);
    for (std::size_t b = 0; b < of.block_count(); ++b) of.read_block(b, &all[b * Column::kBlock]);
    all.resize(of.size());
    if (order == Order::kBackwards) std::reverse(all.begin(), all.end());
    return all;
  };
  const auto minus = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  };
  std::vector<std::int64_t> own = values(data_[column]);
  if (from_[column] == kSteps) {
    for (std::size_t i = own.size(); i-- > 1;) own[i] = minus(own[i], own[i - 1]);
  } else if (from_[column] != kOwn) {
    const std::vector<std::int64_t> base = values(data_[from_[column]]);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = minus(own[i], base[i]);
  }
  return own;
}

void Columns::save(NpzWriter& out, Order order) const {
  for (std::size_t c = 0; c < names_.size(); ++c) {
    write_integers(out, key(c), stored(c, order));
  }
}

namespace {

template <typename T>
void write_as(NpzWriter& out, const std::vector<std::int64_t>& numbers) {
  const std::vector<T> narrow(numbers.begin(), numbers.end());
  out.write({reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(T)});
}

template <typename T>
bool holds(std::int64_t low, std::int64_t high) {
  return low >= std::numeric_limits<T>::min() && high <= std::numeric_limits<T>::max();
}

}  // namespace

void write_integers(NpzWriter& out, const std::string& key,
                    const std::vector<std::int64_t>& numbers) {
  std::int64_t low = 0, high = 0;
  for (const std::int64_t n : numbers) {
    low = std::min(low, n);
    high = std::max(high, n);
  }
  const auto begin = [&](std::string_view descr) {
    out.begin(key, descr, {static_cast<std::int64_t>(numbers.size())});
  };
  if (holds<std::int8_t>(low, high)) {
    begin("|i1");
    write_as<std::int8_t>(out, numbers);
  } else if (holds<std::int16_t>(low, high)) {
    begin("<i2");
    write_as<std::int16_t>(out, numbers);
  } else if (holds<std::int32_t>(low, high)) {
    begin("<i4");
    write_as<std::int32_t>(out, numbers);
  } else {
    begin("<i8");
    write_as<std::int64_t>(out, numbers);
  }
  out.end();
}

}  // namespace nkisim
