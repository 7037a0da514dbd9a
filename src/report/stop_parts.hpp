// Describes parts of a simulated run's state at an instant that a user asks for (--stop-at):
// instructions, engines, tensor values.
// stop.hpp asks for one instant, stops.hpp for many.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "src/report/stop.hpp"

namespace nkisim::of_stop {

/// The part of each step of one rank that is done, by core and step.
using Effects = std::vector<std::vector<isa::StepEffect>>;

[[nodiscard]] double in_us(models::Fs time);
/// The part of each step that is executed: those that are complete, and what others have of those
/// that meet. `collectives`: the operations that have ended on some rank.
[[nodiscard]] Effects effects_of(const Steps& steps, models::Fs at,
                                 const std::set<std::int64_t>& collectives);
/// The number of a tensor. Throws Error if there is none of this name.
[[nodiscard]] std::uint32_t tensor_of(const isa::Program& program, const std::string& name);
/// The value of a tensor in `memory`.
[[nodiscard]] StopValue value_of(const isa::Program& program, std::uint32_t id, isa::Memory& memory,
                                 isa::Unwritten unwritten);
/// FILE:LINE of an instruction in the kernel, else in the trace.
[[nodiscard]] std::string place_of(const isa::Program& program, const isa::Inst& inst);
/// Instructions complete and under way, and what each engine does or waits for.
[[nodiscard]] nlohmann::ordered_json rank_json(const Steps& steps, models::Fs at);
/// The instructions under way that write a tensor.
[[nodiscard]] std::vector<std::string> writers_of(const Steps& steps, std::uint32_t tensor,
                                                  models::Fs at);

}  // namespace nkisim::of_stop
