// Declares the SystemC interface of the links between ranks, which carry collective operations.
#pragma once

#include <memory>
#include <systemc>
#include <vector>

#include "models/collective/collective.hpp"

namespace nkisim::models {

class link_if : public virtual sc_core::sc_interface {
 public:
  /// All ranks of a group have come; not before an earlier call's `now`.
  virtual Collectives::Id start(CollectiveRequest request, Fs now) = 0;
  /// The time of the next event if nothing is started before; kNever if nothing is left.
  [[nodiscard]] virtual Fs next() const = 0;
  /// Appends the ranks that have finished their part of an operation by `now`.
  virtual void advance(Fs now, std::vector<Collectives::RankDone>& done) = 0;
  /// Transfers that have begun since the last call.
  [[nodiscard]] virtual std::vector<Collectives::Moving> moving() = 0;
  [[nodiscard]] virtual RankPart part(Collectives::Id id, int position) const = 0;
  /// The timing of an operation that has ended, which is forgotten.
  virtual CollectiveTiming take(Collectives::Id id) = 0;
  /// A copy that may run ahead; null if no operation was started.
  [[nodiscard]] virtual std::unique_ptr<Collectives> copy() const = 0;
};

}  // namespace nkisim::models
