// Says how far to trust a simulated latency: which measurements its rates come from, how much the
// compiler's choices matter, and how far simulated times of such kernels were off.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/pipeline.hpp"
#include "models/issue/cost.hpp"
#include "models/observer.hpp"
#include "src/report/few_points.hpp"
#include "src/report/repeated_loads.hpp"
#include "src/report/summary.hpp"
#include "src/report/switches.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// The origin of a run's program.
struct ProgramOrigin {
  bool kernel = false;  // recorded from a kernel; else a trace that says itself what is issued
  bool legacy = false;  // ... of neuronxcc.nki
  bool over_capacity = false;
  bool alone = true;  // false: one of several ranks
  /// Instructions or tensors that each pass of the compiler changed.
  std::vector<std::pair<std::string, std::size_t>> passes = {};
  std::optional<SwitchRuns> switches = {};  // what each would change, if that was tried
};

/// The origin of a program whose trace has been compiled.
[[nodiscard]] ProgramOrigin origin_of(const TraceFile& trace, const compiler::Compiled& done);

/// Collects one run, whose program and config outlive it. Shares are of the busy time: the
/// durations of all parts of instructions, and the mean busy time of the DMA engines.
class Confidence : public models::Observer {
 public:
  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;

  /// Valid after the run, of which `summary` says how long it took; docs/evidence.md describes the
  /// fields.
  [[nodiscard]] nlohmann::ordered_json json(const ProgramOrigin& origin,
                                            const Summary& summary) const;

 private:
  using Json = nlohmann::ordered_json;
  enum Basis : std::uint8_t { kSampled, kDocumented, kExtrapolated, kOtherChip, kAssumed };
  static constexpr std::size_t kBases = 5;
  struct Use {  // of one opcode on one unit, or of the DMA engines
    std::array<models::Fs, kBases> time{};
    std::int64_t least = 0, most = 0;  // elements per partition, or bytes of a packet
    bool used = false;
    const models::Calibrated* own = nullptr;
    bool other = false;     // sampled on another generation only
    bool doubtful = false;  // a rule of it is assumed or documented
    void add(Basis basis, std::int64_t size, models::Fs time_used);
  };
  [[nodiscard]] Use sampled(std::string_view unit, std::string_view opcode) const;
  [[nodiscard]] bool doubtful(isa::Unit unit, std::string_view opcode) const;
  [[nodiscard]] Use& use_of(const isa::Part& part);
  [[nodiscard]] static Basis basis_of(const Use& use, std::int64_t size);
  // For people: "21.3 to 41.0 us in 4 of 5 cases (...)".
  [[nodiscard]] static std::string line(const Json& json);
  [[nodiscard]] Json rates(models::Fs all) const;
  [[nodiscard]] Json interval(const ProgramOrigin& origin, double us, double uncertain,
                              Json& reasons) const;
  // The latency without rules and numbers of few measurements.
  struct Open {
    double low_us = 0, high_us = 0;
  };
  [[nodiscard]] Open open(const ProgramOrigin& origin, double us, Json& reasons) const;
  // The mean over cores of the unit that is busy longest.
  [[nodiscard]] double busiest_us() const;

  const isa::Program* program_ = nullptr;
  const models::Config* config_ = nullptr;
  std::unique_ptr<models::CostTable> costs_;
  std::unique_ptr<models::CostCache> cache_;
  std::vector<std::array<Use, isa::kUnitCount>> uses_;  // by opcode
  Use packets_;
  std::vector<models::Fs> busy_until_;  // by core and DMA engine
  std::vector<models::Fs> uneven_;  // by core, what loads that lie unevenly might take in addition
  FewPoints few_;
  RepeatedLoads repeated_;
  int cores_ = 1;
};

}  // namespace nkisim
