// Keeps one bit per byte that says if it was ever written, and where unwritten values come from.

#include "isa/machine/definedness.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "isa/program/program.hpp"

namespace nkisim::isa {

void set_bits(std::uint64_t* words, std::int64_t first, std::int64_t count, bool on) {
  const auto begin = static_cast<std::uint64_t>(first);
  const auto end = static_cast<std::uint64_t>(first + count);
  if (begin >= end) return;
  const std::uint64_t head = begin / 64, tail = (end - 1) / 64;
  const std::uint64_t head_mask = ~std::uint64_t{0} << (begin % 64);
  const std::uint64_t tail_mask = ~std::uint64_t{0} >> (63 - (end - 1) % 64);
  const auto apply = [&](std::uint64_t& word, std::uint64_t mask) {
    word = on ? word | mask : word & ~mask;
  };
  if (head == tail) {
    apply(words[head], head_mask & tail_mask);
    return;
  }
  apply(words[head], head_mask);
  std::memset(words + head + 1, on ? 0xff : 0, (tail - head - 1) * 8);
  apply(words[tail], tail_mask);
}

std::int64_t find_bit(const std::uint64_t* words, std::int64_t first, std::int64_t count, bool on) {
  const auto end = static_cast<std::uint64_t>(first + count);
  const std::uint64_t nothing = on ? 0 : ~std::uint64_t{0};
  for (auto at = static_cast<std::uint64_t>(first); at < end;) {
    const std::uint64_t found = (words[at / 64] ^ nothing) >> (at % 64);
    if (found != 0) {
      const std::uint64_t hit = at + static_cast<std::uint64_t>(__builtin_ctzll(found));
      return hit < end ? static_cast<std::int64_t>(hit) : -1;
    }
    at = (at / 64 + 1) * 64;
    while (at + 256 <= end) {
      const std::uint64_t* w = words + at / 64;
      if (((w[0] ^ nothing) | (w[1] ^ nothing) | (w[2] ^ nothing) | (w[3] ^ nothing)) != 0) break;
      at += 256;
    }
  }
  return -1;
}

Definedness::Definedness(std::int64_t bytes) : size_(std::max<std::int64_t>(bytes, 1)) {}

Definedness::Definedness(const Definedness& other, std::int64_t& copied)
    : size_(other.size_), whole_(other.whole_), looked_at_(other.looked_at_) {
  const auto copy = [&](auto& to, const auto& from, std::size_t count) {
    if (!from) return;
    using Array = std::remove_cvref_t<decltype(to)>;
    to = Array(count);
    copied += copy_nonzero(to.get(), from.get(), count * sizeof(*from.get()));
  };
  copy(defined_, other.defined_, static_cast<std::size_t>(size_) / 64 + 1);
  copy(origins_, other.origins_, static_cast<std::size_t>(size_) / 4 + 1);
}

// The bits, one per byte; from now on they are kept.
std::uint64_t* Definedness::words() {
  if (!defined_) {
    defined_ = ZeroedArray<std::uint64_t>(static_cast<std::size_t>(size_) / 64 + 1);
    if (whole_) set_bits(defined_.get(), 0, size_, true);
  }
  whole_ = false;
  return defined_.get();
}

void Definedness::define(std::int64_t first, std::int64_t count) {
  if (whole_) return;
  const bool all = first == 0 && count >= size_;
  if (!all || defined_) set_bits(words(), first, count, true);
  whole_ = all;
}

void Definedness::undefine(std::int64_t first, std::int64_t count, std::uint32_t origin) {
  if (count <= 0) return;
  if (!origins_) {
    origins_ = ZeroedArray<std::uint32_t>(static_cast<std::size_t>(size_) / 4 + 1);
  }
  set_bits(words(), first, count, false);
  std::fill(origins_.get() + first / 4, origins_.get() + (first + count - 1) / 4 + 1, origin);
}

std::int64_t Definedness::find_undefined(std::int64_t first, std::int64_t count) const {
  if (whole_ || count <= 0) return -1;
  if (!defined_) return first;
  const std::int64_t found = find_bit(defined_.get(), first, count, false);
  if (found < 0 && (looked_at_ += count) >= size_) {
    looked_at_ = 0;
    whole_ = find_bit(defined_.get(), 0, size_, false) < 0;
  }
  return found;
}

std::uint32_t Definedness::origin(std::int64_t at) const {
  return !origins_ ? 0 : origins_.get()[at / 4];
}

std::uint32_t Origins::root(const Origin& origin) {
  const std::uint64_t detail = (std::uint64_t{origin.tensor} << 32U) | origin.other;
  const auto [at, fresh] =
      known_.try_emplace({origin.inst, detail}, static_cast<std::uint32_t>(all_.size() + 1));
  if (fresh) all_.push_back(origin);
  return at->second;
}

std::uint32_t Origins::computed(const Inst& inst, std::uint32_t from) {
  const int depth = all_.at(from - 1).depth + 1;
  if (depth > kLongest) return from;
  // Instructions of kOverwritten roots have another second half: theirs is a pair of tensors.
  const std::uint64_t detail = ~std::uint64_t{from};
  const auto [at, fresh] =
      known_.try_emplace({&inst, detail}, static_cast<std::uint32_t>(all_.size() + 1));
  if (fresh) {
    Origin origin{.kind = Origin::Kind::kComputed, .other = from, .inst = &inst, .depth = depth};
    all_.push_back(origin);
  }
  return at->second;
}

void Origins::times_zero(const Inst& inst, std::uint32_t origin) {
  const SourceLoc& loc = inst.loc;
  const Line line = loc.kernel_line != 0 ? Line{loc.kernel_file, loc.kernel_line}
                                         : Line{0, static_cast<std::uint32_t>(loc.trace_line)};
  times_zero_.try_emplace(line, TimesZero{&inst, origin});
}

const Inst* Origins::last(std::uint32_t origin) const {
  if (origin == 0) return nullptr;
  const Origin& o = all_.at(origin - 1);
  return o.kind == Origin::Kind::kComputed || o.order_only() ? o.inst : nullptr;
}

const Origin& Origins::root_of(std::uint32_t origin) const {
  const Origin* at = &all_.at(origin - 1);
  while (at->kind == Origin::Kind::kComputed) at = &all_.at(at->other - 1);
  return *at;
}

namespace {

// "tensor_copy at k.py:7", or "tensor_copy in line 12" of a trace without places.
std::string place_of(const Inst& inst, const Program& program) {
  std::string text(spec(inst).name);
  const std::string place = program.kernel_place(inst);
  if (!place.empty()) return text + " at " + place;
  if (inst.loc.trace_line != 0) text += " in line " + std::to_string(inst.loc.trace_line);
  return text;
}

std::string describe_root(const Origin& root, const Program& program) {
  const Tensor& t = program.tensor(root.tensor);
  std::string text = "byte " + std::to_string(root.byte) + " of tensor " + t.name;
  if (root.partition >= 0) text += " on partition " + std::to_string(root.partition);
  if (t.line != 0 && t.file > 0 && t.file <= program.files().size()) {
    text += " (allocated at " + program.files()[t.file - 1] + ":" + std::to_string(t.line) + ")";
  }
  if (root.kind == Origin::Kind::kNeverWritten) return text + ", which was never written";
  if (root.kind == Origin::Kind::kWrittenTwice) {
    return text + ", which one instruction wrote twice with different values (" +
           place_of(*root.inst, program) + "): which of them stays is not defined";
  }
  if (root.kind == Origin::Kind::kReadAndWritten) {
    return text + ", whose source the same instruction overwrote (" +
           place_of(*root.inst, program) + "): which value arrives is not defined";
  }
  return text + ", which tensor " + program.tensor(root.other).name +
         " at the same address overwrote (" + place_of(*root.inst, program) + ")";
}

}  // namespace

std::string Origins::describe(std::uint32_t origin, const Program& program) const {
  std::vector<const Inst*> way;  // last instruction first
  const Origin* at = &all_.at(origin - 1);
  for (; at->kind == Origin::Kind::kComputed; at = &all_.at(at->other - 1)) way.push_back(at->inst);
  std::reverse(way.begin(), way.end());
  std::string text = describe_root(*at, program);
  constexpr std::size_t kShown = 6;
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (i + kShown / 2 == way.size() || i < kShown / 2 || way.size() <= kShown) {
      text += i == 0 ? "; first used by " : ", then ";
      text += place_of(*way[i], program);
    } else if (i == kShown / 2) {
      text += ", then " + std::to_string(way.size() - kShown) + " more";
    } else if (i + kShown / 2 > way.size()) {
      text += ", then " + place_of(*way[i], program);
    }
  }
  return text;
}

}  // namespace nkisim::isa
