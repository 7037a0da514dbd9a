// Declares the events of a simulation, with integer times in femtoseconds, and their observers.
// Every report is an observer; models count nothing themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isa/program/program.hpp"
#include "models/collective/timing.hpp"
#include "models/config.hpp"

namespace nkisim::models {

/// A queue of a core: 0..4 are the engines (isa::Engine), higher ones its DMA queues.
using QueueIndex = std::uint16_t;
inline constexpr QueueIndex kNoQueue = 0xffff;

/// Everything that bounded a part's start; `start` is the maximum of the moments given. Time before
/// the start is charged in this order: to the producer until `producer_end`, to the semaphore until
/// `awake`, to the port until `port_free`, to the own data path until `pipe_free`, to the
/// sequencer until `ready`.
struct Wait {
  Fs ready = 0;         // the sequencer had issued the previous instruction
  Fs producer_end = 0;  // end of the last awaited instruction or transfer
  Fs visible = 0;       // its semaphore update arrived
  Fs awake = 0;         // ... and had woken this instruction
  Fs pipe_free = 0;     // own data path (or same-engine result) available
  Fs port_free = 0;     // shared memory port available
  QueueIndex producer = kNoQueue;
  std::int32_t semaphore = -1;          // explicit semaphores: the one that came last
  std::uint64_t producer_sequence = 0;  // Step::sequence of the awaited instruction
  isa::Engine port_holder = isa::Engine::kAny;
};

/// One part of an instruction ran [start, end); sent when it ends, in time order per core.
struct PartEvent {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  int core = 0;
  int part_index = 0;  // negative: a wait added before the instruction
  const isa::Part* part = nullptr;
  std::string_view mode = {};  // performance_mode, empty if none
  PartKind kind = PartKind::kPipe;
  Fs start = 0, end = 0;
  Fs busy_from = 0, busy_to = 0;  // PE array: when data streams
  Fs throttled = 0;               // of the duration, lost to the utilisation limit
  Fs sooner = 0, later = 0;       // what the end would differ by if the limit were lifted or not
  Wait wait = {};
};

/// One DMA engine's share of a transfer. Its packets follow each other from `start`; `end` is the
/// end of the last, without the semaphore write.
struct DmaLaneEvent {
  int core = 0;
  int engine = 0;
  QueueIndex queue = 0;
  std::uint64_t sequence = 0;
  const isa::Inst* inst = nullptr;
  Fs start = 0, end = 0;
  std::int64_t bytes = 0, packets = 0, packet_bytes = 0;
};

/// One payload packet of a DMA engine; sent only if an observer wants_packets().
struct DmaPacketEvent {
  int core = 0;
  int engine = 0;
  QueueIndex queue = 0;
  std::uint64_t sequence = 0;
  const isa::Inst* inst = nullptr;
  Fs start = 0, end = 0;
  std::int64_t bytes = 0;
};

/// A whole transfer, sent when its completion is visible.
struct DmaEvent {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  int core = 0;
  QueueIndex queue = 0;
  isa::DgeMode mode{};
  const isa::DmaWork* work = nullptr;
  Fs trigger_start = 0, trigger_end = 0;
  Fs first_packet = 0;  // earliest payload start
  Fs last_packet = 0;   // latest payload end
  Fs visible = 0;       // semaphore updated
  std::int64_t packets = 0;
};

/// The walk of the program has put an instruction into an engine's queue, where it stays until its
/// first part begins; sent only if an observer wants_queued().
struct QueuedEvent {
  int core = 0;
  isa::Engine engine{};
  Fs time = 0;
};

struct SemaphoreEvent {
  int core = 0;
  int semaphore = 0;
  std::int64_t value = 0;
  Fs time = 0;
  const isa::Inst* inst = nullptr;
};

/// A collective operation has ended on a rank; sent once per core, since every core has triggered
/// it.
struct CollectiveEvent {
  const isa::Inst* inst = nullptr;
  std::uint64_t sequence = 0;
  int core = 0;
  QueueIndex queue = 0;
  isa::Engine engine{};  // that triggered it
  Fs trigger_start = 0, trigger_end = 0;
  int rank = 0;
  const RankPart* part = nullptr;
};

/// The run is over; `partial` if it was stopped before the program's end. Transfers still under way
/// are then never announced.
struct RunEnd {
  Fs time = 0;
  bool partial = false;
};

struct QueueName {
  int core = 0;
  QueueIndex index = 0;
  std::string name;  // "Vector", "qSyncDynamicHW", ...
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const isa::Program&, const Config&) {}
  virtual void on_queue(const QueueName&) {}  // before its first event
  virtual void on_event(const PartEvent&) {}
  virtual void on_event(const DmaLaneEvent&) {}
  virtual void on_event(const DmaPacketEvent&) {}
  virtual void on_event(const DmaEvent&) {}
  virtual void on_event(const QueuedEvent&) {}
  virtual void on_event(const SemaphoreEvent&) {}
  virtual void on_event(const CollectiveEvent&) {}
  virtual void on_end(const RunEnd&) {}
  /// Packets are many: they are announced one by one only to who asks.
  [[nodiscard]] virtual bool wants_packets() const { return false; }
  /// So are the instructions that are put into queues.
  [[nodiscard]] virtual bool wants_queued() const { return false; }
};

class ObserverList {
 public:
  ObserverList() = default;
  explicit ObserverList(std::vector<Observer*> observers) : observers_(std::move(observers)) {}
  [[nodiscard]] bool active() const { return !observers_.empty(); }
  [[nodiscard]] bool wants_packets() const {
    for (const Observer* o : observers_) {
      if (o->wants_packets()) return true;
    }
    return false;
  }
  [[nodiscard]] bool wants_queued() const {
    return std::any_of(observers_.begin(), observers_.end(),
                       [](const Observer* o) { return o->wants_queued(); });
  }
  template <typename Event>
  void send(const Event& event) const {
    for (Observer* o : observers_) o->on_event(event);
  }
  void start(const isa::Program& program, const Config& config) const {
    for (Observer* o : observers_) o->on_start(program, config);
  }
  void queue(const QueueName& queue) const {
    for (Observer* o : observers_) o->on_queue(queue);
  }
  void end(const RunEnd& end) const {
    for (Observer* o : observers_) o->on_end(end);
  }

 private:
  std::vector<Observer*> observers_;
};

}  // namespace nkisim::models
