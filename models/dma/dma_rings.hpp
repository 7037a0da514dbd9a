// Models the DMA rings of one core: its queues and engines, and the transfers under way.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <systemc>
#include <vector>

#include "models/dma/dma_engine.hpp"
#include "models/dma/dma_if.hpp"
#include "models/dma/dma_queue.hpp"
#include "models/dma/hbm_layout.hpp"
#include "models/memory/hbm_if.hpp"
#include "models/module_list.hpp"
#include "models/pool.hpp"

namespace nkisim::models {

/// The DMA engines and queues of one core: packets of transfers, and the semaphore writes that end
/// them. Passive: its core asks next() for the time at which to call step().
class DmaRings : public sc_core::sc_module, public dma_if, private HbmUser, private HbmRequester {
 public:
  [[nodiscard]] const char* kind() const override { return "DmaRings"; }
  struct Options {
    bool shares = false;    // reports each engine's share of a transfer
    bool packets = false;   // ... and every payload packet; slower
    bool fast_path = true;  // false: engines look at every transfer, also where it is alone
    const isa::Program* program = nullptr;  // whose tensors lie in HBM; null: at address 0
  };
  /// `queues`: the names of all that transfers will take.
  DmaRings(const sc_core::sc_module_name& name, CoreId id,
           std::reference_wrapper<const DmaConfig> config, const std::vector<std::string>& queues,
           const Options& options);
  ~DmaRings() override;
  sc_core::sc_port<hbm_if> hbm{"hbm"};
  sc_core::sc_port<dma_core_if> core{"core"};

  void submit(Operation& op, const DgeConfig& dge, Fs first_packet) override;
  [[nodiscard]] int outstanding(isa::DgeMode mode) override;
  [[nodiscard]] Fs backlog(QueueIndex queue, std::int64_t bytes) override;
  void occupy(double bytes) override;

  /// The queue of that name, if there is one, has this index from now on.
  void number(const std::string& queue, QueueIndex index);
  /// The time of the next step(), as of the last call of any function here; kNever if nothing is
  /// left.
  [[nodiscard]] Fs next() const {
    return std::min(updates_.empty() ? kNever : updates_.top().time, plus(soonest_, slack_));
  }
  /// Executes everything due by `now`.
  void step(Fs now);
  /// Packets that a stack outside of the model has not answered.
  [[nodiscard]] int asked() const;

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
  struct LaneTimes {
    std::vector<LaneAlone> shares;
    Fs start = kNever, planned = kNever;  // of the first of them
    Fs end = 0;                           // of the last
  };
  // Transfers of one queue while no other has any: one after the other on all engines. The engines
  // know nothing of them until they have to look at packets.
  struct ExclusiveTransfers {
    struct Pending {
      Transfer* transfer = nullptr;
      Fs ready = 0;
    };
    Fifo<Pending> pending;
    LaneTimes first, second;           // of these; the second: while the first ends
    std::vector<std::uint32_t> order;  // of the engines, by the starts of semaphore writes
    std::vector<bool> left;  // engines still to do the first, when others have done it or begun
    bool split = false;      // ... which then is the only one
  };
  void end_of_elaboration() override;
  void ask(std::size_t e, const LaneRequest& packet);
  void answered(const HbmRequest& request) override;
  void report_packets(int engine);
  bool add_alone(Transfer& transfer, Fs ready);
  void find_shares(const ExclusiveTransfers::Pending& pending, const LaneTimes* before,
                   LaneTimes& found) const;
  bool take_alone(Fs now);
  bool split_alone(Fs now, bool all);
  void end_split();
  void sort_alone();
  bool take_left(std::size_t e, Fs now);
  void finish_alone(Transfer& transfer);
  void finish_share(Transfer& t, std::size_t e);
  void report_share(Transfer& t, const LanePlan& plan, const LaneAlone& share);
  void simulate_packets();
  void push(std::size_t e, Fs ready, Transfer& transfer);
  void catch_up(Fs now);
  void take_until(Fs now, bool every) override;
  [[nodiscard]] HbmAhead ahead() const override { return ahead_; }
  [[nodiscard]] CoreId id() const override { return id_; }
  void look_at(std::size_t e, Fs now);
  void look_sooner(std::size_t e);
  void finish_lane(int engine, const LaneDone& done);
  void whole(Transfer& t, Fs now);
  [[nodiscard]] DmaQueue& queue_of(const Operation& op) const;
  void update(Transfer& transfer, int engine, Fs now);
  Transfer* allocate();

  CoreId id_;
  const DmaConfig& config_;
  Options options_;
  hbm_if* hbm_ = nullptr;            // what the ports are bound to
  HbmRequests* requests_ = nullptr;  // null: packets are planned
  HbmLayout layout_;
  dma_core_if* core_ = nullptr;
  DmaPlanner planner_;
  ModuleList<DmaEngine> engines_;
  ModuleList<DmaQueue> queues_;
  std::map<std::string, DmaQueue*, std::less<>> by_name_;
  std::vector<DmaQueue*> by_index_;
  std::vector<DmaLane*> lanes_;  // of the engines
  std::vector<Fs> planned_;      // next look per engine
  std::vector<Fs> starts_;       // ... and next packet
  HbmAhead ahead_;               // of all engines
  Fs soonest_ = kNever;          // of them
  Fs slack_ = 0;                 // how much later than at a finish engines may be looked at
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;
  Events updates_;  // semaphore writes arriving
  std::uint64_t order_ = 0;
  Pool<Transfer> store_;
  ExclusiveTransfers alone_;
  std::vector<LaneDone> done_;
  std::vector<Finished> finished_;
  std::vector<PacketTime> packets_;
  std::map<std::int64_t, LaneLoad> collective_loads_;  // of one engine, by bytes
  std::array<int, 4> outstanding_{};
};

}  // namespace nkisim::models
