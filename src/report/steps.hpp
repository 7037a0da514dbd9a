// Records when each instruction of a simulated run began and was complete, and what every engine
// waited for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/observer.hpp"
#include "src/report/pointer_table.hpp"

namespace nkisim {

/// One execution of an instruction. It is complete when its last part has ended; a transfer when it
/// is visible; a collective operation when it has ended on the rank.
struct StepTimes {
  const isa::Inst* inst = nullptr;
  models::Fs start = models::kNever;
  models::Fs end = models::kNever;  // kNever: it was not seen
  std::int64_t collective = -1;     // of the operation, the same on all ranks
  [[nodiscard]] bool complete(models::Fs at) const { return end <= at; }
  [[nodiscard]] bool under_way(models::Fs at) const { return start <= at && end > at; }
};

class Steps : public models::Observer {
 public:
  struct Part {
    const isa::Inst* inst = nullptr;
    isa::Opcode opcode{};
    models::Fs start = 0, end = 0;
    models::Wait wait = {};
  };
  struct Core {
    std::vector<StepTimes> steps;                            // by their number
    std::array<std::vector<Part>, isa::kEngineCount> parts;  // by their start
    std::vector<std::string> queues;
    std::vector<models::SemaphoreEvent> semaphores;  // by their time
  };

  /// `rank`: whose events these are.
  explicit Steps(int rank) : rank_(rank) {}
  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_end(const models::RunEnd& run) override;

  [[nodiscard]] const isa::Program& program() const { return *program_; }
  [[nodiscard]] const std::vector<Core>& cores() const { return cores_; }
  [[nodiscard]] models::Fs end() const { return end_; }
  /// The run was stopped, or has failed.
  [[nodiscard]] bool partial() const { return partial_; }

 private:
  /// An instruction's form: its parts, and whether it runs in parallel with its engine.
  struct Shape {
    std::int32_t parts = 0;
    bool overlaps = false;
  };
  [[nodiscard]] StepTimes& step(int core, std::uint64_t sequence);
  [[nodiscard]] Shape shape_of(const isa::Inst& inst);

  int rank_;
  const isa::Program* program_ = nullptr;
  std::vector<Core> cores_;
  PointerTable<Shape> shapes_;
  models::Fs end_ = 0;
  bool partial_ = true;
};

}  // namespace nkisim
