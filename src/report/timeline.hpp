// A timeline with the tracks of the AWS profiler, in any number of file formats.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/observer.hpp"
#include "src/report/occupancy.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {

/// Streams to the writers while the program runs. A process per core ("Instructions 0"), a row per
/// unit ("Vector Engine - Row 0"; slices that overlap spill to further rows), rows for DMA engines
/// and queues, counters for DMA throughput, pending DMAs, throttling and the occupancy of SBUF and
/// PSUM. A run that was stopped says so on a track of its own.
class Timeline : public models::Observer {
 public:
  using Writers = std::vector<std::unique_ptr<TimelineWriter>>;
  /// `flows`: arrows from producers to the instructions that waited for them.
  explicit Timeline(Writers writers, bool flows = false)
      : writers_(std::move(writers)), flows_(flows) {}

  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;
  void on_end(const models::RunEnd& run) override;

 private:
  /// A family of rows: each row holds slices that do not overlap.
  struct Rows {
    std::vector<models::Fs> free_at;
    std::vector<std::uint64_t> tracks;
  };
  struct Disassembled {
    const isa::Inst* inst = nullptr;
    std::vector<std::string> parts;
  };
  void write_slice(int core, const std::string& family);
  void start_slice(std::string_view name, models::Fs start, models::Fs end);
  void argue(ArgKey key, std::int64_t number) { slice_.args.push_back({key, number, {}}); }
  void argue(ArgKey key, std::string_view text);
  void argue_source(const isa::Inst& inst);
  std::uint64_t row_for(int core, const std::string& family);
  std::uint64_t track_for(int core, const std::string& track, const std::string* unit = nullptr);
  std::uint64_t process_track(int core);
  void write_counters();
  [[nodiscard]] std::string_view operands(const models::PartEvent& event);

  Writers writers_;
  bool flows_;
  const isa::Program* program_ = nullptr;
  models::Config config_;
  std::unique_ptr<Occupancy> occupancy_;
  std::map<std::pair<int, std::string>, Rows> rows_;
  std::map<std::pair<int, std::string>, std::uint64_t> tracks_;
  std::map<std::pair<int, models::QueueIndex>, std::string> queue_names_;
  // Changes over time, written at the end, per core and counter.
  std::map<std::pair<int, std::string>, std::vector<std::pair<models::Fs, double>>> changes_;
  std::array<Disassembled, isa::kEngineCount> disassembled_;
  std::uint64_t next_track_ = 1;
  TimelineSlice slice_;  // the one being written
  std::string source_;   // its place in the kernel
};

}  // namespace nkisim
