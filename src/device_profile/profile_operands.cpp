// Parses the operand text of an instruction in a device profile.

#include "src/device_profile/profile_operands.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "isa/base/names.hpp"

namespace nkisim {
namespace {

constexpr std::int64_t kMaxCount = isa::kMostElements;

// Product of counts, saturating: the text comes from a file.
std::int64_t product(const std::vector<std::int64_t>& counts) {
  std::int64_t n = 1;
  for (const std::int64_t c : counts) {
    if (c <= 0) return 0;
    n = c > kMaxCount / n ? kMaxCount : n * c;
  }
  return n;
}

// Forward-only reading of one text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  [[nodiscard]] bool done() const { return text_.empty(); }
  [[nodiscard]] std::string_view rest() const { return text_; }
  void skip_blanks() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  bool accept(std::string_view word) {
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  template <typename T>
  std::optional<T> number(int base = 10) {
    T value{};
    const auto [end, ec] = std::from_chars(text_.data(), text_.data() + text_.size(), value, base);
    if (ec != std::errc{}) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  std::string_view until(std::string_view stop) {
    const std::size_t n = std::min(text_.find_first_of(stop), text_.size());
    const std::string_view word = text_.substr(0, n);
    text_.remove_prefix(n);
    return word;
  }
  std::optional<std::vector<std::int64_t>> list() {
    if (!accept("[")) return std::nullopt;
    std::vector<std::int64_t> values;
    while (!accept("]")) {
      const auto value = number<std::int64_t>();
      if (!value || values.size() >= 16) return std::nullopt;
      values.push_back(*value);
      accept(",");
    }
    return values;
  }

 private:
  std::string_view text_;
};

std::optional<isa::Dtype> find_dtype(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, isa::Dtype>, 11> kNames = {{
      {"fp32", isa::Dtype::kFloat32},
      {"fp32r", isa::Dtype::kTfloat32},
      {"bf16", isa::Dtype::kBfloat16},
      {"fp16", isa::Dtype::kFloat16},
      {"fp8e3", isa::Dtype::kFloat8E3m4},
      {"fp8e4", isa::Dtype::kFloat8E4m3},
      {"fp8e5", isa::Dtype::kFloat8E5m2},
      {"fp8_e3", isa::Dtype::kFloat8E3m4},
      {"fp8_e4", isa::Dtype::kFloat8E4m3},
      {"fp8_e5", isa::Dtype::kFloat8E5m2},
      {"float8e4", isa::Dtype::kFloat8E4m3},
  }};
  const std::string lower = isa::lower_case(text);
  for (const auto& [name, dtype] : kNames) {
    if (lower == name) return dtype;
  }
  return isa::parse_dtype(lower);
}

std::int32_t clamp32(std::int64_t value) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      value, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}

// "S[5] (Tensor)>=4", "$S[2]++@complete": a condition or an update. False: nothing consumed.
bool read_semaphore(Scanner& in, ProfileOperands& out) {
  Scanner s = in;
  const bool runtime = s.accept("$");
  if (!s.accept("S[")) return false;
  const auto id = s.number<std::uint16_t>();
  if (!id || !s.accept("]")) return false;
  s.skip_blanks();
  std::string owner;
  if (s.accept("(")) {
    owner = s.until(")");
    if (!s.accept(")")) return false;
    s.skip_blanks();
  }
  using Action = isa::SemaphorePost::Action;
  constexpr std::array<std::pair<std::string_view, Action>, 4> kActions = {
      {{"++", Action::kIncrement},
       {"--", Action::kDecrement},
       {"+=", Action::kAdd},
       {"-=", Action::kSubtract}}};
  using Compare = isa::SemaphoreWait::Compare;
  constexpr std::array<std::pair<std::string_view, Compare>, 5> kCompares = {{{">=", Compare::kGe},
                                                                              {"==", Compare::kEq},
                                                                              {"<=", Compare::kLe},
                                                                              {">", Compare::kGt},
                                                                              {"<", Compare::kLt}}};
  const auto post = [&](Action action, std::int64_t value) {
    const std::string_view when = s.accept("@") ? s.until(" ") : std::string_view{};
    const isa::SemaphorePost p{*id, action, when == "issue" || when == "start", clamp32(value)};
    out.posts.push_back({p, runtime});
    in = s;
    return true;
  };
  for (const auto& [text, action] : kActions) {
    if (!s.accept(text)) continue;
    const bool one = action == Action::kIncrement || action == Action::kDecrement;
    return post(action, one ? 1 : s.number<std::int64_t>().value_or(1));
  }
  for (const auto& [text, compare] : kCompares) {
    if (!s.accept(text)) continue;
    const auto value = s.number<std::int64_t>();
    if (!value) return false;
    out.waits.push_back({{*id, compare, clamp32(*value)}, std::move(owner), runtime});
    in = s;
    return true;
  }
  if (!s.accept("=")) return false;
  const auto value = s.number<std::int64_t>();
  return value && post(Action::kSet, *value);
}

std::optional<ProfileTensor> read_tensor(std::string_view text) {
  ProfileTensor t;
  Scanner s(text);
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos) {
    t.dtype = find_dtype(s.until("@"));
    s.accept("@");
  }
  if (!s.accept("0x")) return std::nullopt;
  const auto address = s.number<std::uint64_t>(16);
  if (!address) return std::nullopt;
  t.address = *address;
  if (s.done()) return at != std::string_view::npos ? std::optional(t) : std::nullopt;
  auto steps = s.list();
  auto counts = s.list();
  if (!steps || !counts || steps->size() != counts->size() || !s.done()) return std::nullopt;
  t.steps = std::move(*steps);
  t.counts = std::move(*counts);
  return t;
}

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}
bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  Scanner s(text);
  const bool hex = s.accept("0x");
  const auto value = s.number<std::int64_t>(hex ? 16 : 10);
  return value && s.done() ? value : std::nullopt;
}

// One side of a DMA from keys "src_elem_size", "src_pattern", "src_addr_imm" and so on.
bool read_dma_side(std::string_view key, std::string_view value, ProfileDmaSide& side) {
  if (key == "pattern") {
    Scanner s(value);
    auto steps = s.list();
    auto counts = s.list();
    if (!steps || !counts || steps->size() != counts->size()) return false;
    side.steps = std::move(*steps);
    side.counts = std::move(*counts);
    side.given = true;
    return true;
  }
  const auto number = whole_number(value);
  if (!number) return false;
  if (key == "elem_size") {
    side.element_bytes = std::clamp<std::int64_t>(*number, 0, kMaxCount);
  } else if (key == "addr_imm") {
    side.address = static_cast<std::uint64_t>(*number);
  } else if (key == "table_offset_imm") {
    side.offset = std::clamp<std::int64_t>(*number, 0, kMaxCount);
  } else if (key == "table_index") {
    side.table = *number;
  } else {
    return false;
  }
  return true;
}

bool read_dma_key(std::string_view key, std::string_view value, ProfileDma& dma) {
  if (starts_with(key, "src_")) return read_dma_side(key.substr(4), value, dma.src);
  if (starts_with(key, "dst_")) return read_dma_side(key.substr(4), value, dma.dst);
  if (key == "semaphore" || key == "sem_increment") {
    const auto number = whole_number(value);
    if (!number) return false;
    (key == "semaphore" ? dma.semaphore : dma.increment) = clamp32(*number);
    return true;
  }
  if (key == "compute_op") {
    dma.compute = dma.compute || isa::lower_case(value) != "none";
    return value == "NONE";
  }
  if (key == "in_dtype" || key == "out_dtype") dma.compute = true;
  return false;  // the dtypes themselves are kept as attributes
}

std::int64_t small(std::string_view value) {
  return std::clamp<std::int64_t>(whole_number(value).value_or(0), 0, 128);
}

// "imm=0x8040,0 imm_src=PTR,INSTRUCTION": immediates that are addresses of scalars.
void add_pointers(std::string_view imm, std::string_view sources, ProfileOperands& out) {
  while (!sources.empty()) {
    const std::size_t a = std::min(sources.find(','), sources.size());
    const std::size_t b = std::min(imm.find(','), imm.size());
    const auto address = whole_number(imm.substr(0, b));
    if (starts_with(sources.substr(0, a), "PTR") && address && *address >= 0) {
      ProfileTensor t;
      t.use = ProfileTensor::Use::kPointer;
      t.address = static_cast<std::uint64_t>(*address);
      out.tensors.push_back(std::move(t));
    }
    sources.remove_prefix(std::min(a + 1, sources.size()));
    imm.remove_prefix(std::min(b + 1, imm.size()));
  }
}

class Parser {
 public:
  ProfileOperands parse(std::string_view text) {
    Scanner in(text);
    for (in.skip_blanks(); !in.done(); in.skip_blanks()) {
      if (read_semaphore(in, out_)) continue;
      word(in.until(" "));
    }
    add_pointers(imm_, imm_src_, out_);
    return std::move(out_);
  }

 private:
  void word(std::string_view token) {
    if (starts_with(token, "$E[")) {
      out_.events = true;
      return keep(token);
    }
    const std::size_t equals = token.find('=');
    if (equals == std::string_view::npos || equals == 0) return bare(token);
    const std::string_view key = token.substr(0, equals), value = token.substr(equals + 1);
    if (auto tensor = read_tensor(value)) return add(key, std::move(*tensor));
    if (!known(key, value) && !read_dma_key(key, value, out_.dma)) keep(token);
  }
  void bare(std::string_view token) {
    Scanner s(token);
    const auto rows = s.number<std::int64_t>();
    if (rows && s.accept("*")) {
      const auto columns = s.number<std::int64_t>();
      if (columns && s.done()) {
        out_.rows = std::clamp<std::int64_t>(*rows, 0, 128);
        out_.columns = std::clamp<std::int64_t>(*columns, 0, 128);
        return;
      }
    }
    const bool name = !token.empty() && std::all_of(token.begin(), token.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!name || !out_.function.empty()) return keep(token);
    out_.function = token;
  }
  void add(std::string_view key, ProfileTensor tensor) {
    using Use = ProfileTensor::Use;
    if (starts_with(key, "dst") || starts_with(key, "out")) {
      tensor.use = Use::kWrite;
    } else if (ends_with(key, "ptr") || tensor.steps.empty()) {
      tensor.use = Use::kPointer;
    }
    out_.tensors.push_back(std::move(tensor));
  }
  bool known(std::string_view key, std::string_view value) {
    if (key == "channels") {
      out_.channels = small(value);
    } else if (key == "acc_flags") {
      out_.acc_flags = whole_number(value).value_or(0);
    } else if (key == "fp32_mode") {
      out_.fp32_mode = isa::lower_case(value);
    } else if (key == "transpose_mode") {
      out_.transpose = value == "ENABLED";
    } else if (key == "op" || key == "ops" || key == "func") {
      out_.function = value;
    } else if (key == "perf_mode" || key == "performance_mode") {
      out_.mode = value;
    } else {
      if (key == "imm") imm_ = value;
      if (key == "imm_src") imm_src_ = value;
      return false;
    }
    return true;
  }
  void keep(std::string_view token) {
    if (!out_.rest.empty()) out_.rest += ' ';
    out_.rest += token;
  }
  ProfileOperands out_;
  std::string_view imm_, imm_src_;
};

}  // namespace

std::int64_t ProfileTensor::elements() const { return product(counts); }
std::int64_t ProfileDmaSide::elements() const { return product(counts); }

bool ProfileDmaSide::adjacent() const {
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] != 1) return steps[d] == element_bytes;
  }
  return true;
}

ProfileOperands parse_operands(std::string_view text) { return Parser().parse(text); }

}  // namespace nkisim
