// A timeline for ui.perfetto.dev with the tracks of the AWS profiler.
#pragma once

#include <array>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "models/observer.hpp"
#include "src/observers/protobuf.hpp"

namespace nkisim {

/// Streams a Perfetto trace (TracePacket messages) to `out` while the program runs. A process per
/// core ("Instructions 0"), a thread per row ("Vector Engine - Row 0"; slices that overlap spill
/// to further rows), tracks for DMA engines and queues, counters for DMA throughput, pending DMAs
/// and throttling.
class Perfetto : public models::Observer {
 public:
  struct Options {
    bool flows = false;  // arrows from producers to the instructions that waited for them
  };
  explicit Perfetto(std::ostream& out) : Perfetto(out, Options{}) {}
  Perfetto(std::ostream& out, Options options) : out_(out), options_(options) {}

  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_end(models::Fs end) override;

 private:
  struct Slice {
    std::string name;
    models::Fs start = 0, end = 0;
    ProtoMessage annotations;  // the debug_annotations fields, ready to append
    std::uint64_t flow = 0, ends_flow = 0;
  };
  /// A family of rows: each row holds slices that do not overlap.
  struct Rows {
    std::vector<models::Fs> free_at;
    std::vector<std::uint64_t> tracks;
  };
  void write_packet(const ProtoMessage& packet);
  void write_event(models::Fs time, std::uint64_t type, std::uint64_t track, const Slice* slice);
  void write_slice(int core, const std::string& family, const Slice& slice);
  void write_counter(models::Fs time, std::uint64_t track, double value);
  std::uint64_t row_for(int core, const std::string& family, const Slice& slice);
  std::uint64_t counter_track(int core, const std::string& counter, const std::string& unit);
  std::uint64_t instant_track(int core, const std::string& track);
  std::uint64_t process_track(int core);
  [[nodiscard]] std::string location(const isa::Inst& inst) const;
  void write_counters();
  [[nodiscard]] std::string_view operands(const models::PartEvent& event);

  std::ostream& out_;
  Options options_;
  const isa::Program* program_ = nullptr;
  std::map<std::pair<int, std::string>, Rows> rows_;
  std::map<std::pair<int, std::string>, std::uint64_t> tracks_;
  std::map<std::pair<int, models::QueueIndex>, std::string> queue_names_;
  // Changes over time, written at the end: DMA bytes per ns and pending DMAs per core.
  std::map<std::pair<int, std::string>, std::vector<std::pair<models::Fs, double>>> changes_;
  struct Disassembled {
    const isa::Inst* inst = nullptr;
    std::vector<std::string> parts;
  };
  std::array<Disassembled, isa::kEngineCount> disassembled_;
  std::uint64_t next_track_ = 1;
};

}  // namespace nkisim
