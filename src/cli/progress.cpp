// Draws and clears a progress bar on a terminal.

#include "src/cli/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace nkisim::cli {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(300);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kWidth = 32;

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)),
      active_(isatty(STDERR_FILENO) != 0),
      started_(std::chrono::steady_clock::now()),
      last_(started_) {}

Progress::~Progress() { clear(); }

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (!active_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - started_ < kFirstDraw || now - last_ < kInterval) return;
  last_ = now;
  drawn_ = true;
  if (total == 0) {
    std::fprintf(stderr, "\r%s %llu\033[K", label_.c_str(), static_cast<unsigned long long>(done));
  } else {
    const double part = static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(part * kWidth);
    std::string bar(static_cast<std::size_t>(kWidth), '.');
    for (int i = 0; i < filled && i < kWidth; ++i) bar[static_cast<std::size_t>(i)] = '#';
    std::fprintf(stderr, "\r%s [%s] %3.0f %%\033[K", label_.c_str(), bar.c_str(), part * 100);
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace nkisim::cli
