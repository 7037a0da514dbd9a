// The DMA engines of one core.
#pragma once

#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "models/dma/dma_plan.hpp"
#include "models/operation.hpp"
#include "models/sim_session.hpp"

namespace nkisim::models {

/// One transfer in flight.
struct Transfer {
  Operation* op = nullptr;
  std::shared_ptr<const TransferPlan> plan;
  int lanes_left = 0;
  int updates_left = 0;
  bool each_update = false;  // every engine's semaphore write counts, not only the last
  Fs first_packet = kNever, last_packet = 0, visible = 0;
  std::int64_t packets = 0;
};

/// Sixteen engines behind one process: queues of packets, and the semaphore writes that end them.
class Dma : public sc_core::sc_module, private HbmUser {
 public:
  struct Client {
    /// An engine's semaphore write of this transfer has arrived.
    std::function<void(Transfer&, int engine)> on_update;
    /// All of them have.
    std::function<void(Transfer&)> on_done;
    std::function<void(const Transfer&, const LanePlan&, const LaneDone&)> on_lane;
    /// Every payload packet of an engine; slower, so only if somebody wants it.
    std::function<void(const Transfer&, int engine, const PacketTime&)> on_packet;
    /// False: engines look at every transfer, also where it is alone. The times are the same.
    bool shortcut = true;
  };
  Dma(sc_core::sc_module_name name, const DmaConfig& config, SimSession& session, Hbm& hbm,
      Client client);
  /// Starts a transfer whose first packet may go at `first_packet` (now or later).
  void submit(Operation& op, const DgeConfig& dge, Fs first_packet);
  /// So many bytes of a collective operation move now, beside the transfers.
  void occupy(double bytes);
  /// Transfers of a descriptor mode whose engines have not finished.
  [[nodiscard]] int outstanding(isa::DgeMode mode);
  /// When no engine has more than `bytes` of a queue left to begin: now if that is so, else a time
  /// at which to ask again.
  [[nodiscard]] Fs room(QueueIndex queue, std::int64_t bytes);

 private:
  struct Event {
    Fs time;
    std::uint64_t order;
    Transfer* transfer;
    int engine;
    bool operator>(const Event& o) const {
      return time != o.time ? time > o.time : order > o.order;
    }
  };
  // The share done_[at] of an engine.
  struct Finished {
    Fs semaphore_start;
    int engine;
    std::uint32_t at;
    bool operator<(const Finished& o) const {
      return semaphore_start != o.semaphore_start ? semaphore_start < o.semaphore_start
             : engine != o.engine                 ? engine < o.engine
                                                  : at < o.at;
    }
  };
  // A transfer's shares, by engine, where every engine does it alone.
  struct Together {
    std::vector<LaneAlone> shares;
    Fs start = kNever, planned = kNever;  // of the first of them
    Fs end = 0;                           // of the last
  };
  // Transfers of one queue while no other has any: one after the other on all engines. The engines
  // know nothing of them until they have to look at packets.
  struct Alone {
    struct Pending {
      Transfer* transfer = nullptr;
      Fs ready = 0;
    };
    Fifo<Pending> pending;
    Together first, second;            // of these; the second: while the first ends
    std::vector<std::uint32_t> order;  // of the engines, by the starts of semaphore writes
    std::vector<bool> left;  // engines still to do the first, when others have done it or begun
    bool split = false;      // ... which then is the only one
  };
  void step();
  void schedule();
  bool add_alone(Transfer& transfer, Fs ready);
  void find_shares(const Alone::Pending& pending, const Together* before, Together& found) const;
  bool take_alone(Fs now);
  bool split_alone(Fs now, bool all);
  void end_split();
  void sort_alone();
  bool take_left(std::size_t e, Fs now);
  void finish_alone(Transfer& transfer);
  void finish_share(Transfer& t, std::size_t e, Fs& last);
  void join_lanes();
  void push(std::size_t e, Fs ready, Transfer& transfer);
  void run_events(Fs now);
  void catch_up(Fs now);
  void take_until(Fs now, bool every) override;
  [[nodiscard]] Fs next_packet() const override;
  [[nodiscard]] int busy() const override;
  void look_at(std::size_t e, Fs now);
  void look_sooner(std::size_t e);
  void finish_lane(int engine, const LaneDone& done);
  [[nodiscard]] Fs& last_update(QueueIndex queue);
  [[nodiscard]] Fs next_update(Fs before, Fs start) const;
  void update(Transfer& transfer, int engine, Fs now);
  Transfer* allocate();

  const DmaConfig& config_;
  SimSession& session_;
  Hbm& hbm_;
  Client client_;
  sc_core::sc_event wake_;
  DmaPlanner planner_;
  std::vector<DmaLane> lanes_;
  std::vector<Fs> planned_;      // next look per engine
  Fs soonest_ = kNever;          // of them
  std::vector<Fs> last_update_;  // per queue
  std::vector<Fs> next_first_;   // per queue: earliest first packet of its next transfer
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;
  Events updates_;  // semaphore writes arriving
  std::uint64_t order_ = 0;
  std::deque<Transfer> store_;
  std::vector<Transfer*> free_;
  Alone alone_;
  std::vector<LaneDone> done_;
  std::vector<Finished> finished_;
  std::vector<PacketTime> packets_;
  std::map<std::int64_t, LaneLoad> collective_loads_;  // of one engine, by bytes
  std::array<int, 4> outstanding_{};
};

}  // namespace nkisim::models
