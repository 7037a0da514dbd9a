// Describes a simulated run at one instant (a stop): which values exist, what is under way, and who
// waits for what.
//
// The run itself goes on to its end. What was complete at the instant is then executed once more,
// without timing, from the inputs.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "isa/machine/memory.hpp"
#include "isa/world/interpreter.hpp"
#include "src/files/npy.hpp"
#include "src/report/steps.hpp"

namespace nkisim {

/// Where to stop, and what to show.
struct StopRequest {
  /// "12.3us", or FILE:LINE#N: when the N-th execution of an instruction of that line is complete.
  std::string at = {};
  std::vector<std::string> dump = {};  // names of tensors
  [[nodiscard]] bool wanted() const { return !at.empty(); }
};

/// Throws isa::Error if `wish` is written wrong, or names a tensor that the program does not have.
void check_stop(const StopRequest& wish, const isa::Program& program);

/// A tensor as it is. An element that nothing complete has written has no value.
struct StopValue {
  std::string name = {};
  isa::Dtype dtype{};
  std::vector<std::int64_t> shape = {};
  std::vector<std::byte> bytes = {};      // row-major
  std::vector<std::uint8_t> valid = {};   // of each element: whether it has a value
  std::vector<std::string> writers = {};  // instructions under way that write it
};

/// A rank of the world, as it ran.
struct StopRank {
  const Steps* steps = nullptr;
  isa::Conditions conditions = {};
};

struct Stop {
  models::Fs time = 0;
  nlohmann::ordered_json ranks = {};  // of each: what was complete, under way, and waited
  std::vector<std::vector<StopValue>> values = {};  // of each rank; none without data
};

/// Fresh memories of all ranks, their inputs loaded.
using FreshMemories = std::function<std::vector<std::unique_ptr<isa::Memory>>()>;

/// Where `wish` comes to: events at that instant belong to it. `ranks`: all of the world. Without
/// `fresh` there are no values. Throws isa::Error if the run does not come to the place.
[[nodiscard]] Stop stop_at(const StopRequest& wish, std::span<const StopRank> ranks,
                           const isa::World& world, const FreshMemories& fresh);

/// With values as lists (null: none), of tensors of no more than this many elements.
inline constexpr std::size_t kStopElements = 65536;
[[nodiscard]] nlohmann::ordered_json to_json(const Stop& stop);
/// Lines for people, of a rank in what to_json() gave.
[[nodiscard]] std::string stop_text(const nlohmann::ordered_json& stop, std::size_t rank);
/// The values of a rank as arrays: NAME, and NAME.valid where some elements have none.
void write_values(const std::string& file, const std::vector<StopValue>& values);

}  // namespace nkisim
