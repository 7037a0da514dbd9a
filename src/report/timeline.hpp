// Writes a run's timeline with the tracks of the AWS profiler, in any number of file formats.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/observer.hpp"
#include "src/report/occupancy.hpp"
#include "src/report/part_texts.hpp"
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
  /// A text and its number, kNotAsked before it was used.
  struct Text {
    std::string_view text = {};
    std::int64_t number = kNotAsked;
  };
  struct Place {
    std::string text;
    std::int64_t number = kNotAsked;
  };
  struct Queue {
    std::string name;
    std::int64_t number = kNotAsked;
    Rows* rows = nullptr;  // of its transfers
  };
  using Changes = std::vector<std::pair<models::Fs, double>>;
  struct Core {
    std::array<Rows*, isa::kUnitCount> units{};
    std::vector<Rows*> dma_engines;
    std::vector<Queue> queues;
    // Changes over time, written at the end.
    Changes throughput, pending, throttling;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  static constexpr std::int64_t kNotAsked = PartTexts::kNone;

  [[nodiscard]] Core& core(int id);
  [[nodiscard]] Queue& queue(int core, models::QueueIndex index);
  void write_slice(int core, Rows& rows, const std::string& family);
  void write_slice(int core, const std::string& family) {
    write_slice(core, rows_[{core, family}], family);
  }
  void write_unit_slice(int core, isa::Unit unit);
  void start_slice(std::string_view name, models::Fs start, models::Fs end);
  void argue(ArgKey key, std::int64_t number) {
    slice_.args.at(slice_.arg_count++) = {key, number, {}};
  }
  void argue(ArgKey key, std::string_view text, std::int64_t& number);
  void argue(ArgKey key, std::string_view text);
  void argue_source(const isa::Inst& inst);
  void argue_operands(const models::PartEvent& event);
  void argue_opcode(ArgKey key, isa::Opcode opcode);
  [[nodiscard]] std::int64_t number_of(std::string_view text);
  std::uint64_t row_for(int core, Rows& rows, const std::string& family);
  std::uint64_t track_for(int core, const std::string& track, const std::string* unit = nullptr);
  std::uint64_t process_track(int core);
  void write_counters();
  void write_counter(int core, const std::string& name, Changes& changes);

  Writers writers_;
  bool flows_;
  const isa::Program* program_ = nullptr;
  models::Config config_;
  std::unique_ptr<Occupancy> occupancy_;
  std::map<std::pair<int, std::string>, Rows> rows_;
  std::map<std::pair<int, std::string>, std::uint64_t> tracks_;
  std::vector<Core> cores_;
  std::uint64_t next_track_ = 1;
  TimelineSlice slice_;  // the one being written
  // Texts of arguments; what comes often knows its number.
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
  std::unique_ptr<PartTexts> operands_;
  std::vector<Text> opcodes_, ops_;
  std::array<std::int64_t, isa::kUnitCount> labels_{}, subgroups_{};
  std::unordered_map<const char*, std::int64_t> modes_;
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace nkisim
