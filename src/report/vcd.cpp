// Writes the declarations and the changes of signals of a VCD waveform file in order of time.

#include "src/report/vcd.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace nkisim {
namespace {
namespace of_vcd {

// The format's short names of signals: printable characters, "!" to "~".
std::string code_of(std::size_t number) {
  constexpr std::size_t kFirst = '!', kCount = '~' - '!' + 1;
  std::string code;
  do {
    code += static_cast<char>(kFirst + number % kCount);
    number /= kCount;
  } while (number-- > 0);
  return code;
}

std::vector<std::string> names_in(const std::string& module) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= module.size() && !module.empty();) {
    const std::size_t dot = std::min(module.find('.', at), module.size());
    names.push_back(module.substr(at, dot - at));
    at = dot + 1;
  }
  return names;
}

void put_number(std::string& to, std::uint64_t value, int base) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base).ptr;
  to.append(digits.data(), end);
}

}  // namespace of_vcd
}  // namespace

Vcd::Signal Vcd::add(std::string module, std::string name, Kind kind) {
  signals_.push_back({std::move(module), std::move(name), of_vcd::code_of(signals_.size()), kind});
  return static_cast<Signal>(signals_.size() - 1);
}

std::int64_t Vcd::text(std::string_view text) {
  if (text.empty()) return idle();
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<std::int64_t>(texts_.size());
  numbers_.emplace(text, number);
  std::string plain(text);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c <= ' ' || c > '~'; }, '_');
  texts_.push_back(std::move(plain));
  return number;
}

std::string Vcd::header(const std::string& top, const std::string& note) const {
  std::string text = "$version nkisim $end\n";
  if (!note.empty()) text += "$comment " + note + " $end\n";
  text += "$timescale 1 fs $end\n$scope module " + top + " $end\n";
  std::vector<std::string> open;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) text += "$upscope $end\n";
  };
  for (const Declared& s : signals_) {
    const std::vector<std::string> names = of_vcd::names_in(s.module);
    std::size_t same = 0;
    while (same < std::min(names.size(), open.size()) && names[same] == open[same]) ++same;
    close_to(same);
    for (; open.size() < names.size(); open.push_back(names[open.size()])) {
      text += "$scope module " + names[open.size()] + " $end\n";
    }
    text += s.kind == Kind::kBit      ? "$var wire 1 "
            : s.kind == Kind::kNumber ? "$var integer 64 "
                                      : "$var string 1 ";
    text += s.code + " " + s.name + " $end\n";
  }
  close_to(0);
  return text + "$upscope $end\n$enddefinitions $end\n";
}

void Vcd::put(std::string& to, const Declared& signal, std::int64_t value) const {
  switch (signal.kind) {
    case Kind::kBit:
      to += value != 0 ? '1' : '0';
      break;
    case Kind::kNumber:
      to += 'b';
      of_vcd::put_number(to, static_cast<std::uint64_t>(value), 2);
      to += ' ';
      break;
    case Kind::kText:
      to += 's';
      to += texts_[static_cast<std::size_t>(value)];
      to += ' ';
      break;
  }
  to += signal.code;
  to += '\n';
}

void Vcd::write(const std::string& top, models::Fs end, const std::string& note,
                const ByteSink& out) {
  constexpr std::size_t kPiece = std::size_t{1} << 16U;
  std::stable_sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.signal < b.signal;
  });
  std::vector<std::int64_t> values(signals_.size(), 0);
  std::string text = header(top, note) + "#0\n$dumpvars\n";
  for (const Declared& s : signals_) put(text, s, 0);
  text += "$end\n";
  models::Fs written = 0;
  const auto at = [&](models::Fs time) {
    if (time == written) return;
    written = time;
    text += '#';
    of_vcd::put_number(text, static_cast<std::uint64_t>(time), 10);
    text += '\n';
  };
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    const Change& c = changes_[i];
    const bool again = i + 1 < changes_.size() && changes_[i + 1].time == c.time &&
                       changes_[i + 1].signal == c.signal;
    if (again || values[c.signal] == c.value) continue;
    values[c.signal] = c.value;
    at(c.time);
    put(text, signals_[c.signal], c.value);
    if (text.size() < kPiece) continue;
    out(text);
    text.clear();
  }
  at(std::max(end, written));
  out(text);
}

}  // namespace nkisim
