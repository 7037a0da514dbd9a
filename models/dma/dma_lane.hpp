// Models the times of one DMA engine (a lane). It serves the packets of each queue in order, and
// several queues by time slices of so many bytes.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "models/config.hpp"
#include "models/fifo.hpp"
#include "models/observer.hpp"

namespace nkisim::models {

class hbm_if;

/// Every engine of a transfer ends its share with a semaphore write of this size.
inline constexpr std::int64_t kSemaphoreBytes = 4;

/// Equal packets in a row.
struct PacketRun {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of one packet
  Fs interval = 0;         // start to the next packet's start
  Fs duration = 0;         // start to its own end
  Fs gap = 0;              // of `interval`: its ring fetches, which packets of another queue fill
};

/// The work of one engine for a transfer: payload packets and the semaphore write that ends them.
/// Transfers that are alike share it.
struct LaneLoad {
  Fs cold = 0;         // delay of the first packet if the engine was idle
  double stall = 0;    // HBM stall per packet byte, in fs; collected into whole quanta
  int hbm_passes = 0;  // how often a byte crosses the HBM interface
  std::vector<PacketRun> runs;
  // Sums over `runs`.
  std::int64_t packets = 0, bytes = 0;
  std::int64_t largest = 0;  // packet
  Fs work = 0;
  Fs gaps = 0;  // of `work`
  // Sums of all runs but the last. In a transfer they are the payload before the semaphore write.
  std::int64_t payload_bytes = 0;
  Fs payload_work = 0;
  Fs tail = 0;  // how long their last packet goes on after the next may start
  Fs last_interval = 0;
  void add(const PacketRun& run);
};

/// A share handed to an engine.
struct LaneItem {
  QueueIndex queue = 0;
  Fs ready = 0;  // first packet may start
  const LaneLoad* load = nullptr;
  void* transfer = nullptr;
};

/// A finished share.
struct LaneDone {
  void* transfer = nullptr;
  QueueIndex queue = 0;
  Fs start = 0;            // first packet
  Fs payload_end = 0;      // end of the last payload packet
  Fs semaphore_start = 0;  // start of the semaphore write
};

/// The times of a share on an idle engine, if nothing joins or delays it.
struct LaneAlone {
  Fs planned = 0;      // DmaLane::next() before it begins
  Fs start = 0;        // first packet
  Fs end = 0;          // start of the semaphore write
  Fs free = 0;         // the engine may start its next packet
  double stalled = 0;  // HBM stall collected by then, below one quantum
};

/// One packet, semaphore writes left out.
struct PacketTime {
  void* transfer = nullptr;
  QueueIndex queue = 0;
  Fs start = 0, duration = 0;
  std::int64_t bytes = 0;
};

/// A payload packet that starts, where each is asked for (DmaLane::ask_by).
struct LaneRequest {
  void* transfer = nullptr;
  std::int64_t offset = 0, bytes = 0;  // in the engine's share
  int passes = 0;                      // over the HBM interface
  Fs span = 0;                         // until the next packet, at the engine's own rate
  std::uint64_t tag = 0;
};

/// Computes packet times in bulk: the work per call depends on the number of transfers, not of
/// packets. Packets never start before they are known to be next, so items may be pushed late.
class DmaLane {
 public:
  explicit DmaLane(std::reference_wrapper<const DmaConfig> config) : config_(config) {}
  /// Before the first share: the stack that its packets reach.
  void reach(hbm_if& hbm);
  /// True if the item is the first of its queue, so that the next finish may have moved.
  bool push(QueueIndex queue, Fs ready, const LaneLoad& load, void* transfer);
  bool push(const LaneItem& item) {
    return push(item.queue, item.ready, *item.load, item.transfer);
  }
  /// The times of a share that has the engine for itself until it is done. push() and advance() at
  /// its `end` or later give the same. `before` is an earlier share of the idle engine. Requires
  /// can_be_alone().
  [[nodiscard]] LaneAlone alone(Fs ready, const LaneLoad& load) const {
    return alone_after({.free = free_, .stalled = stalled_}, ready, load);
  }
  [[nodiscard]] LaneAlone alone_after(const LaneAlone& before, Fs ready,
                                      const LaneLoad& load) const;
  [[nodiscard]] bool can_be_alone(const LaneLoad& load) const {
    return busy_ == 0 && sink_ == nullptr && (hbm_ == nullptr || load.hbm_passes == 0) &&
           (load.cold == 0 || load.runs.size() == 2);  // stalls are of runs
  }
  /// The share is done.
  void did_alone(QueueIndex queue, const LaneLoad& load, const LaneAlone& share) {
    serve(queue);
    slice_ += load.bytes;
    stalled_ = share.stalled;
    free_ = share.free;
  }
  /// From now on every packet is computed by itself and appended to `sink`.
  void record(std::vector<PacketTime>& sink) { sink_ = &sink; }
  /// From now on a packet that crosses the HBM interface is asked for when it starts, and has ended
  /// when answered() was called once for each pass, never within `ask`. Of `outstanding` packets
  /// one must have ended before the next starts. advance() is called at next(), and after an
  /// answer.
  void ask_by(std::function<void(const LaneRequest&)> ask, int outstanding);
  /// Appends the share, if that was the last that it waited for.
  void answered(std::uint64_t tag, Fs now, std::vector<LaneDone>& done);
  /// Packets that have not been answered.
  [[nodiscard]] int asked() const { return asked_; }
  /// Processes every packet that starts at or before `now`; appends the items that finished.
  void advance(Fs now, std::vector<LaneDone>& done);
  /// A time at which to call advance() next: at most the next finish; kNever if idle.
  [[nodiscard]] Fs next() const;
  /// The start of the next packet; kNever if idle. As of the last advance().
  [[nodiscard]] Fs earliest() const { return ready_ == kNever ? kNever : std::max(ready_, free_); }
  [[nodiscard]] bool busy() const { return busy_ > 0; }
  /// The time when at most `bytes` of a queue's have not begun to move, if nothing delays it; 0 if
  /// that is so already. As of the last advance().
  [[nodiscard]] Fs backlog(QueueIndex queue, std::int64_t bytes) const;

 private:
  struct Active {
    LaneItem item;
    std::size_t run = 0;      // current run
    std::int64_t packet = 0;  // packets done in it
    std::int64_t total = 0;   // packets left
    Fs work = 0;              // time left without stalls
    Fs gaps = 0;              // of it
    Fs first = kNever, payload_end = 0;
    std::int64_t bytes = 0;   // left
    bool cold = false;        // the next packet pays the cold delay
    std::uint64_t share = 0;  // of asked_shares_
  };
  struct AskedShare {
    LaneDone done;        // what is known of it
    int left = 0;         // packets
    bool issued = false;  // its semaphore write was sent
  };
  struct AskedPacket {
    std::uint64_t share = 0;
    PacketTime time;  // at the engine's own rate
    Fs tail = 0;      // how long it goes on after the next may start
    int left = 0;     // answers
  };
  struct Queue {
    QueueIndex index = 0;
    bool busy = false;
    Active head = {};          // if it is busy
    Fifo<LaneItem> next = {};  // behind it
    void begin(Fs ready, const LaneLoad& load, void* transfer);
  };
  [[nodiscard]] Queue* pick(Fs at);
  [[nodiscard]] Fs next_ready(Fs after) const;
  [[nodiscard]] std::size_t sole() const;
  [[nodiscard]] Fs finish_alone(const Active& a) const;
  [[nodiscard]] Fs certain_stall(const Active& a) const;
  [[nodiscard]] Fs cold_ahead(const Active& a, Fs at) const;
  bool advance_sole(Queue& queue, Fs now, std::vector<LaneDone>& done);
  bool advance_shared(Fs now, std::vector<LaneDone>& done);
  void step(Queue& queue, Fs limit, bool sole, std::vector<LaneDone>& done);
  void finish(Queue& queue, const LaneDone& share, std::vector<LaneDone>& done);
  void next_share(Queue& queue);
  void advance_asking(Fs now, std::vector<LaneDone>& done);
  void ask_next(Queue& queue, std::vector<LaneDone>& done);
  void ask(const Active& a, const PacketTime& packet, Fs tail, Fs span);
  bool whole(Queue& queue, Fs limit, std::vector<LaneDone>& done);
  bool rounds(Fs limit);
  void take(Active& a, std::int64_t packets);
  [[nodiscard]] std::int64_t until(const Active& a, Fs limit) const;
  [[nodiscard]] std::int64_t rest_of_slice(const Active& a, Fs span) const;
  // Its slice begins, unless it goes on because no other queue is ready.
  void serve(QueueIndex queue) {
    if (last_ != queue) slice_ = 0;
    last_ = queue;
  }
  [[nodiscard]] std::int64_t slice_of(const Active& a) const;
  [[nodiscard]] std::int64_t slices_of_others(const Queue& queue) const;
  [[nodiscard]] Fs whole_quanta(double stalled) const;
  [[nodiscard]] Fs stall_ahead(const Active& a, std::int64_t packets) const;
  Fs stall(const Active& a, std::int64_t packets);
  [[nodiscard]] static double stack_bytes(const Active& a, std::int64_t packets);
  Fs contention(Fs start, Fs span, double bytes);

  const DmaConfig& config_;
  hbm_if* hbm_ = nullptr;  // null: it does not limit
  std::vector<Queue> queues_;
  int busy_ = 0;            // queues with work
  QueueIndex last_ = 0;     // queue served last
  std::int64_t slice_ = 0;  // bytes of its slice so far
  Fs free_ = 0;             // engine may start its next packet
  Fs ready_ = kNever;       // of the first share of any queue
  double stalled_ = 0;      // HBM stall collected, below one quantum
  std::vector<PacketTime>* sink_ = nullptr;
  std::function<void(const LaneRequest&)> ask_;  // empty: packets are planned
  int outstanding_ = 0, asked_ = 0;
  std::uint64_t last_tag_ = 0, last_share_ = 0;
  std::map<std::uint64_t, AskedPacket> asked_packets_;  // by tag
  std::map<std::uint64_t, AskedShare> asked_shares_;
};

}  // namespace nkisim::models
