// Describes each data race that was found, with its two instructions.

#include "src/report/race_report.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;

std::string located(const isa::Program& program, const isa::Inst& inst, isa::Rule rule,
                    const std::string& text) {
  isa::Error error(rule, text);
  error.at(isa::spec(inst).name, inst.loc);
  program.locate(error);
  return error.what();
}

Json instruction(const isa::Program& program, const isa::Inst& inst) {
  Json j = {{"instruction", isa::spec(inst).name},
            {"engine", isa::name(inst.engine)},
            {"core", inst.core}};
  if (inst.loc.trace_line != 0) j["line"] = inst.loc.trace_line;
  const std::string kernel = program.kernel_place(inst);
  if (!kernel.empty()) j["kernel"] = kernel;
  return j;
}

Json wait_json(const isa::SemaphoreWait& wait, const isa::SemaphoreNames& names) {
  Json j = {{"semaphore", wait.semaphore}, {"value", wait.value}};
  const auto name = names.find(wait.semaphore);
  if (name != names.end()) j["name"] = name->second;
  return j;
}

Json race(const isa::Program& program, const checks::Race& r, const isa::SemaphoreNames& names) {
  const isa::Tensor& tensor = program.tensor(*r.second_operand);
  const std::int64_t base = r.second_operand->on_chip() ? tensor.address : 0;
  Json j = {{"hazard", checks::name(r.hazard)},
            {"first", instruction(program, *r.first)},
            {"second", instruction(program, *r.second)},
            {"tensor", tensor.name},
            {"first_tensor", program.tensor(*r.first_operand).name},
            {"bytes", {r.bytes.first - base, r.bytes.last - base}},
            {"count", r.count}};
  if (r.second_operand->on_chip()) {
    j["partitions"] = {r.bytes.partition, r.bytes.partition_end};
  }
  j["waits"] = Json::array();
  for (const auto& w : r.waits) j["waits"].push_back(wait_json(w, names));
  j["text"] = located(program, *r.second, isa::Rule::unordered_accesses,
                      checks::describe(program, r, names));
  return j;
}

}  // namespace

std::vector<std::string> race_lines(const isa::Program& program, const checks::RaceReport& report,
                                    const isa::SemaphoreNames& names) {
  std::vector<std::string> lines;
  for (const checks::Race& r : report.races) {
    lines.push_back(located(program, *r.second, isa::Rule::unordered_accesses,
                            checks::describe(program, r, names)));
  }
  if (report.pairs > report.races.size()) {
    lines.push_back(std::to_string(report.pairs - report.races.size()) + " more races");
  }
  for (const checks::DeadlockedEngine& s : report.stuck) {
    lines.push_back(located(program, *s.inst, isa::Rule::semaphore_deadlock,
                            checks::describe(program, s, names)));
  }
  return lines;
}

Json race_json(const isa::Program& program, const checks::RaceReport& report,
               const isa::SemaphoreNames& names) {
  constexpr std::array<std::string_view, 3> kUnknown = {"none", "whole_tensor", "left_out"};
  Json j = {{"race_count", report.pairs},
            {"cut", report.cut},
            {"unknown_addresses", kUnknown.at(static_cast<std::size_t>(report.unknown))},
            {"races", Json::array()}};
  for (const checks::Race& r : report.races) j["races"].push_back(race(program, r, names));
  j["stuck"] = Json::array();
  for (const checks::DeadlockedEngine& s : report.stuck) {
    j["stuck"].push_back({{"at", instruction(program, *s.inst)},
                          {"text", located(program, *s.inst, isa::Rule::semaphore_deadlock,
                                           checks::describe(program, s, names))}});
  }
  return j;
}

}  // namespace nkisim
