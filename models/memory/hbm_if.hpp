// The interface of an HBM stack, and of those that take from it.
#pragma once

#include <systemc>

#include "models/core/core_id.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// Engines that take from a stack together: those of one core.
class HbmUser {
 public:
  virtual ~HbmUser() = default;
  /// Takes for every packet that starts by `now`; only of engines that may end a transfer by then,
  /// unless `every`.
  virtual void take_until(Fs now, bool every) = 0;
  /// The time when the next packet may start; kNever if there is none.
  [[nodiscard]] virtual Fs next_packet() const = 0;
  /// Engines with packets to move, now or later.
  [[nodiscard]] virtual int busy() const = 0;
  [[nodiscard]] virtual CoreId id() const = 0;
};

class hbm_if : public virtual sc_core::sc_interface {
 public:
  /// False: the stack can serve all its engines at once and never delays anybody.
  [[nodiscard]] virtual bool limits() const = 0;
  /// `bytes` that an engine would move evenly in [start, start + span): by how much they end later.
  virtual Fs delay(Fs start, Fs span, double bytes) = 0;
  /// `bytes` that others move evenly in [start, start + span), or later where the stack is full:
  /// engines share the rest.
  virtual void reserve(Fs start, Fs span, double bytes) = 0;
  /// `user` outlives the last settle().
  virtual void join(HbmUser& user) = 0;
  /// Everybody takes until `now`, once at each instant. Called before anybody takes, submits or
  /// reserves anything, it keeps the order of cores at one instant, and of engines, out of the
  /// result.
  virtual void settle(Fs now) = 0;
  /// The same, and of all engines, also those that end no transfer yet, what starts before `now`.
  virtual void settle_all(Fs now) = 0;
};

}  // namespace nkisim::models
