// Accounts for the simulated time of a run: each femtosecond of every engine and DMA queue has
// exactly one cause.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/issue/cost.hpp"
#include "models/observer.hpp"
#include "src/report/columns.hpp"

namespace nkisim {

enum class Cause : std::uint8_t {
  kBusy,        // streaming data, or the sequencer at work
  kThrottle,    // lost to the utilisation limit of the PE array
  kFixed,       // pipeline fill and drain, descriptor generation
  kWaitEngine,  // for the result of another engine (subject)
  kWaitDma,     // for a DMA queue (subject) whose packets are moving
  kHbm,         // the same, lost to the memory's bandwidth
  kDmaLatency,  // for a DMA queue (subject) before its first packet
  kDmaEngines,  // the DMA engines served other queues
  kPort,        // memory port or bank held by another engine (subject)
  kSemaphore,   // the update travels and wakes the instruction
  kOwnPath,     // own data path, or an own result not yet written
  kIssue,       // sequencer: start-up and issue
  kEnd,         // idle after the last instruction
  kWaitRank,    // for another rank (subject) to come to a collective operation
  kCollective,  // for one under way, from its trigger on
};
inline constexpr std::size_t kCauseCount = 15;
[[nodiscard]] std::string_view name(Cause cause);

/// Time by cause.
using Causes = std::array<models::Fs, kCauseCount>;

/// One executed part of an instruction, with what the critical path needs of its wait
/// (models::Wait).
struct PartRecord {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  models::Fs start = 0, end = 0;
  models::Fs held_until = 0;  // data path; the PE array is free before the result is written
  models::Fs producer_end = 0;
  std::uint64_t producer_sequence = 0;
  models::QueueIndex producer = models::kNoQueue;
  isa::Opcode opcode{};
  isa::Unit unit{};
  isa::Engine port_holder = isa::Engine::kAny;  // kAny: no port delayed the start
  bool woken = false;                           // a semaphore did
};

struct TransferRecord {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  models::Fs trigger_start = 0, trigger_end = 0, ready = 0, first_packet = 0, last_packet = 0,
             visible = 0;
  std::int64_t bytes = 0;
  bool reads_hbm = false, writes_hbm = false;
};

struct CollectiveRecord {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  isa::Engine engine{};
  std::int64_t id = 0;  // the same on all ranks
  models::Fs trigger_end = 0, start = 0, ready = 0, end = 0;
  int waited_for = -1;  // the rank that came last; -1: this one
};

/// A cause and the engine, queue or rank it names (models::kNoQueue if none).
using Charge = std::pair<Cause, models::QueueIndex>;
using Charges = std::map<Charge, models::Fs>;

class Accounting : public models::Observer {
 public:
  /// kPath: only what the critical path needs, and of a long run only its latest instructions.
  enum class Keeps : std::uint8_t { kAll, kPath };
  explicit Accounting(Keeps keeps = Keeps::kAll) : keeps_(keeps) {}
  [[nodiscard]] Keeps keeps() const { return keeps_; }

  struct Engine {
    std::deque<PartRecord> parts;            // in start order; grows without copies
    Causes last{};                           // charged to the last part, until it is closed
    std::array<Column, kCauseCount> closed;  // charged to the parts before, by cause
    Charges total;
    struct Recent {  // of `total`, by cause
      models::QueueIndex where = 0;
      models::Fs* time = nullptr;
    };
    std::array<Recent, kCauseCount> recent{};
    models::Fs charged = 0, cover = 0;
    bool in_order = true;  // starts and sequences of its parts never decrease
    void close();
  };
  struct Queue {
    std::string name;
    std::vector<TransferRecord> transfers;      // in order of their sequences
    std::vector<CollectiveRecord> collectives;  // of a queue without transfers; the same
    Charges total;
    [[nodiscard]] bool used() const { return !transfers.empty() || !collectives.empty(); }
    /// Null: it has not ended, or is forgotten.
    [[nodiscard]] const TransferRecord* transfer(std::uint64_t sequence) const;
    [[nodiscard]] const CollectiveRecord* collective(std::uint64_t sequence) const;
  };
  struct Core {
    std::array<Engine, isa::kEngineCount> engines;
    std::vector<Queue> queues;  // by QueueIndex; the first are the engines' names
  };

  void on_start(const isa::Program& program, const models::Config& config) override;
  void on_queue(const models::QueueName& queue) override;
  void on_event(const models::PartEvent& event) override;
  void on_event(const models::DmaEvent& event) override;
  void on_event(const models::CollectiveEvent& event) override;
  void on_end(const models::RunEnd& run) override;

  [[nodiscard]] const std::vector<Core>& cores() const { return cores_; }
  [[nodiscard]] models::Fs end() const { return end_; }
  /// The run was stopped: kEnd then also holds what was never seen to finish.
  [[nodiscard]] bool partial() const { return partial_; }
  /// The shares of a long run's critical path are those after this time, whatever is kept: what
  /// ended until then may be forgotten (Keeps::kPath).
  [[nodiscard]] models::Fs forgotten() const { return forgotten_; }
  [[nodiscard]] const isa::Program& program() const { return *program_; }
  /// "waiting for Vector", "waiting for DMA queue qSyncDynamicHW", "issue", ...
  [[nodiscard]] std::string describe(int core, Charge charge) const;

 private:
  Core& core(int id) { return cores_.at(static_cast<std::size_t>(id)); }
  static void see(Engine& engine, const models::PartEvent& event);
  void forget_early();
  void charge(Engine& engine, Charge charge, models::Fs until);  // to its last part
  void charge_wait(Core& c, Engine& engine, const models::PartEvent& event);
  void charge_transfer(const Core& c, Engine& engine, const models::Wait& w, models::Fs until);
  void charge_collective(Engine& engine, const CollectiveRecord& c, models::Fs until);
  void charge_queue(Queue& queue) const;
  void charge_collectives(Queue& queue) const;
  [[nodiscard]] models::Fs hbm_share(models::Fs time, const TransferRecord& t) const;

  const isa::Program* program_ = nullptr;
  const models::Config* config_ = nullptr;
  std::unique_ptr<models::CostTable> costs_;
  std::vector<Core> cores_;
  models::Fs end_ = 0;
  bool partial_ = false;
  Keeps keeps_;
  models::Fs forgotten_ = 0;
};

/// A piece of the critical path: what ran, or what was waited for, from `from` to `to`.
struct PathItem {
  models::Fs from = 0, to = 0;
  Cause cause = Cause::kBusy;
  models::QueueIndex where = 0;  // engine or DMA queue
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  int rank = 0, core = 0;  // where it was
};
/// From time zero to the end of `core` without a gap, earliest first.
[[nodiscard]] std::vector<PathItem> critical_path(const Accounting& accounting, int core);
/// The same piece by piece, latest first, held nowhere.
void trace_back(const Accounting& accounting, int core,
                const std::function<void(const PathItem&)>& piece);
/// The same of a world, whose ranks' accountings are `ranks`: from the end of the rank that ends
/// last, through collective operations to the ranks that were waited for.
[[nodiscard]] std::vector<PathItem> critical_path(std::span<const Accounting* const> ranks);

/// The pieces of a world's path, {rank, core, from_fs, to_fs, cause, where, instruction, source}.
[[nodiscard]] nlohmann::ordered_json world_path_json(std::span<const Accounting* const> ranks);

/// The time of every engine and DMA queue by cause, as JSON.
[[nodiscard]] nlohmann::ordered_json accounting_json(const Accounting& accounting);
/// The same as text, further by opcode and source line, with a row per executed part and per piece
/// of the critical path; the rows are written as they come and never held together.
void write_accounting(const Accounting& accounting,
                      const std::function<void(std::string_view)>& out);

}  // namespace nkisim
