// Formats a run's summary as text with human units, as neuron-profile's summary-text does.
#include <array>
#include <cstdio>
#include <string_view>

#include "src/report/summary.hpp"
#include "src/report/totals.hpp"

namespace nkisim {
namespace {

struct Scale {
  double unit;
  const char* name;
};

std::string format(const char* pattern, double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value, unit);
  return text.data();
}

template <std::size_t N>
std::string scaled(double value, const std::array<Scale, N>& scales) {
  for (const Scale& s : scales) {
    if (value >= s.unit) return format("%.2f %s", value / s.unit, s.name);
  }
  return format("%.2f %s", value / scales.back().unit, scales.back().name);
}

bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string human(const std::string& key, const nlohmann::ordered_json& value) {
  constexpr std::array<Scale, 4> kTime = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  constexpr std::array<Scale, 4> kBytes = {
      {{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1.0, "B"}}};
  constexpr std::array<Scale, 4> kFlops = {
      {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1, "FLOP"}}};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  const double v = value.get<double>();
  if (ends_with(key, "_percent")) return format("%.2f %s", v * 100, "%");
  if (ends_with(key, "_time")) return scaled(v, kTime);
  if (ends_with(key, "_time_ns")) return scaled(v * 1e-9, kTime);
  if (ends_with(key, "_bytes") || ends_with(key, "_size")) return scaled(v, kBytes);
  if (ends_with(key, "_flops")) return scaled(v, kFlops);
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  return format("%.2f%s", v, "");
}

std::string_view group_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kGroups = {{
      {"tensor_engine", "tensor_engine"},
      {"matmul_", "tensor_engine"},
      {"vector_engine", "vector_engine"},
      {"scalar_engine", "scalar_engine"},
      {"activate_", "scalar_engine"},
      {"sync_engine", "sync_engine"},
      {"gpsimd_engine", "gpsimd_engine"},
      {"cc_", "cc_engine"},
      {"throttle_", "throttling_nc0"},
      {"dma_", "data_movement"},
      {"psum_", "data_movement"},
      {"_bytes", "data_movement"},
  }};
  for (const auto& [part, group] : kGroups) {
    if (has(key, part)) return group;
  }
  const bool system = ends_with(key, "_idx") || key == "instance_type";
  return system ? "system" : "overall_stats";
}

void print_metrics(std::ostream& out, const nlohmann::ordered_json& values) {
  constexpr std::array<std::string_view, 10> kOrder = {
      "overall_stats", "data_movement", "tensor_engine", "vector_engine", "scalar_engine",
      "sync_engine",   "gpsimd_engine", "cc_engine",     "system",        "throttling_nc0"};
  constexpr int kWidth = 44;
  for (const std::string_view group : kOrder) {
    bool titled = false;
    for (const auto& item : values.items()) {
      if (group_of(item.key()) != group) continue;
      if (!titled) out << group << "\n";
      titled = true;
      out << "  " << item.key()
          << std::string(static_cast<std::size_t>(
                             std::max(1, kWidth - static_cast<int>(item.key().size()))),
                         ' ')
          << human(item.key(), item.value()) << "\n";
    }
  }
}

}  // namespace

void Summary::print(std::ostream& out) const {
  if (cores_.size() > 1) {
    out << "all cores\n";
    print_metrics(out, Totals(*this).metrics());
  }
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    if (cores_.size() > 1) out << "core " << c << "\n";
    print_metrics(out, metrics(static_cast<int>(c)));
  }
}

}  // namespace nkisim
