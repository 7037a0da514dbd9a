// Models one NeuronCore: its five engines, memories, semaphores and DMA rings. It also fixes the
// order of events at one instant.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "isa/machine/memory.hpp"
#include "models/clock.hpp"
#include "models/core/core_if.hpp"
#include "models/dma/dma_rings.hpp"
#include "models/engines/engine.hpp"
#include "models/issue/dispatcher.hpp"
#include "models/memory/psum.hpp"
#include "models/memory/sbuf.hpp"
#include "models/tie_rule.hpp"

namespace nkisim::models {

class Rank;
struct RankPart;
struct RunOptions;

/// The only process of a core is step(). At one instant first everything ends: DMA transfers, then
/// instructions of the engines in the order tensor, scalar, vector, gpsimd, sync. Then engines
/// start instructions, in the same order; and again, until nothing more is due. So which engine
/// takes a port first is a rule of the model, not of SystemC's scheduler.
class NeuronCore : public sc_core::sc_module, public core_if, private dma_core_if {
 public:
  [[nodiscard]] const char* kind() const override { return "NeuronCore"; }
  NeuronCore(const sc_core::sc_module_name& name, int id, const isa::Program& program,
             std::reference_wrapper<const Config> config, const CostTable& costs, Clock& clock,
             isa::Memory& memory, const RunOptions& options, const ObserverList& observers,
             Rank& rank);
  ~NeuronCore() override;
  sc_core::sc_port<hbm_if> hbm{"hbm"};

  // For its engines:
  [[nodiscard]] Operation* front(isa::Engine engine) override { return dispatcher_->front(engine); }
  void pop(isa::Engine engine) override { dispatcher_->pop(engine); }
  [[nodiscard]] Completion completion(QueueIndex queue, std::uint64_t number) const override {
    return completions_.get(queue, number);
  }
  void finish(Operation& op, Fs end) override;
  void post(const Operation& op, bool at_issue, Fs end) override;
  bool rendezvous(Operation& op, Fs now, Fs& since) override;
  void skip_rows(Operation& op) override;
  void start_collective(Operation& op, Fs triggered) override;

  // For those that bind its ports otherwise, before elaboration ends: what is bound stays so.
  [[nodiscard]] Engine& engine(isa::Engine id) {
    return *engines_.at(static_cast<std::size_t>(id));
  }
  [[nodiscard]] Sbuf& sbuf() { return *sbuf_; }
  [[nodiscard]] Psum& psum() { return *psum_; }
  [[nodiscard]] Semaphores& semaphores() { return *semaphores_; }
  [[nodiscard]] DmaRings& dma() { return *dma_; }

  // For its rank and the world:
  /// Nothing is due, and nothing that is under way will wake it.
  [[nodiscard]] bool idle() const { return next_ == kNever && dma_->asked() == 0; }
  /// Engines that found no work, or wait for another core, look again.
  void wake_all();
  /// Every engine that cannot go on, once nothing happens any more.
  [[nodiscard]] std::vector<const Engine*> blocked() const;
  [[nodiscard]] std::string queue_name(QueueIndex queue) const { return queue_names_.at(queue); }
  [[nodiscard]] Fs end() const;
  [[nodiscard]] std::uint64_t instructions() const { return dispatcher_->count(); }
  /// The message of a rendezvous instruction to its partner. It reads the registers of the issue.
  [[nodiscard]] isa::Parcel send(const Operation& op);
  [[nodiscard]] const isa::CoreState& state() const { return *state_; }
  [[nodiscard]] isa::EvalContext& context() { return *eval_; }
  /// The end of the last prepare of an operation in two parts.
  [[nodiscard]] Fs prepared() const { return prepared_; }
  /// A collective of this core is over. `part`: the rank's, null if it needed no other.
  void finish_collective(Operation& op, Fs end, const RankPart* part);

 private:
  void build(const isa::Program& program, const CostTable& costs, const RunOptions& options);
  void before_end_of_elaboration() override;
  void step();
  [[nodiscard]] Fs act(Fs now);
  void wake(Engine& engine);
  void due();
  Dispatcher::Options dispatch_options();
  void name_queue(QueueIndex queue, const std::string& queue_name);
  void evaluate(Operation& op);
  template <typename Fn>
  void issued_registers(const Operation& op, Fn&& fn);
  void wake_waiters(const Operation& op);
  void release(Operation& op);
  [[nodiscard]] Fs now() const override { return clock_.now(); }
  void dma_sooner() override;
  void dma_update(Transfer& transfer, int engine) override;
  void dma_done(Transfer& transfer) override;
  void dma_share(const Transfer& transfer, const LanePlan& plan, const LaneDone& done) override;
  void dma_packet(const Transfer& transfer, int engine, const PacketTime& packet) override;
  void update(const isa::SemaphorePost& post, const Operation& op, Fs end);

  int id_;
  const Config& config_;
  Clock& clock_;
  const ObserverList& observers_;
  Rank& rank_;
  TieOrder tie_;
  std::unique_ptr<isa::CoreState> state_;
  std::unique_ptr<isa::EvalContext> eval_;
  Completions completions_{isa::kEngineCount};
  std::vector<std::string> queue_names_;
  std::unique_ptr<Dispatcher> dispatcher_;
  // Modules, destroyed from the last to the first (ModuleList).
  std::unique_ptr<Sbuf> sbuf_;
  std::unique_ptr<Psum> psum_;
  std::unique_ptr<Semaphores> semaphores_;
  std::unique_ptr<DmaRings> dma_;
  ModuleList<Engine> engines_;                         // in the order of isa::Engine
  std::array<Engine*, isa::kEngineCount> in_order_{};  // ... as they are asked at one instant
  Alarm wake_;
  Fs next_ = 0;          // when something is due, as far as it is known; kNever: nothing is
  bool acting_ = false;  // within step()
  Fs dma_end_ = 0, prepared_ = 0;
};

/// The module of an engine: the class of models/engines with its name.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const char* name, isa::Engine id,
                                                  const EngineSetup& setup);

}  // namespace nkisim::models
