// Reads and compiles programs, and finds one again by the version of its file.

#include "src/job/programs.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <utility>

#include "checks/groups.hpp"
#include "checks/statics.hpp"
#include "isa/host/host.hpp"
#include "src/config/config.hpp"

namespace nkisim {
namespace {
namespace of_programs {

// Identifies a version of a file.
std::string identity(const std::string& path) {
  std::array<std::int64_t, 4> state{};
  if (!isa::host::file_state(path, state)) return path;
  std::string text = path;
  for (const std::int64_t n : state) {
    text += '\n' + std::to_string(n);
  }
  return text;
}

// The settings that say what a program is read for.
std::string sizes_key(const Job& job) {
  std::string key = job.config.empty() ? std::string() : identity(job.config);
  for (const std::string& one : size_overrides(job.set)) key += '\n' + one;
  return key;
}

std::string file_key(const Job& job, const std::string& target) {
  return identity(job.trace) + '\n' + sizes_key(job) + '\n' + target + '\n' +
         (job.over_capacity ? "over" : "") + '\n' +
         (isa::RulePolicy(job.rules).looks_for_unread() ? "unread" : "") + '\n' + job.recorded;
}

const std::string kNoJob = "\n";  // machine_key() of no job: a program that is not compiled

std::string machine_key(const Job& job) {
  std::string key = job.config.empty() ? std::string() : identity(job.config);
  for (const std::string& one : job.set) key += '\n' + one;
  for (const auto& [name, choice] : job.switches) key.append("\n--").append(name).append(choice);
  return key;
}

}  // namespace of_programs
}  // namespace

TraceFile read_for(const std::string& path, ReadOptions options, const std::string& config,
                   const std::vector<std::string>& overrides, const std::string* bytes) {
  std::exception_ptr bad;  // a config's error is none of the trace's first line
  const std::vector<std::string> changes = size_overrides(overrides);
  if (!config.empty() || !changes.empty()) {
    options.machine = [&](std::string_view target) {
      try {
        return load_config(config.empty() ? std::string(target) : config, changes).machine;
      } catch (const isa::Error&) {
        bad = std::current_exception();
        return *isa::find_machine(target);
      }
    };
  }
  TraceFile trace =
      bytes != nullptr ? read_trace_text(*bytes, path, options) : read_trace(path, options);
  if (bad) std::rethrow_exception(bad);
  return trace;
}

models::Config config_for(const isa::Program& program, const std::string& name,
                          const std::vector<std::string>& overrides) {
  models::Config config =
      load_config(name.empty() ? std::string(program.machine().target) : name, overrides);
  if (config.target != program.machine().target) {
    throw isa::Error(isa::Rule::config_of_other_target,
                     "config " + name + " describes " + config.target + " but the trace runs on " +
                         std::string(program.machine().target) + "; add --target " + config.target);
  }
  return config;
}

const models::Config& config_for(const Job& job, Loaded& loaded) {
  if (!loaded.config) loaded.config = config_for(*loaded.trace.program, job.config, job.set);
  return *loaded.config;
}

compiler::CompilerOptions compiler_options(const Job& job, bool place) {
  const auto choice = [&job](const compiler::Switch& s) -> std::optional<std::string> {
    const auto found = job.switches.find(std::string(s.name));
    if (found == job.switches.end()) return std::nullopt;
    return found->second;
  };
  return place ? compiler::kernel_options(choice) : compiler::trace_options(choice);
}

Loaded& Programs::get(const Job& job, const Reading& reading, const Read& on_read) {
  const bool of_config = job.target.empty() && !job.config.empty();
  const std::string target = of_config ? load_config(job.config).target : job.target;
  const std::string file = of_programs::file_key(job, target);
  const std::string machine = of_programs::machine_key(job);
  const auto known = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& k) { return keep_ > 0 && k.file == file; });
  if (known != kept_.end()) kept_.splice(kept_.begin(), kept_, known);
  Kept& kept = known != kept_.end() ? kept_.front() : read(job, file, target, reading);
  if (!kept.loaded.lost && looks_for_lost(job)) find_lost(job, kept);
  on_read(kept.loaded);
  if (kept.machine == machine) return kept.loaded;
  try {
    compile(job, kept);
  } catch (...) {
    kept_.pop_front();
    throw;
  }
  kept.machine = machine;
  return kept.loaded;
}

Programs::Kept& Programs::read(const Job& job, const std::string& key, const std::string& target,
                               const Reading& reading) {
  Kept kept{.file = key, .machine = {}, .loaded = {}};
  Loaded& l = kept.loaded;
  // A program that somebody else recorded brings no sizes of a machine of its own.
  std::function<isa::Machine(std::string_view)> sizes;
  if (!job.recorded.empty()) sizes = [](std::string_view name) { return *isa::find_machine(name); };
  const auto provided = provided_.find(job.trace);
  l.trace =
      read_for(job.trace,
               {.target = target,
                .machine = std::move(sizes),
                .allow_over_capacity = job.over_capacity,
                .progress = reading},
               job.config, job.set, provided != provided_.end() ? &provided->second : nullptr);
  if (!job.recorded.empty()) l.facts = recorded(l.trace, job.recorded);
  l.open = l.trace.open;
  const isa::Program& program = *l.trace.program;
  l.odd = checks::located(program, checks::written_remarks(program));
  for (isa::Error& e : checks::located(program, checks::group_remarks(program, !l.open))) {
    l.odd.push_back(std::move(e));
  }
  if (keep_ > 0 || (l.open && job.full_confidence)) l.recorded = l.trace.program->version();
  while (!kept_.empty() && kept_.size() >= std::max<std::size_t>(keep_, 1)) kept_.pop_back();
  kept_.push_front(std::move(kept));
  kept_.front().machine = of_programs::kNoJob;
  return kept_.front();
}

// Results are lost by values alone, and a look at all of them takes a fifth of a run without
// values.
bool Programs::looks_for_lost(const Job& job) {
  return job.values || isa::RulePolicy(job.rules).asks_for_lost();
}

// A program that is kept may have been compiled meanwhile: the look is at what was read.
void Programs::find_lost(const Job& job, Kept& kept) {
  Loaded& l = kept.loaded;
  if (kept.machine != of_programs::kNoJob) restore(job, kept);
  const isa::Program& program = *l.trace.program;
  const bool unread = isa::RulePolicy(job.rules).looks_for_unread();
  l.lost = checks::located(program, checks::lost_remarks(program, unread));
}

void Programs::restore(const Job& job, Kept& kept) {
  Loaded& l = kept.loaded;
  kept.machine = of_programs::kNoJob;
  if (!l.recorded) return;
  l.trace.program->restore(*l.recorded);
  l.trace.program->set_allow_over_capacity(job.over_capacity);
  l.trace.open = l.open;
}

void Programs::compile(const Job& job, Kept& kept) const {
  Loaded& l = kept.loaded;
  restore(job, kept);
  l.config.reset();
  l.options = compiler_options(job, l.open);
  const compiler::Compiled done = compile_trace(
      l.trace, l.options, l.open, [&]() -> const models::Config& { return config_for(job, l); });
  l.overflow = done.overflow ? done.overflow->what() : "";
  l.origin = origin_of(l.trace, done);
  l.moved = done.changed("schedule");
  l.peaks = done.peaks;
}

}  // namespace nkisim
