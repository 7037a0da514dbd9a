// Records signals for a waveform viewer: the state of every block of the chip over time.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/issue/cost.hpp"
#include "models/observer.hpp"
#include "src/report/vcd.hpp"

namespace nkisim {

/// Modules have the names of SystemC's hierarchy (models/README.md). docs/profile.md lists the
/// signals. Everything is kept until write().
class Waves : public models::Observer {
 public:
  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaLaneEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::QueuedEvent& event) override;
  void on_event(const models::SemaphoreEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;
  void on_end(const models::RunEnd& run) override;
  [[nodiscard]] bool wants_queued() const override { return true; }
  /// A VCD file of a rank of this number, after the run.
  void write(std::size_t rank, const ByteSink& out);

 private:
  using Fs = models::Fs;
  /// Something under way in [from, to).
  struct Span {
    Fs from = 0, to = 0;
    std::int64_t first = 0, second = 0, third = 0, fourth = 0;  // what is shown of it
  };
  using Spans = std::vector<Span>;
  using Changes = std::vector<std::pair<Fs, std::int64_t>>;  // of a number, by how much
  struct Engine {
    Spans parts;  // instruction, opcode, line, sequence
    Spans waits;  // for whom
    Changes queued;
    std::uint64_t last = 0;  // sequence of the last that has begun
    bool begun = false;      // one has
    std::uint64_t sequence = 0;
    Fs done = 0;  // of the instruction of this sequence, as others see it
    bool counts = false;
  };
  struct Queue {
    std::string name;
    Changes transfers, bytes, moving;
    Changes completed;  // semaphores that the simulator placed
  };
  struct Core {
    std::array<Engine, isa::kEngineCount> engines;
    std::vector<Queue> queues;
    std::vector<Spans> dma_engines;     // queue, sequence
    std::map<int, Changes> semaphores;  // values
    std::vector<Spans> banks;           // engine's bit, tensor
    std::vector<Spans> ports;           // by PortRule; engine
    std::vector<std::vector<Spans>> bank_ports;
    std::unordered_map<std::uint64_t, std::vector<models::DmaLaneEvent>> lanes;  // by transfer
  };
  /// Bytes by window of time.
  using Windows = std::vector<double>;

  [[nodiscard]] Core& core(int id) { return cores_.at(static_cast<std::size_t>(id)); }
  [[nodiscard]] Queue& queue(int core, models::QueueIndex index);
  [[nodiscard]] std::string queue_name(int core, models::QueueIndex index);
  [[nodiscard]] std::int64_t line_of(const isa::Inst& inst);
  void add_waits(Engine& engine, const models::PartEvent& event);
  void add_memory(Core& core, const models::PartEvent& event);
  void count(Core& core, int engine, const models::PartEvent& event);
  void close(Core& core, int engine);
  template <typename Fn>
  void each_bank(const isa::Inst& inst, Fn&& fn);
  static void add_bytes(Windows& windows, const models::DmaLaneEvent& lane);

  void build();
  void build_engine(const std::string& module, Engine& engine);
  void build_dma(const std::string& module, Core& core);
  void build_memories(const std::string& module, Core& core);
  void build_owner(const std::string& module, Spans& spans, bool with_tensor);
  void build_semaphores(const std::string& module, Core& core);
  void build_latest(const std::string& module, const std::string& name, Spans& spans);
  void build_number(const std::string& module, const std::string& name, Changes& changes,
                    Vcd::Kind kind = Vcd::Kind::kNumber);
  void build_windows(const std::string& name, const Windows& windows);

  const isa::Program* program_ = nullptr;
  models::Config config_;
  std::unique_ptr<models::CostTable> costs_;
  std::vector<Core> cores_;
  std::map<int, Spans> collectives_;  // by CC-core: operation
  Windows read_, written_;            // of HBM
  Vcd vcd_;
  std::unordered_map<std::uint64_t, std::int64_t> places_;
  Fs end_ = 0;
  bool partial_ = false, built_ = false;
};

}  // namespace nkisim
