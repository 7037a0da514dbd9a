// Parses limits of a run with their units, and checks them during the run.

#include "src/job/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <span>
#include <utility>

#include "isa/base/real.hpp"
#include "isa/host/host.hpp"
#include "isa/host/memory_bound.hpp"

namespace nkisim {
namespace {
namespace of_limits {

constexpr std::uint64_t kMemoryEvery = 16;  // looks at the clock between two at the memory
constexpr double kMaxSeconds = 1e9;
constexpr std::int64_t kShare =
    2;  // half of the host's memory: there is space for operands and reports

struct Unit {
  const char* suffix;
  double factor;
};

// "90", "1.5h": a number and one of the units, of which the first has no suffix.
double parse(const std::string& option, const std::string& text, std::span<const Unit> units,
             double most) {
  double value = 0;
  const auto [end, ec] = isa::read_real(text.data(), text.data() + text.size(), value);
  const std::string suffix(end, text.data() + text.size());
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return suffix == u.suffix; });
  if (ec == std::errc{} && unit != units.end()) value *= unit->factor;
  if (ec != std::errc{} || unit == units.end() || !std::isfinite(value) || value <= 0 ||
      value > most) {
    throw isa::Error(isa::Rule::option_value,
                     "--" + option + " is " + text + "; a positive number is required");
  }
  return value;
}

}  // namespace of_limits
}  // namespace

Limits::Limits(const Job::Most& most, std::function<bool()> ends)
    : ends_(std::move(ends)), memory_(isa::host::memory_bytes() / of_limits::kShare), text_(most) {
  using of_limits::Unit;
  constexpr std::array<Unit, 4> kTimes = {{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  constexpr std::array<Unit, 5> kSizes = {
      {{"", 1}, {"K", 1024}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}}};
  constexpr std::array<Unit, 1> kCount = {{{"", 1}}};
  if (!most.time.empty()) {
    seconds_ = of_limits::parse("max-time", most.time, kTimes, of_limits::kMaxSeconds);
  }
  if (!most.instructions.empty()) {
    instructions_ = static_cast<std::uint64_t>(
        std::ceil(of_limits::parse("max-instructions", most.instructions, kCount, 0x1p53)));
  }
  if (!most.memory.empty()) {
    memory_ = asked_memory_ =
        static_cast<std::int64_t>(of_limits::parse("max-memory", most.memory, kSizes, 0x1p60));
  }
}

bool Limits::stop(std::uint64_t instructions) {
  if (isa::host::memory_bound_reached()) throw std::bad_alloc();
  if ((ends_ && ends_()) || !reached_.empty()) return true;
  if (instructions_ > 0 && instructions >= instructions_) {
    reached_ = "--max-instructions " + text_.instructions;
  } else if (seconds_ > 0 &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count() >=
                 seconds_) {
    reached_ = "--max-time " + text_.time;
  } else if (asked_memory_ > 0 && asked_++ % of_limits::kMemoryEvery == 0 &&
             isa::host::resident_bytes() > asked_memory_) {
    reached_ = "--max-memory " + text_.memory;
  }
  return !reached_.empty();
}

}  // namespace nkisim
