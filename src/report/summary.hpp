// Computes the summary of a simulated run, with the metrics of neuron-profile's summary-json and
// summary-text.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "models/observer.hpp"
#include "src/report/bound.hpp"

namespace nkisim {

/// A stretch of simulated time.
struct Interval {
  models::Fs start = 0, end = 0;
};
/// Total length of the union; sorts and merges `intervals` in place.
[[nodiscard]] models::Fs merge_intervals(std::vector<Interval>& intervals);

/// Collects one run, whose program and config outlive it. Names, units and scale are those of the
/// AWS profiler (schema 7.4.0): times in seconds, sizes in bytes, every *_percent a fraction from 0
/// to 1.
class Summary : public models::Observer {
 public:
  /// Before the run: bound() is to be of this critical path. It sees each event, and the end,
  /// first.
  void follow(const Accounting& path) { path_ = &path; }
  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;
  void on_end(const models::RunEnd& run) override;

  /// The metrics of one core, flat; "partial": true leads those of a run that was stopped. Valid
  /// after the run.
  [[nodiscard]] nlohmann::ordered_json metrics(int core = 0) const;
  [[nodiscard]] bool partial() const { return partial_; }
  [[nodiscard]] std::size_t cores() const { return cores_.size(); }
  /// summary-json: one node per core, {"nc_0": {...}}.
  [[nodiscard]] nlohmann::ordered_json json() const;
  /// From the first start to the last end of anything on any core.
  [[nodiscard]] Interval span() const;
  /// The bottleneck of the core that ends last; none without follow().
  [[nodiscard]] std::optional<Bound> bound() const;
  /// summary-text: grouped, human units, percentages.
  void print(std::ostream& out) const;

 private:
  friend class Totals;
  struct EngineTotals {
    std::vector<Interval> active;
    models::Fs time = 0;
    models::Fs streaming = 0;  // of it, an element a cycle
    std::int64_t count = 0;
  };
  struct DmaClass {
    std::vector<Interval> active;
    std::int64_t packets = 0, bytes = 0;
  };
  struct Moved {
    std::int64_t count = 0, bytes = 0;
  };
  struct CoreTotals {
    std::array<EngineTotals, isa::kEngineCount> engines;
    std::array<DmaClass, 4> dma;  // by isa::DgeMode
    models::Fs packet_time = 0, transfer_time = 0, activate_time = 0, throttled = 0;
    models::Fs slow_time = 0, slow_until = 0;  // of slowed stretches; end of the open one, or 0
    models::Fs matmul_time = 0;
    std::int64_t matmuls = 0, activates = 0, transfers = 0;
    std::int64_t hbm_read = 0, hbm_write = 0, sbuf_read = 0, sbuf_write = 0;
    std::int64_t psum_read = 0, psum_write = 0;
    Moved evicted;  // PSUM to SBUF
    std::int64_t input_queue = 0, output_queue = 0, weight_queue = 0;
    std::array<std::int64_t, 2> spilled{};  // bytes saved, bytes loaded back
    double flops = 0, transpose_flops = 0, adjusted_flops = 0, adjusted_transpose_flops = 0;
    std::set<models::QueueIndex> queues;
    std::int64_t other_queues = 0;          // of the other cores that this one stands for
    Interval span{models::kNever, 0};       // of everything
    Interval exec_span{models::kNever, 0};  // ... without set-up opcodes
    std::int64_t semaphore_updates = 0, lanes = 0;
    std::vector<Interval> cc_ops, cc_instructions;
  };
  using Json = nlohmann::ordered_json;
  CoreTotals& core(int id);
  [[nodiscard]] std::size_t last_core() const;
  [[nodiscard]] models::Fs streaming(const models::PartEvent& event) const;
  // All cores of all ranks as one, which Totals makes.
  static Summary joined(const std::vector<const Summary*>& ranks);
  void join(const Summary& rank, const CoreTotals& c, int times);
  static void join_dma(CoreTotals& all, const CoreTotals& c, int times);
  static void join_counts(CoreTotals& all, const CoreTotals& c, int times);
  static void count_throttle(CoreTotals& c, const models::PartEvent& event);
  void add_static_bytes(CoreTotals& c, const models::DmaEvent& event) const;
  void add_spilled(CoreTotals& c, const models::DmaEvent& event) const;
  void add_flops(CoreTotals& c, const isa::Part& part) const;
  void put_overall(Json& out, const CoreTotals& c, double seconds) const;
  void put_flops(Json& out, const CoreTotals& c, double seconds) const;
  void put_engines(Json& out, const CoreTotals& c, double seconds) const;
  void put_dma(Json& out, const CoreTotals& c, double seconds) const;
  void put_memory(Json& out, const CoreTotals& c) const;
  static void put_collectives(Json& out, const CoreTotals& c, double seconds);
  void put_throttle(Json& out, const CoreTotals& c, int id) const;

  const isa::Program* program_ = nullptr;
  const models::Config* config_ = nullptr;
  const Accounting* path_ = nullptr;              // until the end
  std::optional<std::vector<PathShare>> shares_;  // then, of the core that ends last
  std::vector<CoreTotals> cores_;
  std::int64_t input_bytes_ = 0, output_bytes_ = 0, weight_bytes_ = 0;
  bool partial_ = false, spills_ = false;
  int joined_ = 1;              // cores that the only one stands for ...
  std::vector<Interval> busy_;  // ... and when any of them works
};

}  // namespace nkisim
