// Reads, checks and compiles the programs to simulate, and caches them for following runs.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/job/data.hpp"
#include "src/trace/trace.hpp"

namespace nkisim {

/// A program ready to run.
struct Loaded {
  TraceFile trace = {};
  std::optional<Recorded> facts = {};                  // of a job that asks for a recorded one
  std::vector<isa::Error> odd = {};                    // checks::written_remarks, group_remarks
  std::optional<std::vector<isa::Error>> lost = {};    // checks::lost_remarks; none: not asked
  std::optional<isa::Program::Version> recorded = {};  // before it was compiled, where it is kept
  bool open = false;                                   // ... and the compiler was to give addresses
  std::string overflow = {};                           // why it runs over capacity
  compiler::CompilerOptions options = {};
  ProgramOrigin origin = {};
  std::vector<compiler::MemoryPeak> peaks = {};
  std::size_t moved = 0;
  std::optional<models::Config> config = {};  // once it was asked for
};

/// read_trace for the machine of a config (empty: the trace's target) with overrides; `bytes`: of
/// the trace, where it is no file.
[[nodiscard]] TraceFile read_for(const std::string& path, ReadOptions options,
                                 const std::string& config,
                                 const std::vector<std::string>& overrides,
                                 const std::string* bytes = nullptr);
/// The config of a name (empty: the program's target) with overrides; a usage Error if it describes
/// another target.
[[nodiscard]] models::Config config_for(const isa::Program& program, const std::string& name,
                                        const std::vector<std::string>& overrides);
/// The config of a job, loaded once.
const models::Config& config_for(const Job& job, Loaded& loaded);
/// The choices of a job's switches, the others being as for kernels if `place`, else as for placed
/// traces.
[[nodiscard]] compiler::CompilerOptions compiler_options(const Job& job, bool place);

/// Reads and compiles the programs of jobs. Keeps the last `keep` files: a job on a file that has
/// not changed is compiled again only for another machine or other switches.
class Programs {
 public:
  /// Receives the bytes read and all of them; false ends the reading by what it throws.
  using Reading = std::function<void(std::uint64_t, std::uint64_t)>;
  /// Receives a program that is read and not compiled for the job yet.
  using Read = std::function<void(const Loaded&)>;
  explicit Programs(std::size_t keep = 0) : keep_(keep) {}
  /// A trace in memory: jobs whose trace is `name` read these bytes, no file.
  void provide(std::string name, std::string bytes) {
    provided_[std::move(name)] = std::move(bytes);
  }
  Loaded& get(const Job& job, const Reading& reading, const Read& read);
  /// True if the program of a job has `lost`.
  static bool looks_for_lost(const Job& job);

 private:
  struct Kept {
    std::string file, machine;  // what it was read and compiled for
    Loaded loaded;
  };
  Kept& read(const Job& job, const std::string& key, const std::string& target,
             const Reading& reading);
  static void find_lost(const Job& job, Kept& kept);
  static void restore(const Job& job, Kept& kept);  // to what was read
  void compile(const Job& job, Kept& kept) const;
  std::size_t keep_;
  std::map<std::string, std::string> provided_;
  std::list<Kept> kept_;  // the latest first
};

}  // namespace nkisim
