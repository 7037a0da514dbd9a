// Declares the SystemC interfaces between the DMA rings of a core and the rest of the core.
#pragma once

#include <systemc>

#include "models/dma/transfer.hpp"

namespace nkisim::models {

/// The view that engines and CC-cores have of the DMA rings of their core.
class dma_if : public virtual sc_core::sc_interface {
 public:
  /// Starts a transfer on the queue of `op`, whose first packet may go at `first_packet` (now or
  /// later).
  virtual void submit(Operation& op, const DgeConfig& dge, Fs first_packet) = 0;
  /// Transfers of a descriptor mode whose engines have not finished.
  [[nodiscard]] virtual int outstanding(isa::DgeMode mode) = 0;
  /// The time when the backlog of a queue, which has not begun to move, is at most `bytes` on every
  /// engine: now if that is so, else a time at which to ask again.
  [[nodiscard]] virtual Fs backlog(QueueIndex queue, std::int64_t bytes) = 0;
  /// So many bytes of a collective operation move now, in addition to the transfers.
  virtual void occupy(double bytes) = 0;
};

/// Questions and reports of the DMA rings to their core.
class dma_core_if : public virtual sc_core::sc_interface {
 public:
  [[nodiscard]] virtual Fs now() const = 0;
  /// The rings may have something to do sooner than they said.
  virtual void dma_sooner() = 0;
  /// An engine's semaphore write of this transfer has arrived.
  virtual void dma_update(Transfer& transfer, int engine) = 0;
  /// All of them have. The transfer is gone afterwards.
  virtual void dma_done(Transfer& transfer) = 0;
  /// An engine has moved its share; only with Options::shares.
  virtual void dma_share(const Transfer& transfer, const LanePlan& plan, const LaneDone& done) = 0;
  /// An engine has moved a payload packet; only with Options::packets.
  virtual void dma_packet(const Transfer& transfer, int engine, const PacketTime& packet) = 0;
};

}  // namespace nkisim::models
