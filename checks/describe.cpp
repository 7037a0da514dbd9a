// Writes the races and deadlocks that the check found as text for the user.
#include <array>

#include "checks/races.hpp"
#include "checks/words.hpp"

namespace nkisim::checks {
namespace {

std::string range(std::int64_t first, std::int64_t last) {
  return last - first <= 1 ? " " + std::to_string(first)
                           : "s " + std::to_string(first) + " to " + std::to_string(last - 1);
}

// "t (partitions 0 to 127, bytes 0 to 2047)", in bytes of the tensor.
std::string place(const isa::Program& program, const isa::TensorRef& ref, const Bytes& bytes) {
  const isa::Tensor& t = program.tensor(ref);
  const std::int64_t base = ref.on_chip() ? t.address : 0;
  std::string text = t.name + " (";
  if (ref.on_chip()) text += "partition" + range(bytes.partition, bytes.partition_end) + ", ";
  return text + "byte" + range(bytes.first - base, bytes.last - base) + ")";
}

std::string agent(const isa::Program& program, const isa::Inst& inst) {
  isa::Expansion expansion;
  isa::expand(inst, program.machine(), expansion);
  std::string text = expansion.is_dma ? "a DMA of " : "on ";
  text += isa::name(inst.engine);
  if (program.cores() > 1) text += " of core " + std::to_string(inst.core);
  return text;
}

// "dma_copy at line 12 (kernel.py:30), a DMA of sync"
std::string who(const isa::Program& program, const isa::Inst& inst) {
  std::string text(isa::spec(inst).name);
  const std::string kernel = program.kernel_place(inst);
  if (inst.loc.trace_line != 0) text += " at line " + std::to_string(inst.loc.trace_line);
  if (!kernel.empty()) text += inst.loc.trace_line != 0 ? " (" + kernel + ")" : " at " + kernel;
  return text + ", " + agent(program, inst) + ",";
}

std::string semaphore(std::uint16_t id, const isa::SemaphoreNames& names) {
  const auto name = names.find(id);
  return "S[" + std::to_string(id) + "]" + (name == names.end() ? "" : " (" + name->second + ")");
}

// Advice that would order the two instructions of a race.
std::string remedy(const Race& race, const isa::SemaphoreNames& names) {
  if (race.first->core != race.second->core) {
    return "; a core_barrier of the tensor between them would order them";
  }
  if (race.waits.empty()) {
    return "; it posts to no semaphore that only its engine or queue raises: a wait for one of its "
           "own would order them";
  }
  const isa::SemaphoreWait& wanted = race.waits.front();
  std::string text = "; a wait for " + condition_text(wanted, names) + " would order them";
  if (race.second->sync == nullptr) return text;
  for (const isa::SemaphoreWait& w : race.second->sync->waits) {
    if (w.semaphore == wanted.semaphore) return text + ", not " + condition_text(w, names);
  }
  return text;
}

}  // namespace

std::string condition_text(const isa::SemaphoreWait& wait, const isa::SemaphoreNames& names) {
  constexpr std::array<const char*, 5> kSigns = {">=", "==", "<=", ">", "<"};
  return semaphore(wait.semaphore, names) + " " +
         kSigns.at(static_cast<std::size_t>(wait.compare)) + " " + std::to_string(wait.value);
}

std::string element_text(const isa::Tensor& tensor, std::int64_t element) {
  std::string text;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    text = std::to_string(element % tensor.shape[d]) + (text.empty() ? "" : ", ") + text;
    element /= tensor.shape[d];
  }
  return tensor.name + "[" + text + "]";
}

std::string place_text(const isa::Program& program, const isa::Inst& inst) {
  const std::string text = std::string(isa::spec(inst).name) + " at ";
  const std::string at = program.kernel_place(inst);
  return text + (at.empty() ? "line " + std::to_string(inst.loc.trace_line) : at);
}

std::string_view name(Hazard hazard) {
  constexpr std::array<std::string_view, 3> kNames = {"RAW", "WAR", "WAW"};
  return kNames.at(static_cast<std::size_t>(hazard));
}

std::string describe(const isa::Program& program, const Race& race,
                     const isa::SemaphoreNames& names) {
  const bool reads = race.hazard == Hazard::kReadAfterWrite;
  std::string text = "race (" + std::string(name(race.hazard)) +
                     "): " + agent(program, *race.second) + (reads ? ", reads " : ", writes ") +
                     place(program, *race.second_operand, race.bytes) + ", which " +
                     who(program, *race.first) + " may not have " +
                     (race.hazard == Hazard::kWriteAfterRead ? "read" : "written") + " yet";
  if (race.first_operand->tensor != race.second_operand->tensor) {
    text += " (as " + place(program, *race.first_operand, race.bytes) + ")";
  }
  if (race.transfers) text += "; a queue starts a transfer before the one before it has ended";
  text += remedy(race, names);
  if (race.count > 1) text += "; " + std::to_string(race.count) + " times";
  return text;
}

std::string describe(const isa::Program& program, const DeadlockedEngine& stuck,
                     const isa::SemaphoreNames& names) {
  const std::string on = agent(program, *stuck.inst);
  if (stuck.meeting) return on + ", waits for another core, which never comes here";
  const std::string wait = on + ", waits for " + condition_text(stuck.wait, names);
  if (!stuck.posted) return wait + ", and nothing posts to that semaphore";
  return wait + ", which is never reached: it ends at " + std::to_string(stuck.value);
}

isa::Error race_error(const isa::Program& program, const RaceReport& report,
                      const isa::SemaphoreNames& names) {
  const bool race = !report.races.empty();
  const isa::Inst& inst = race ? *report.races.front().second : *report.stuck.front().inst;
  std::string text = race ? describe(program, report.races.front(), names)
                          : describe(program, report.stuck.front(), names);
  const std::uint64_t more = report.pairs + report.stuck.size() - 1;
  if (more > 0) text += " (and " + std::to_string(more) + " more)";
  isa::Error error(race ? isa::Rule::unordered_accesses : isa::Rule::semaphore_deadlock, text);
  error.at(isa::spec(inst).name, inst.loc);
  program.locate(error);
  return error;
}

}  // namespace nkisim::checks
