// Reorders the instructions of one basic block with a list scheduler (compiler pass `schedule`).
#pragma once

#include <array>
#include <boost/intrusive/slist.hpp>
#include <queue>
#include <span>

#include "compiler/analysis/estimate.hpp"
#include "compiler/analysis/precedence.hpp"
#include "compiler/analysis/sbuf_budget.hpp"
#include "models/pool.hpp"

namespace nkisim::compiler {

/// A simulation with estimated times and unlimited queues, in which every engine takes the oldest
/// ready instruction.
class BlockScheduler {
 public:
  struct Context {
    const isa::Program& program;
    std::size_t window;
    Precedence& precedence;
    Estimator& estimator;
    SbufBudget& budget;
    bool balance;  // open copies go to the engine that starts them first (engines.hpp)
  };
  /// `block`: indices in the program; the first has `position` among its core's instructions.
  BlockScheduler(const Context& context, std::span<const std::uint32_t> block,
                 std::size_t position);
  /// The block's numbers (0 = its first instruction) in their new order.
  [[nodiscard]] std::vector<std::uint32_t> run();
  /// True if ScalarE got number `n`, which is VectorE's in the program. Call it after run().
  [[nodiscard]] bool moved_to_scalar(std::uint32_t n) const {
    return (nodes_[n].flags & kMoved) != 0;
  }

 private:
  static constexpr std::uint8_t kBegins = 1;  // a tile's life: needs space
  static constexpr std::uint8_t kHeld = 2;    // for want of space
  static constexpr std::uint8_t kDone = 4;
  static constexpr std::uint8_t kOpen = 8;    // may as well go to ScalarE
  static constexpr std::uint8_t kMoved = 16;  // has gone there
  struct Link : boost::intrusive::slist_base_hook<> {
    std::uint32_t follower = 0;
    bool reads = false;  // as Hazards::Edge
  };
  using Links = boost::intrusive::slist<Link, boost::intrusive::constant_time_size<false>,
                                        boost::intrusive::linear<true>>;
  struct Node {
    models::Fs ready = 0;  // operands there; the start once it is done
    models::Fs visible = 0;
    const Estimate* estimate = nullptr;
    std::uint32_t waits_for = 0;  // how many are not done
    Links followers = {};
    std::uint8_t flags = 0;
    [[nodiscard]] bool is(std::uint8_t flag) const { return (flags & flag) != 0; }
  };
  struct Later {
    models::Fs ready;
    std::uint32_t number;
    bool operator>(const Later& other) const {
      return ready != other.ready ? ready > other.ready : number > other.number;
    }
  };
  template <typename T>
  using Lowest = std::priority_queue<T, std::vector<T>, std::greater<>>;
  struct Choice {
    models::Fs at = models::kNever;
    std::uint32_t number = 0;
    bool hungry = false;
    [[nodiscard]] bool before(const Choice& other) const {
      return at != other.at ? at < other.at : number < other.number;
    }
  };
  struct Line {  // one engine
    models::Fs free = 0;
    Lowest<Later> later;                // operands ready at a known time
    Lowest<std::uint32_t> now, hungry;  // ready at `settled`; those that need budget apart
    models::Fs settled = 0;             // may lie after `free`, if nothing is ready before
    bool overtaken = false;             // what came since is ready before that
    Choice choice;                      // the latest
    bool chosen = false;                // which still holds
  };
  void admit();
  void add(std::uint32_t number);
  void link(std::uint32_t number, const Hazards::Edge& edge);
  void release(std::uint32_t number);
  [[nodiscard]] const Estimate& on_scalar(std::uint32_t number) const;
  void discard_done(Line& line);
  void settle(Line& line, models::Fs time);
  void unsettle(Line& line);
  [[nodiscard]] Choice choose(Line& line);
  [[nodiscard]] models::Fs start_on(const Line& line, std::uint32_t number) const;
  void issue(std::size_t engine, const Choice& choice);
  void finish_dma(Node& node, models::Fs start);
  [[nodiscard]] const isa::Inst& inst(std::uint32_t number) const {
    return context_.program.insts()[block_[number]];
  }

  Context context_;
  std::span<const std::uint32_t> block_;
  std::size_t position_;
  std::vector<Node> nodes_;
  models::Pool<Link> links_;
  std::array<Line, isa::kEngineCount> lines_;
  std::uint32_t front_ = 0, admitted_ = 0;
  models::Fs now_ = 0;        // start of the latest decision
  models::Fs freed_ = 0;      // when the latest life of a tile ended
  models::Fs transfers_ = 0;  // DMA engines busy until
  models::Fs table_load_ = 0;
  std::uint32_t table_ = 0;
};

}  // namespace nkisim::compiler
