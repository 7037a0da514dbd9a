// One NeuronCore: five engines, their memories' ports, the DMA engines and the program they run.
#pragma once

#include <array>
#include <memory>

#include "isa/machine/memory.hpp"
#include "models/dma/dma_process.hpp"
#include "models/engine.hpp"

namespace nkisim::models {

class Device;
struct RunOptions;

class Core : public EngineHost, private dma_core_if {
 public:
  Core(int id, const isa::Program& program, const Config& config, const CostTable& costs,
       SimSession& session, isa::Memory& memory, const RunOptions& options,
       const ObserverList& observers, Device& device);

  void finish(Operation& op, Fs end) override;
  void post(const Operation& op, bool at_issue, Fs end) override;
  void start_dma(Operation& op, const DgeConfig& dge, Fs first_packet) override;
  [[nodiscard]] int outstanding(isa::DgeMode mode) const override;
  [[nodiscard]] Fs room(QueueIndex queue, std::int64_t bytes) const override;
  bool rendezvous(Operation& op, Fs now, Fs& since) override;
  void start_collective(Operation& op, Fs triggered) override;

  void wake_all();
  /// Every engine that cannot go on, once nothing happens any more.
  [[nodiscard]] std::vector<const Engine*> blocked() const;
  [[nodiscard]] std::string queue_name(QueueIndex queue) const { return queue_names_.at(queue); }
  [[nodiscard]] Fs end() const;
  [[nodiscard]] std::uint64_t instructions() const { return dispatcher_->count(); }
  /// What a rendezvous instruction of this core sends its partner, with the registers it was issued
  /// with.
  [[nodiscard]] isa::Parcel send(const Operation& op);
  [[nodiscard]] const isa::CoreState& state() const { return *state_; }
  [[nodiscard]] isa::EvalContext& context() { return *eval_; }
  [[nodiscard]] dma_if& dma() { return *dma_; }
  /// When the last prepare of an operation in two parts ended.
  [[nodiscard]] Fs prepared() const { return prepared_; }
  /// A collective of this core is over. `part`: the rank's, null if it needed no other.
  void finish_collective(Operation& op, Fs end, const RankPart* part);

 private:
  Dispatcher::Options dispatch_options();
  void name_queue(QueueIndex queue, const std::string& queue_name);
  void evaluate(Operation& op);
  template <typename Fn>
  void issued_registers(const Operation& op, Fn&& fn);
  void wake_waiters(const Operation& op);
  void release(Operation& op);
  void dma_sooner() override { dma_process_->wake(); }
  void dma_update(Transfer& transfer, int engine) override;
  void dma_done(Transfer& transfer) override;
  void dma_share(const Transfer& transfer, const LanePlan& plan, const LaneDone& done) override;
  void dma_packet(const Transfer& transfer, int engine, const PacketTime& packet) override;
  void update(const isa::SemaphorePost& post, const Operation& op, Fs end);

  int id_;
  const Config& config_;
  const ObserverList& observers_;
  Device& device_;
  std::unique_ptr<isa::CoreState> state_;
  std::unique_ptr<isa::EvalContext> eval_;
  Completions completions_{isa::kEngineCount};
  Semaphores semaphores_;
  Ports ports_;
  std::vector<std::string> queue_names_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<DmaRings> dma_;
  std::unique_ptr<DmaProcess> dma_process_;
  std::array<std::unique_ptr<Engine>, isa::kEngineCount> engines_;
  Fs dma_end_ = 0, prepared_ = 0;
};

}  // namespace nkisim::models
